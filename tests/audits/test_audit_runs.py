"""Audits and comparisons as users run them: resumable, parallel, on files, and on a page."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_audit_chances import rows

import aptset
from aptset.audits.dataset import RandomSplit, as_conformal, prepare
from aptset.audits.results import SplitResult
from aptset.core.runner import as_json
from aptset.metrics import OF_SPLITS
from aptset.metrics.estimates import resampled_share
from shell import failure, run

BAYES = GaussianNB()


def test_every_calibration_has_its_distribution():
    X, y = rows(300)
    groups = np.where(X[:, 2] > 0, "up", "down")
    found = aptset.audit(BAYES, X, y, repetitions=6, groups=groups, calibrations=["split", "cv+", "minimax"])
    frame = found.to_frame()
    assert len(frame) == 18
    assert found.repetitions == 6
    one = frame[(frame["candidate"] == "cv+") & (frame["repetition"] == 3)].iloc[0]
    assert one["coverage"] == one["covered"] / one["rows"]
    parts = {(row.candidate, row.part, row.name, row.metric) for row in found.summary()}
    assert ("split", "label", "2", "coverage") in parts
    assert ("minimax", "group", "down", "size") in parts
    assert found.verdicts["split"].chance is not None
    assert found.verdicts["cv+"].chance is None
    assert found.verdicts["cv+"].promise < 0.8
    for part, names in (("label", {"0", "1", "2"}), ("group", {"up", "down"})):
        shown = [row for row in found.summary() if (row.candidate, row.part, row.metric) == ("cv+", part, "coverage")]
        assert {row.name for row in shown} == names
        for row in shown:  # the lowest of them is named: all intervals hold at once
            of_splits = [one for result in found.splits.of("cv+") for one in result.parts]
            shares = [one.covered / one.rows for one in of_splits if (one.part, one.name) == (part, row.name)]
            expected = resampled_share(np.array(shares), found.splits.test_share, 1 - 0.05 / len(names))
            assert (row.low, row.high) == (expected.low, expected.high)
    table = found.plot("worst_slice", "split").frame()
    assert table["share"].iloc[-1] == 1


def test_a_split_is_what_it_says():
    X, y = rows(200)
    found = aptset.audit(BAYES, X, y, repetitions=3, calibrations="split", random_state=7)
    data, _ = prepare(X, y, None, None, 0.3, seed=7)
    task = RandomSplit(data, "split", as_conformal(BAYES, "split", None), 1, 7, "p_values")
    train, test = task.split()
    assert sorted([*train, *test]) == list(range(200))
    assert len(test) == 60
    row = found.splits.of("split")[1]
    assert row.laws == [(60, 70)]
    assert row.covered <= 60
    assert SplitResult.of_row(json.loads(as_json(task.run()[0]))) == row


def test_workers_and_restarts_change_nothing(tmp_path):
    X, y = rows(150)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(X[:, 0] > 0, "x", "y"))
    model = LogisticRegression()
    numbers = frame[["a", "b", "c"]]
    settings = {"repetitions": 4, "calibrations": "split"}
    alone = aptset.audit(model, numbers, y, **settings)
    kept = aptset.audit(model, numbers, y, folder=tmp_path, n_jobs=2, **settings)
    assert repr(alone) == repr(kept)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 5, "four splits, and the one in order"
    next(iter(files)).unlink()
    assert repr(aptset.audit(model, numbers.copy(), y, folder=tmp_path, **settings)) == repr(kept)
    again = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert again.keys() == files.keys()
    assert sum(again[path] == files[path] for path in files) == 4, "only what was missing is done"
    aptset.audit(model, numbers + 1, y, folder=tmp_path, **settings)
    assert len(list(tmp_path.iterdir())) == 10, "other rows are other splits"


def test_models_with_functions_made_on_the_spot():
    X, y = rows(100)
    model = make_pipeline(FunctionTransformer(lambda X: 2 * X), GaussianNB())
    assert aptset.audit(model, X, y, repetitions=2, calibrations="split", n_jobs=2).n_test == 30


def test_labels_as_groups_have_an_exact_law_too():
    X, y = rows(500)
    classifier = aptset.ConformalClassifier(BAYES, groups="label", alpha=0.2)
    found = aptset.audit(classifier, X, y, repetitions=5)
    (verdict,) = found.verdicts.values()
    assert verdict.kept
    assert verdict.low <= verdict.coverage <= verdict.high
    assert len(found.splits.of("as given")[0].laws) == 3


def test_a_fitted_model_calibrates_on_every_other_row():
    X, y = rows(300)
    frozen = FrozenEstimator(GaussianNB().fit(X[:100], y[:100]))
    found = aptset.audit(frozen, X[100:], y[100:], repetitions=3, calibrations="split")
    assert found.splits.of("split")[0].laws == [(60, 140)]


def test_data_that_cannot_be_sliced_have_no_worst_slice():
    X, y = rows(120)
    X[0, 0] = np.inf
    found = aptset.audit(DummyClassifier(strategy="prior"), X, y, repetitions=2, calibrations="split")
    assert found.to_frame()["worst_slice"].isna().all()
    assert "nan" in repr(found)


def test_slices_in_other_features():
    X, y = rows(400)
    X[0, 0] = np.inf
    settings = {"repetitions": 2, "calibrations": "split"}
    found = aptset.audit(DummyClassifier(strategy="prior"), X, y, features=X[:, 1:], **settings)
    assert found.to_frame()["worst_slice"].notna().any()
    with pytest.raises(ValueError, match="X must be finite to look for slices"):
        aptset.audit(DummyClassifier(strategy="prior"), X, y, features=X, **settings)


def test_comparison_is_paired_and_plain():
    X, y = rows(300)
    models = {"guess": DummyClassifier(strategy="prior"), "bayes": BAYES, "same bayes": GaussianNB()}
    found = aptset.compare(models, X, y, repetitions=12)
    assert found.ranking[2] == "guess"
    assert abs(found.difference("bayes", "same bayes", "size")) == 0
    paired = found.splits.values("guess", "size") - found.splits.values("bayes", "size")
    size = found.difference("guess", "bayes", "size")
    assert float(size) == pytest.approx(paired.mean())
    assert found.difference("bayes", "guess", "size").low == pytest.approx(-size.high)
    wide = found.difference("guess", "bayes", "size", about="data")
    assert wide.high - wide.low > size.high - size.low
    assert float(wide) == pytest.approx(float(size))
    first, second = found.sentences()
    assert first.startswith("No clear difference in size")
    assert "labels smaller on average than guess's" in second
    assert "difference in coverage (" in second
    frame = found.to_frame()
    assert len(frame) == 2 * len(OF_SPLITS)
    assert found.plot("size").frame()["candidate"].tolist() == found.ranking
    assert found.headline().endswith("without a clear lead")


def test_what_is_refused(tmp_path):
    X, y = rows(50)
    refused = [
        ({"repetitions": 1}, "repetitions must be a whole number, at least 2"),
        ({"test_share": 1.5}, r"test_share must be in \(0, 1\)"),
        ({"test_share": 0.001}, "test_share must leave a row to test"),
        ({"calibrations": "nearest"}, "calibrations must be among"),
        ({"calibrations": []}, "calibrations must be at least one"),
        ({"groups": [1]}, "groups must have one entry per row"),
        ({"groups": aptset.Overlapping([[True]] * 50)}, "overlapping groups have no place in an audit"),
        ({"time": [1]}, "time must have one entry per row"),
        ({"time": [None] * 50}, "time must not have missing values"),
        ({"alpha": 2}, "alpha must be in"),
        ({"random_state": None}, "random_state must be a whole number"),
    ]
    for settings, message in refused:
        with pytest.raises(ValueError, match=message):
            aptset.audit(BAYES, X, y, **settings)
    with pytest.raises(ValueError, match="time must hold numbers throughout, or dates throughout; row 0 holds 'a'"):
        aptset.audit(BAYES, X, y, time=["a", 1] * 25)
    with pytest.raises(TypeError, match=r"LabelBands, which are about labels. Pass bands.of\(labels\)"):
        aptset.audit(BAYES, X, y, groups=aptset.LabelBands(dict.fromkeys(y.tolist(), 1)))
    with pytest.raises(TypeError, match="estimator must be a scikit-learn classifier"):
        aptset.audit(object(), X, y)
    with pytest.raises(ValueError, match="candidates must be a dictionary of at least two"):
        aptset.compare({"one": BAYES}, X, y)
    found = aptset.compare({"a": BAYES, "b": BAYES}, X, y, repetitions=2)
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        found.report(tmp_path / "x.txt")


def test_too_few_rows_for_a_worst_slice_still_give_advice():
    X, y = rows(100)
    found = aptset.compare({"a": BAYES, "b": BAYES}, X, y, repetitions=2)
    assert np.isnan(found.splits.values("a", "worst_slice")).all()
    assert "worst slice is covered best" not in repr(found)  # and no warning about a mean of nothing


@pytest.fixture
def table(tmp_path):
    X, y = rows(160)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.array(["lo", "mid", "hi"])[y], day=range(160))
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_commands(table):
    out = table.parent / "found"
    options = ["--target", "y", "--repetitions", 3, "--jobs", 1, "-o", out, "--json"]
    found = json.loads(run("audit", table, *options, "--model", "bayes", "--time", "day").stdout)
    assert set(found["verdicts"]) == {"split", "cv+"}
    assert (out / "audit.html").read_text().startswith("<!doctype html>")
    assert len(pd.read_csv(out / "splits.csv")) == 6
    found = json.loads(run("compare", table, *options, "--model", "bayes", "--model", "tree").stdout)
    assert sorted(found["ranking"]) == ["bayes", "tree"]
    assert (out / "compare.html").exists()
    assert "compare needs two candidates" in run("compare", table, *options, "--model", "bayes", rc=2).stderr
    assert "must have a column 'when'" in failure("audit", table, *options, "--time", "when")


def test_a_monitor_looks_along_the_last_rows():
    """The rows in the order of their times, whatever their order in the table; sets of folds follow no urn."""
    X, y = rows(300)
    y[210:] = (y[210:] + 1) % len(set(y))  # the last rows, which test, have other labels
    order = np.random.default_rng(2).permutation(300)
    with pytest.warns(UserWarning, match="do not look exchangeable"):
        found = aptset.audit(BAYES, X[order], y[order], repetitions=6, calibrations="split", time=order)
    assert found.drift.sentence().endswith(found.drift.monitor)
    evidence, peak = re.search(r"ends at evidence (\S+), (\S+) at its peak", found.drift.monitor).groups()
    assert 100 < float(evidence) <= float(peak)
    assert aptset.audit(BAYES, X[:200], y[:200], repetitions=6, calibrations="cv+").drift.monitor is None
