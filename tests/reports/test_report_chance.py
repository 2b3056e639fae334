"""Reports on calibrations whose u came from ids or from the caller."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

import aptset

X, Y = load_iris(return_X_y=True)
U = np.random.default_rng(0).random(150)


@pytest.mark.parametrize("calibration", ["split", "cv+"])
def test_of_classifiers(calibration):
    fitted = aptset.ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0).fit(X, Y, u=U)
    with pytest.raises(ValueError, match="calibration was passed u, and none came"):
        aptset.report(fitted, X, Y)
    page = aptset.report(fitted, X, Y, u=U)
    assert page.evaluation.coverage == fitted.predict_set(X, u=U).covers(Y).mean()
    by_id = aptset.ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0).fit(X, Y, ids=range(150))
    page = aptset.report(by_id, X, Y, ids=range(150))
    assert page.evaluation.mean_size == by_id.predict_set(X, ids=range(150)).sizes.mean()


def test_of_calibrations():
    matrix = np.random.default_rng(1).dirichlet([1, 1, 1], size=150)
    calibration = aptset.calibrate(matrix, Y, ids=range(150), random_state=0)
    frame = pd.DataFrame(matrix, columns=[0, 1, 2]).assign(customer=np.arange(150))
    page = aptset.report(calibration, frame, Y, ids="customer")
    assert page.evaluation.mean_size == calibration.predict_set(matrix, ids=range(150)).sizes.mean()
    folds = aptset.calibrate_cv(matrix, Y, np.arange(150) % 3, u=U, random_state=0)
    page = aptset.report(folds, [matrix] * 3, Y, u=U)
    assert page.evaluation.mean_size == folds.predict_set([matrix] * 3, u=U).sizes.mean()


def test_the_page_says_which_labels_it_speaks_of():
    rare = np.append(Y[:-1], 7)  # one label, seen once: a new row carries a new one in about 1 of 151
    with pytest.warns(UserWarning, match="a label that y does not hold"):
        fitted = aptset.ConformalClassifier(GaussianNB(), alpha=0.01, random_state=0).fit(X, rare)
    html = aptset.report(fitted, X, rare, alpha=0.1).html
    assert "the 4 labels that are known; a new row carries another one in about 0.66%" in html
    assert "yes, by the content of the row" in html
    assert (
        "yes, by the id of the row"
        in aptset.report(
            aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, Y, ids=range(150)), X, Y, ids=range(150)
        ).html
    )


def test_the_form_of_probabilities_is_that_of_the_sets():
    """Logits are hashed, and rows that are divided are hashed as they came: the page must ask in the same way."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(300, 4)) * 2
    odd = np.exp(logits)
    labels = generator.integers(4, size=300)
    for matrix, form in ((logits, {"logits": True}), (odd, {"normalize": True})):
        calibration = aptset.calibrate(matrix, labels, random_state=0, **form)
        made = aptset.report(calibration, matrix, labels, **form).evaluation
        sets = calibration.predict_set(matrix, **form)
        np.testing.assert_array_equal(made.evidence.sets.mask, sets.mask)
        np.testing.assert_allclose(made.evidence.probabilities, odd / odd.sum(axis=1, keepdims=True))


def test_a_form_that_the_source_does_not_take_is_refused():
    fitted = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, Y)
    matrix = np.random.default_rng(1).dirichlet([1, 1, 1], size=150)
    folds = aptset.calibrate_cv(matrix, Y, np.arange(150) % 3, random_state=0)
    for source, rows, form in ((fitted, X, {"normalize": True}), (folds, [matrix] * 3, {"logits": True})):
        with pytest.raises(ValueError, match=r"must be left out for a .* Only probabilities"):
            aptset.report(source, rows, Y, **form)
    assert aptset.report(folds, [matrix * 2] * 3, Y, normalize=True).evaluation.n == 150
