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
    frozen = ConformalClassifier(FrozenEstimator(GaussianNB().fit(X, Y))).fit(X, Y)
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
    # The sets are the p-values above the level used, to the last one; not those above alpha.
    np.testing.assert_array_equal(classifier.predict_set(X).mask, classifier.p_values(X) > chosen)
    assert f"level {chosen:.4g}" in repr(classifier)
    assert "promises coverage >= 0.75" in repr(classifier)


def test_unreachable_promise():
    """Refused before anything is fitted; what was fitted before stays."""
    classifier = fitted(CVPlus(5))
    expected = classifier.predict_set(X)
    classifier.set_params(calibration=CVPlus(3), level="guaranteed")
    message = r"level='guaranteed' .* coverage 0.9; CV\+ .* calibration='split'"
    for call in (lambda: classifier.fit(X[::5], Y[::5]), lambda: classifier.fit_predict_set(X[::5], Y[::5], X)):
        with pytest.raises(ValueError, match=message):
            call()
    assert classifier.set_params(level="nominal").predict_set(X) == expected


def test_promises_of_groups():
    """The least promise over the groups; of the bounds that hold for folds of this make-up, the best."""
    groups = np.where(np.arange(150) < 20, "small", "large")
    found = ConformalClassifier(GaussianNB(), calibration=CVPlus(10), random_state=0).fit(X, Y, groups=groups)
    sizes = found.fitted_.held_out.sizes_of_folds
    assert sizes.sum(axis=0).tolist() == [20, 130]
    expected = []
    for group in (0, 1):
        of_group = sizes[sizes[:, group] > 0]
        k, n = len(of_group), of_group[:, group].sum()
        assert np.ptp(of_group[:, group]) > 1, "uneven in this design"
        misses = [2 * 0.1 + 2 * (1 - 1 / k) / (n / k + 1)]
        for kind in np.unique(of_group, axis=0):
            m, others = kind[group], kind[group] * ((of_group == kind).all(axis=1).sum() + 1)
            misses.append((2 * 0.1 * (n + m) + m - 1) / others)
        expected.append(1 - min(misses))
    assert found.guarantee(0.1) == pytest.approx(min(expected), abs=1e-12)
    jackknife = ConformalClassifier(GaussianNB(), calibration="jackknife+").fit(X[::3], Y[::3], groups=groups[::3])
    assert jackknife.guarantee(0.1) == 0.8
    assert ConformalClassifier(GaussianNB(), groups="label").fit(X, Y).guarantee(0.1) == 0.9
    # A group too small for any threshold gets every label and does not stand in the way.
    tiny = np.where(np.arange(150) < 3, "tiny", "large")
    settings = {"calibration": CVPlus(50), "level": "guaranteed", "alpha": 0.6, "random_state": 0}
    reachable = ConformalClassifier(GaussianNB(), **settings).fit(X, Y, groups=tiny)
    assert reachable.guarantee() >= 0.4 - 1e-12
    uneven = np.repeat([0, 1, 2], [100, 25, 25])
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=150)
    for combine in ("plus", "minimax"):
        calibration = aptset.calibrate_cv(p, p.argmax(axis=1), uneven, combine=combine)
        assert calibration.guarantee(0.1) == pytest.approx(0.8 - 2 * (1 - 1 / 3) / (50 + 1), abs=1e-12)
    by_label = aptset.calibrate_cv(p, p.argmax(axis=1), np.arange(150) % 5, groups="label")
    assert by_label.guarantee(0.1) < aptset.calibrate_cv(p, p.argmax(axis=1), np.arange(150) % 5).guarantee(0.1)


def test_showing_never_fails():
    classifier = fitted("split")
    for settings in ({"alpha": 3}, {"alpha": [0.1, 0.2]}, {"level": "x"}):
        assert "ConformalClassifier" in repr(fitted("split").set_params(**settings))
    with pytest.raises(TypeError, match="alpha must be a number"):
        fitted("split", alpha=[0.1, 0.2])
    with pytest.raises(ValueError, match="level must be one of"):
        classifier.set_params(level="x").predict_set(X)


def test_probabilities_only():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=100)
    y = p.argmax(axis=1)
    assert aptset.calibrate(p, y).guarantee(0.1) == 0.9
    assert aptset.calibrate_cv(p, y, np.arange(100)).guarantee(0.1) == 0.8
    assert aptset.calibrate_cv(p, y, np.arange(100), combine="minimax").guarantee(0.1) == 0.9
    assert 0.7 < aptset.calibrate_cv(p, y, np.arange(100) % 10).guarantee(0.1) < 0.8


def test_too_few_samples_name_the_level_that_was_asked_for():
    """Not the input level of level="guaranteed", which the user never wrote."""
    classifier = fitted("jackknife+", n=30, alpha=0.1, level="guaranteed")
    with pytest.warns(UserWarning, match=r"30 calibration samples are too few for alpha=0.05 \(level="):
        assert (classifier.predict_set(X, 0.05).sizes == 3).all()
    with pytest.warns(UserWarning, match=r"alpha=0.05 \(level='guaranteed' runs at 0.025\): at least 39 are needed"):
        fitted("jackknife+", n=30, level="guaranteed").fit_predict_set(X[::5], Y[::5], X, [0.05, 0.2])
    with pytest.warns(UserWarning, match=r"too few for alpha=0.05: at least 19"):
        fitted("split", n=30).predict_set(X, 0.05)


@pytest.mark.parametrize("calibration", [CVPlus(25), Minimax(30), Minimax(7), JackknifePlus()], ids=str)
def test_p_values_are_compared_at_the_level_used(calibration):
    """Float against float, at levels where a p-value may stand exactly at the level."""
    classifier = fitted(calibration, n=60, level="guaranteed", alpha=0.9)
    p_values, alphas = classifier.p_values(X), [float(Fraction(2 * j, 61)) for j in range(15, 30)] + [0.7, 0.9]
    for alpha, sets in zip(alphas, classifier.predict_set(X, alphas), strict=True):
        np.testing.assert_array_equal(sets.mask, p_values > classifier.input_level(alpha))
        assert classifier.guarantee(alpha) >= 1 - alpha - 1e-12
