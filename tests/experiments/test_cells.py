"""Cells: paired data, shared fits, and the sets that the definitions give."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from aptset import ConformalClassifier, PredictionSets
from aptset.estimator.fitting import seed_unseeded
from aptset.experiments import designs as cells
from aptset.experiments.baselines import ConformalQuantileClassifier
from aptset.experiments.datasets import Mixed
from aptset.experiments.designs import FAMILY_OF, Cell, make_box, measure
from aptset.metrics import OF_SPLITS

SMALL = Cell("model1", 60, 200, "Oracle", "SC", 0)


def overall(rows):
    return {row["method"]: row for row in rows if row["condition"] == "all"}


def test_the_same_rows_for_every_box_and_method_but_not_for_every_repetition():
    first, second = SMALL.sample(), replace(SMALL, box="SVC", family="CV+").sample()
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y_test, second.y_test)
    other = replace(SMALL, repetition=1).sample()
    assert not np.array_equal(first.X, other.X)
    assert not np.array_equal(first.model.beta, other.model.beta)


def test_rows_of_real_data_are_distinct():
    sample = Cell("digits", 300, 500, "NNet", "SC", 0).sample()
    rows = np.concatenate([sample.X, sample.X_test])
    assert len(np.unique(rows, axis=0)) == 800
    with pytest.raises(ValueError, match=r"n_train \+ n_test must be at most the 1797 rows of digits; got 1500 \+ 500"):
        Cell("digits", 1500, 500, "NNet", "SC", 0).sample()


def test_cells_repeat_to_the_last_digit():
    assert str(SMALL.run()) == str(SMALL.run())  # as texts, since NaN is not itself
    assert str(SMALL.run()) != str(replace(SMALL, seed=1).run())


def test_one_fit_serves_sc_and_hcc(monkeypatch):
    fits = []

    def counting(*arguments):
        box = make_box(*arguments)
        kind = type(box)
        monkeypatch.setattr(kind, "fit", lambda self, X, y, fit=kind.fit: (fits.append(len(y)), fit(self, X, y))[1])
        return box

    monkeypatch.setattr(cells, "make_box", counting)
    found = overall(replace(SMALL, box="SVC", n_train=100).run())
    assert set(found) == {"SC", "HCC"}
    assert fits == [50]


def measured(cell, sets):
    sample = cell.sample()
    return str(list(measure(sets, sample.X_test, sample.y_test, sample.model, cell._seed("slices"))))


def written(cell, method):
    names = ("condition", "n", *OF_SPLITS, "expected_coverage")
    return str([{name: row[name] for name in names} for row in cell.run() if row["method"] == method])


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_sc_and_hcc_calibrate_on_the_half_that_did_not_train(alpha):
    cell = Cell("model1", 200, 300, "SVC", "SC", 0, alpha)
    sample, seed = cell.sample(), cell._seed("SVC", "SC")
    order = np.random.default_rng(seed).permutation(200)
    model = make_box("SVC", 10, sample.model)
    seed_unseeded(model, seed)
    model.fit(sample.X[order[:100]], sample.y[order[:100]])
    rest = order[100:]
    for method, conformity in (("SC", "adaptive"), ("HCC", "homogeneous")):
        classifier = ConformalClassifier(FrozenEstimator(model), conformity=conformity, alpha=alpha, random_state=seed)
        sets = classifier.fit(sample.X[rest], sample.y[rest]).predict_set(sample.X_test)
        assert written(cell, method) == measured(cell, sets)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize(("family", "calibration"), [("CV+", "cv+"), ("JK+", "jackknife+")])
def test_cross_cells_are_what_the_library_gives(family, calibration, alpha):
    cell = Cell("model2", 60, 200, "SVC", family, 0, alpha)
    sample = cell.sample()
    box, seed = make_box("SVC", 4, sample.model), cell._seed("SVC", family)
    classifier = ConformalClassifier(box, calibration=calibration, alpha=alpha, random_state=seed)
    assert written(cell, family) == measured(cell, classifier.fit(sample.X, sample.y).predict_set(sample.X_test))


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_cqc_rf_is_what_the_library_gives(alpha):
    cell = Cell("digits", 150, 200, "RFC", "CQC-RF", 0, alpha)
    sample = cell.sample()
    box, seed = make_box("RFC", 10, None), cell._seed("RFC", "CQC-RF")
    found = ConformalQuantileClassifier(box, quantiles="forest", alpha=alpha, random_state=seed)
    assert written(cell, "CQC-RF") == measured(cell, found.fit(sample.X, sample.y).predict_set(sample.X_test))


def test_the_key_says_all_that_a_result_depends_on(tmp_path):
    changes = {"data": "model2", "n_train": 61, "n_test": 201, "box": "SVC", "family": "CV+", "repetition": 1}
    changes |= {"alpha": 0.2, "seed": 1}
    keys = {replace(SMALL, **{name: value}).key for name, value in changes.items()}
    assert len(keys | {SMALL.key}) == len(changes) + 1
    assert replace(SMALL, folder=tmp_path).key == SMALL.key, "where data lie does not matter"
    real = replace(SMALL, data="mice")
    (tmp_path / "mice_protein.csv.gz").touch()
    assert real.key != replace(real, folder=tmp_path).key, "where they come from does"


def test_every_method_has_a_family_and_every_family_runs():
    small = Cell("model2", 90, 60, "Oracle", "SC", 0)
    found = {}
    for family in sorted(set(FAMILY_OF.values()) - {"CQC"}):  # its network is tested where torch is
        found |= overall(replace(small, family=family).run())
    assert set(found) == set(FAMILY_OF) - {"CQC"}
    for row in found.values():
        assert 0.5 <= row["coverage"] <= 1
        assert 0 <= row["size"] <= 4


def test_measures_by_definition():
    X = Mixed().draw_features(400, np.random.default_rng(0))
    truth = Mixed().probabilities(X)
    y = np.arange(400) % 4
    mask = np.random.default_rng(1).random((400, 4)) < 0.6
    rows = {row["condition"]: row for row in measure(PredictionSets.from_mask(mask), X, y, Mixed(), 0)}
    assert set(rows) == {"all", "X1=-1", "X1=1"}
    for condition, row in rows.items():
        mine = np.ones(400, dtype=bool) if condition == "all" else X[:, 0] == float(condition[3:])
        covered = mask[np.arange(400), y]
        assert row["n"] == mine.sum()
        assert row["coverage"] == pytest.approx(covered[mine].mean())
        assert row["size"] == pytest.approx(mask[mine].sum(axis=1).mean())
        assert row["size_given_coverage"] == pytest.approx(mask[mine & covered].sum(axis=1).mean())
        assert row["expected_coverage"] == pytest.approx((truth * mask)[mine].sum(axis=1).mean())
        assert np.isnan(row["worst_slice"]) == (condition != "all")


def test_exact_coverage_of_the_oracles_own_sets():
    # Law: the randomised oracle set covers each row with probability 1 - alpha exactly, up to clipping and, over the u
    # of 20,000 rows, a standard deviation of at most 0.5 / sqrt(20000); six of them: false alarm below 1e-8.
    row = overall(Cell("model1", 60, 20_000, "Oracle", "SC", 0).run())["oracle"]
    assert abs(row["expected_coverage"] - 0.9) < 6 * 0.5 / 20_000**0.5
