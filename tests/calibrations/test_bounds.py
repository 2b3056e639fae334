"""The promises, from the formulas of the paper."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset import ConformalClassifier, CVPlus, JackknifePlus, Minimax

X, Y = load_iris(return_X_y=True)


def fitted(calibration, n=150, **settings):
    order = np.random.default_rng(0).permutation(150)[:n]
    return ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0, **settings).fit(
        X[order], Y[order]
    )


def test_theorems():
    n, k, alpha = 150, 10, 0.1
    assert fitted("split").guarantee(alpha) == 0.9
    loss = min(2 * (1 - 1 / k) / (n / k + 1), (1 - k / n) / (k + 1))
    assert fitted("cv+").guarantee(alpha) == pytest.approx(1 - 2 * alpha - loss, abs=1e-12)
    assert fitted("jackknife+", n=60).guarantee(alpha) == 0.8
    assert fitted(CVPlus(n_folds=60), n=60).guarantee(alpha) == 0.8
    assert fitted("minimax", n=60).guarantee(alpha) == 0.9
    m = n / 5
    expected = 1 - (alpha * (n + 1) + m - 1) / (n + m)
    assert fitted(Minimax(n_folds=5)).guarantee(alpha) == pytest.approx(expected, abs=1e-12)
    assert fitted("cv+").guarantee(0.6) == 0.0, "no promise is not a negative one"
    frozen = ConformalClassifier(FrozenEstimator(GaussianNB().fit(X, Y)), calibration="cv+").fit(X, Y)
    assert frozen.guarantee(alpha) == 0.9, "a frozen model is calibrated by all rows at once"


@pytest.mark.parametrize(
    ("calibration", "n"),
    [("split", 150), (CVPlus(25), 150), (JackknifePlus(), 60), (Minimax(), 60), (Minimax(30), 150)],
)
def test_guaranteed_level_promises_what_was_asked(calibration, n):
    alpha = 0.25
    classifier = fitted(calibration, n=n, alpha=alpha, level="guaranteed")
    assert classifier.guarantee() == pytest.approx(1 - alpha, abs=1e-12)
    chosen = classifier.input_level()
    assert chosen <= alpha
    nominal = fitted(calibration, n=n, alpha=alpha)
    assert (classifier.predict_set(X).mask >= nominal.predict_set(X).mask).all()
    if calibration == JackknifePlus():
        assert chosen == alpha / 2
    assert classifier.predict_set(X) == nominal.predict_set(X, Fraction(chosen).limit_denominator(10**9))
    assert f"level {chosen:.4g}" in repr(classifier)
    assert "promises coverage >= 0.75" in repr(classifier)


def test_unreachable_promise():
    classifier = fitted(CVPlus(3), n=30, level="guaranteed")
    with pytest.raises(ValueError, match=r"level='guaranteed' .* coverage 0.9; CV\+ .* calibration='split'"):
        classifier.predict_set(X, 0.1)


def test_probabilities_only():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=100)
    y = p.argmax(axis=1)
    assert aptset.calibrate(p, y).guarantee(0.1) == 0.9
    assert aptset.calibrate_cv(p, y, np.arange(100)).guarantee(0.1) == 0.8
    assert aptset.calibrate_cv(p, y, np.arange(100), combine="minimax").guarantee(0.1) == 0.9
    assert 0.7 < aptset.calibrate_cv(p, y, np.arange(100) % 10).guarantee(0.1) < 0.8
