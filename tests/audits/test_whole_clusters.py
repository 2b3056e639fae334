"""Clusters in a classifier, in evaluations, audits, reports and commands: no cluster stands on both sides."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.audits.dataset import RandomSplit, prepare
from aptset.cli.main import main

GENERATOR = np.random.default_rng(0)
CLUSTERS = GENERATOR.permutation(np.repeat(np.arange(60), GENERATOR.integers(1, 9, 60)))
Y = GENERATOR.integers(0, 3, len(CLUSTERS))
X = GENERATOR.normal(size=(len(Y), 4)) + Y[:, None] + 2 * GENERATOR.normal(size=60)[CLUSTERS][:, None]


@pytest.mark.parametrize(
    "calibration", ["split", "cv+", "jackknife+", aptset.CVPlus(splitter=GroupKFold(5))], ids=lambda one: str(one)[:8]
)
def test_no_model_is_judged_by_clusters_that_trained_it(calibration):
    trained = []

    class Spy(GaussianNB):
        def fit(self, X, y):
            trained.append(set(X[:, 0].tolist()))
            return super().fit(X, y)

    features = np.column_stack([CLUSTERS, X])
    classifier = aptset.ConformalClassifier(Spy(), calibration=calibration, random_state=0)
    classifier.fit(features, Y, clusters=CLUSTERS)
    folds = classifier.fitted_.held_out.folds
    assert len(trained) == len(folds)
    held_out = [len(np.unique(fold.clusters)) for fold in folds]
    assert [60 - len(one) for one in trained] == held_out  # whole clusters: what did not train is held out
    assert classifier.n_calibration_ == sum(held_out)


@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_a_fitted_classifier_is_stored_and_clusters_of_one_row_are_plain(calibration, tmp_path):
    make = lambda: aptset.ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0)  # noqa: E731
    frame = pd.DataFrame(X, columns=list("abcd")).assign(patient=CLUSTERS)
    classifier = make().fit(frame, Y, clusters="patient")
    classifier.save(tmp_path / "stored")
    stored = aptset.load(tmp_path / "stored")
    new = frame.drop(columns="patient")
    for one in (stored, make().fit(new, Y, clusters=frame["patient"])):
        assert np.array_equal(one.p_values(frame if one is stored else new), classifier.p_values(new))
    assert "for a row of a new patient" in repr(stored)
    assert stored.guarantee().about == "a row of a new patient"
    sets = make().fit_predict_set(new, Y, new, clusters=CLUSTERS)
    assert np.array_equal(sets.mask, classifier.predict_set(new).mask)
    single, plain = make().fit(X, Y, clusters=np.arange(len(Y))), make().fit(X, Y)
    assert np.array_equal(single.p_values(X), plain.p_values(X))


def test_refusals_of_a_classifier():
    refused = {
        "calibration='minimax'": {"calibration": "minimax"},
        "level must be 'nominal'": {"level": "guaranteed"},
        "weights must be left out": {"weights": lambda X: np.ones(len(X))},
        "60 clusters for n_folds=70": {"calibration": aptset.CVPlus(70)},
    }
    for words, settings in refused.items():
        with pytest.raises(ValueError, match=words):
            aptset.ConformalClassifier(GaussianNB(), **settings).fit(X, Y, clusters=CLUSTERS)


def test_evaluations_are_means_of_cluster_means():
    sets = aptset.calibrate(np.abs(X[:, :3]) / np.abs(X[:, :3]).sum(axis=1)[:, None], Y, random_state=0)
    sets = sets.predict_set(np.abs(X[:, :3]) / np.abs(X[:, :3]).sum(axis=1)[:, None], 0.2)
    evaluation = aptset.evaluate(sets, Y, clusters=pd.Series(CLUSTERS, name="patient"), alpha=0.2)
    frame = pd.DataFrame({"cluster": CLUSTERS, "y": Y, "covered": sets.covers(Y), "size": sets.sizes})
    means = frame.groupby("cluster")[["covered", "size"]].mean()
    for estimate, values in ((evaluation.coverage, means["covered"]), (evaluation.mean_size, means["size"])):
        assert float(estimate) == pytest.approx(values.mean(), abs=1e-12)
        assert estimate.standard_error == pytest.approx(values.std() / 60**0.5, abs=1e-12)
        assert (estimate.n, estimate.over) == (60, "patients")
    by_label = frame.groupby(["y", "cluster"])["covered"].mean().groupby("y").mean()
    assert {k: float(v) for k, v in evaluation.by_label.items()} == pytest.approx(by_label.to_dict(), abs=1e-12)
    label, lowest = evaluation.lowest()
    assert lowest.low <= evaluation.by_label[label].low
    votes = np.random.default_rng(1).multinomial(5, [0.5, 0.3, 0.2], size=len(Y))
    of_votes = aptset.evaluate(sets, votes=votes).coverage
    assert float(of_votes) == pytest.approx(((votes * sets.mask).sum(axis=1) / 5).mean(), abs=1e-12)
    single = aptset.evaluate(sets, votes=np.eye(3)[Y])
    assert float(single.coverage) == pytest.approx(float(aptset.evaluate(sets, Y).coverage), abs=1e-12)


def test_audits_split_by_cluster_and_reports_show_one_row_of_each(tmp_path):
    pool, _ = prepare(X, Y, None, None, 0.3, clusters=CLUSTERS)
    for repetition in (-1, 0, 1):
        train, test = RandomSplit(pool, "one", None, repetition, 0).split()
        assert not set(pool.clusters[train]) & set(pool.clusters[test])
        assert len(set(pool.clusters[test])) == 18
        assert len(train) + len(test) == len(Y)
    found = aptset.audit(GaussianNB(), X, Y, calibrations="split", repetitions=3, clusters=CLUSTERS)
    assert "for a row of a new cluster" in found.verdicts["split"].sentence()
    assert found.verdicts["split"].chance is None
    candidates = {"one": GaussianNB(), "two": GaussianNB(var_smoothing=0.1)}
    assert len(aptset.compare(candidates, X, Y, repetitions=3, clusters=CLUSTERS).ranking) == 2
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, Y, clusters=CLUSTERS)
    page = aptset.report(classifier, X, Y, clusters=CLUSTERS)
    assert "The set of a row of a new cluster holds its true label" in page.html
    assert page.evaluation.coverage.n == 60
    votes = np.eye(3)[Y] * 2 + 1
    assert "one answer to each row" in aptset.report(classifier, X, votes=votes).html


@pytest.mark.filterwarnings("default:column .patient_id")
def test_the_command_line_takes_a_column_of_clusters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(patient_id=[f"P{k:03}" for k in CLUSTERS], diagnosis=Y)
    frame.to_csv("rows.csv", index=False)
    P = np.abs(X[:, :3]) / np.abs(X[:, :3]).sum(axis=1)[:, None]
    scores = pd.DataFrame(P, columns=["p_0", "p_1", "p_2"]).assign(y=Y, patient=CLUSTERS)
    scores.to_parquet("all.parquet")
    scores[:100].to_parquet("a.parquet")
    scores[100:].to_parquet("b.parquet")

    def run(*words):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.output

    for files, out in ((["all.parquet"], "one.aptset"), (["a.parquet", "b.parquet"], "two.aptset")):
        words = run("calibrate", *files, "--label", "y", "--prefix", "p_", "--cluster", "patient", "-o", out)
        assert "of 60 patients" in words
    arrays = aptset.calibrate(P, Y.astype(str), classes=["0", "1", "2"], clusters=CLUSTERS, random_state=0)
    for out in ("one.aptset", "two.aptset"):
        assert np.array_equal(aptset.load(out).p_values(P), arrays.p_values(P))
    for command in (["run", "--out", "pooled"], ["audit", "--repetitions", 2, "--jobs", 1, "--calibration", "split"]):
        words = run(command[0], "rows.csv", "--target", "diagnosis", *command[1:])
        assert words.count("'patient_id' has 60 values") == 1
        assert "On rows of 18 patients that were kept out" in words
    words = run("run", "rows.csv", "--target", "diagnosis", "--cluster", "patient_id", "--out", "whole")
    assert "for a row of a new patient" in words
    assert "18 patients, s.e." in words
    run("predict", "rows.csv", "-c", "whole", "-o", "sets.csv")
    run("report", "all.parquet", "--label", "y", "--prefix", "p_", "-c", "one.aptset", "--cluster", "patient")
    words = run(
        "audit", "rows.csv", "--target", "diagnosis", "--cluster", "patient_id", "--repetitions", 2, "--jobs", 1
    )
    assert "18 patients test" in words
