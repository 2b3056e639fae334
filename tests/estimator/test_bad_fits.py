"""Fits that are refused, and what they leave behind: nothing."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset
from aptset import ConformalClassifier, Split

X, Y = load_iris(return_X_y=True)


NAMES = load_iris().target_names[Y]


def fitted(model=None, y=NAMES, **settings):
    return ConformalClassifier(model or GaussianNB(), random_state=0, **settings).fit(X, y)


BAD_FITS = {
    "no probabilities": (RidgeClassifier(), {}, NAMES, TypeError, "predict_proba.*CalibratedClassifierCV"),
    "not a model": (3, {}, NAMES, TypeError, "estimator must be"),
    "one class": (GaussianNB(), {}, np.zeros(150), ValueError, "one class only"),
    "alpha": (GaussianNB(), {"alpha": 2}, NAMES, ValueError, r"alpha must be in \(0, 1\)"),
    "calibration": (
        GaussianNB(),
        {"calibration": "spilt"},
        NAMES,
        ValueError,
        r"one of \['bootstrap', .*'split'\].*got 'spilt'",
    ),
    "calibration type": (GaussianNB(), {"calibration": 5}, NAMES, TypeError, "calibration must be"),
    "share": (GaussianNB(), {"calibration": Split(share=1.0)}, NAMES, ValueError, r"share must be in \(0, 1\)"),
    "conformity": (GaussianNB(), {"conformity": "apps"}, NAMES, ValueError, "conformity must be one of"),
    "random_state": (GaussianNB(), {"random_state": "x"}, NAMES, TypeError, "random_state must"),
    "length": (GaussianNB(), {}, NAMES[:10], ValueError, "inconsistent numbers of samples"),
    "targets": (GaussianNB(), {}, np.linspace(0, 1, 150), ValueError, "Unknown label type"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_fit_leaves_nothing_behind(case):
    model, settings, labels, error, message = BAD_FITS[case]
    classifier = ConformalClassifier(model, **settings)
    with pytest.raises(error, match=message):
        classifier.fit(X, labels)
    with pytest.raises(NotFittedError):
        classifier.predict_set(X)


def test_failing_refit_keeps_the_old_fit():
    classifier = fitted()
    expected = classifier.predict_set(X)
    with pytest.raises(ValueError, match="one class only"):
        classifier.fit(X, np.zeros(150))
    assert classifier.predict_set(X) == expected


def test_models_with_bad_probabilities():
    class Broken(GaussianNB):
        def predict_proba(self, X):
            return super().predict_proba(X) * 0.5

    with pytest.raises(ValueError, match="probabilities of the estimator must have rows that sum to 1"):
        ConformalClassifier(Broken()).fit(X, NAMES)

    class Several(GaussianNB):
        def predict_proba(self, X):
            return [super().predict_proba(X)] * 2

    with pytest.raises(TypeError, match="one probability per class"):
        ConformalClassifier(Several()).fit(X, NAMES)


def test_too_few_calibration_rows():
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(X[40:60], NAMES[40:60])
    with pytest.warns(UserWarning, match="at least 99 are needed") as w:
        assert (classifier.predict_set(X, 0.01).sizes == 2).all()
    assert len(w) == 1
    assert w[0].filename == __file__


def test_frozen_borders():
    model = GaussianNB().fit(X, Y)
    with pytest.raises(NotFittedError):
        ConformalClassifier(FrozenEstimator(GaussianNB())).fit(X, Y)
    with pytest.raises(ValueError, match=r"labels of the kind that the fitted model knows, \[0, 1, 2\]"):
        ConformalClassifier(FrozenEstimator(model)).fit(X, NAMES)
    for calibration in ("cv+", "jackknife+", "minimax", aptset.CVPlus(3)):
        with pytest.raises(ValueError, match=r"'split' for a FrozenEstimator.*Leave calibration out.*without Frozen"):
            ConformalClassifier(FrozenEstimator(model), calibration=calibration).fit(X, Y)
    with pytest.raises(TypeError, match="fit takes no"):
        ConformalClassifier(FrozenEstimator(model)).fit(X, Y, sample_weight=np.ones(150))
    half = make_pipeline(StandardScaler(), FrozenEstimator(model))
    with pytest.raises(ValueError, match="Wrap a fitted model as a whole"):
        ConformalClassifier(half).fit(X[:100], Y[:100])
