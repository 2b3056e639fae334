"""Copies of a row have chances of their own, and other ones on the other side; only the first is one row."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import aptset
from aptset.kernels.copies import CALIBRATION, PREDICTION, own_seeds
from aptset.kernels.rowhash import uniforms
from aptset.kernels.seeding import hash_rows
from aptset.probabilities.chance.seeds import row_seeds

Y = np.arange(300) % 3


def test_each_side_of_a_classifier_has_its_own_copies():
    X = np.zeros((300, 2))
    classifier = aptset.ConformalClassifier(DummyClassifier(strategy="prior"), random_state=0).fit(X, Y)
    rule = classifier.fitted_.rule
    assert rule.chance.copies == pytest.approx(299 / 300)
    new = rule.samples(X)[0].seeds
    np.testing.assert_array_equal(new, own_seeds(row_seeds(X, rule.key), PREDICTION))
    old = rule.calibration_samples(X, None, None, None)[0].seeds
    np.testing.assert_array_equal(old, own_seeds(row_seeds(X, rule.key), CALIBRATION))
    assert set(new.tolist()) & set(old.tolist()) == {int(new[0])}


def test_each_side_of_a_calibration_has_its_own_copies():
    matrix = np.tile([0.5, 0.3, 0.2], (300, 1))
    calibration = aptset.calibrate(matrix, np.zeros(300, dtype=int), random_state=0)
    hashes = hash_rows(matrix, calibration.key)
    u = uniforms(own_seeds(hashes, CALIBRATION))  # the score of the most likely label is (1 - u) p
    np.testing.assert_allclose(calibration.scores, np.sort((1 - u) * 0.5), atol=1e-15)
    u_new = uniforms(own_seeds(hashes, PREDICTION))
    below = np.searchsorted(calibration.scores, (1 - u_new) * 0.5 - 1e-12)  # a tie with its twin is not below
    np.testing.assert_allclose(calibration.p_values(matrix)[:, 0], (301 - below) / 301, atol=1e-12)


@pytest.mark.parametrize("ids", [None, range(300)])
@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_small_calls_of_a_classifier_warn_once(calibration, ids, tmp_path):
    """Whatever u came from at calibration, new rows without ids draw it from their content."""
    X, model = np.zeros((300, 2)), DummyClassifier(strategy="prior")
    classifier = aptset.ConformalClassifier(model, calibration=calibration, random_state=0).fit(X, Y, ids=ids)
    classifier.save(tmp_path / "kept")
    for one in (classifier, aptset.load(tmp_path / "kept")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.predict_set(X[:2], u="fresh")
            one.predict_frame(X[:2], ids=["a", "b"])
            aptset.scorer("mean_size")(one, X[:2], Y[:2])  # a test set comes once
        with pytest.warns(UserWarning, match=r"copies of others, and 2 rows came without ids") as caught:
            one.p_values(X[:2])
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one.predict_set(X[:2])
        assert caught[0].filename == __file__


def test_rows_that_have_ids_need_no_hash():
    X = [[object()] for _ in range(60)]
    model = make_pipeline(FunctionTransformer(len_of_rows), DummyClassifier(strategy="prior"))
    classifier = aptset.ConformalClassifier(model, random_state=0).fit(X, Y[:60], ids=range(60))
    assert classifier.predict_set(X, ids=range(60)).sizes.sum() > 0


def len_of_rows(rows):
    return np.zeros((len(rows), 1))
