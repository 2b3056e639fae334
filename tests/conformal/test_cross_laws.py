"""Coverage of CV+, jackknife+ and minimax where the truth is known, and of every group under a split.

Seeds are fixed. Each check states its law; false alarms are below 1e-6 each.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset import Bootstrap, ConformalClassifier, CVPlus, JackknifePlus, Minimax

CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [1.5, 1.5]])


def draw(generator, n):
    """Four overlapping Gaussian classes."""
    y = generator.integers(4, size=n)
    return CENTRES[y] + generator.normal(size=(n, 2)), y


class Oracle(ClassifierMixin, BaseEstimator):
    """Knows the truth and learns nothing."""

    def fit(self, X, y):
        self.classes_ = np.arange(4)
        return self

    def predict_proba(self, X):
        weights = np.exp(-((X[:, None, :] - CENTRES) ** 2).sum(axis=2) / 2)
        return weights / weights.sum(axis=1, keepdims=True)


def coverages(model, calibration, repetitions, n=60, m=200, alpha=0.1, **settings):
    found = []
    for r in range(repetitions):
        generator = np.random.default_rng([r, n])
        X, y = draw(generator, n)
        X_new, y_new = draw(generator, m)
        classifier = ConformalClassifier(model, calibration=calibration, alpha=alpha, random_state=r, **settings)
        found.append(classifier.fit_predict_set(X, y, X_new).covers(y_new).mean())
    return np.array(found)


@pytest.mark.parametrize(
    ("calibration", "n"),
    [(CVPlus(6), 60), (JackknifePlus(), 40), (Bootstrap(10), 60)],
    ids=["CV+", "jackknife+", "bootstrap"],
)
def test_oracle_coverage_is_exact(calibration, n):
    """With one model for all folds the rule is the conformal one: mean coverage k/(n+1), Beta-binomial variance.

    5.5 standard errors over 60 repetitions: false alarm 4e-8.
    """
    m, repetitions = 200, 60
    c = aptset.conformal_rank(n, 0.1) / (n + 1)
    error = (c * (1 - c) * (1 / (n + 2) + 1 / m) / repetitions) ** 0.5
    assert abs(coverages(Oracle(), calibration, repetitions, n).mean() - c) < 5.5 * error


@pytest.mark.parametrize(
    ("calibration", "promise", "near", "n"),
    [
        (CVPlus(10), 0.8, True, 60),
        (JackknifePlus(), 0.8, True, 40),
        (Minimax(), 0.9, False, 40),
        (Bootstrap(10), 0.8, False, 60),
    ],
    ids=["CV+", "jackknife+", "minimax", "bootstrap"],
)
def test_fitted_model_covers(calibration, promise, near, n):
    """The mean over 50 repetitions exceeds the promise; CV+ and jackknife+ are near 1 - alpha.

    Theorem: expectation at least the promise. The spread of one repetition is estimated from the sample, its mean has
    error s/sqrt(50); the promise may be missed by 5 of those (3e-7), and near means within 0.02 plus 5 of them: the
    model (naive Bayes on 40 rows or more) moves little when a row is left out, so the rule is almost the conformal one.
    """
    found = coverages(GaussianNB(), calibration, repetitions=50, n=n)
    error = found.std(ddof=1) / 50**0.5
    assert found.mean() > promise - 5 * error
    if near:
        assert abs(found.mean() - 0.9) < 0.02 + 5 * error


def test_guaranteed_level_covers():
    found = coverages(GaussianNB(), CVPlus(30), repetitions=30, alpha=0.2, level="guaranteed")
    assert found.mean() > 0.8


@pytest.mark.parametrize("by", ["label", "feature"])
def test_split_coverage_of_every_group_obeys_the_beta_binomial_law(by):
    """Law: within group g, covered of m is Beta-binomial(m, k_g, n_g + 1 - k_g), for the n_g of that split.

    The probability transform of the counts (randomised over their atoms) is uniform: one Kolmogorov-Smirnov test per
    group over 400 repetitions, p-value above 1e-6.
    """
    repetitions, alpha = 400, 0.2
    generator = np.random.default_rng(7 if by == "label" else 8)
    transformed = {}
    for r in range(repetitions):
        p = generator.dirichlet([2.0, 1.0, 0.5], size=400)
        y = (generator.random((400, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        feature = np.where(p[:, 0] > 0.6, "sure", "unsure")
        group = y if by == "label" else feature
        options = ({"groups": "label"}, {}) if by == "label" else ({"groups": feature[:200]}, {"groups": feature[200:]})
        calibration = aptset.calibrate(p[:200], y[:200], random_state=r, **options[0])
        covered = calibration.predict_set(p[200:], alpha, **options[1]).covers(y[200:])
        for name in np.unique(group):
            n, m = (group[:200] == name).sum(), (group[200:] == name).sum()
            count, k = covered[group[200:] == name].sum(), aptset.conformal_rank(n, alpha)
            assert k <= n, "enough samples in this design"
            law = stats.betabinom(m, k, n + 1 - k)
            u = law.cdf(count - 1) + generator.random() * law.pmf(count)
            transformed.setdefault(name, []).append(u)
    for values in transformed.values():
        assert len(values) == repetitions
        assert stats.kstest(values, "uniform").pvalue > 1e-6


def test_label_conditional_coverage_repairs_a_weak_class():
    """A model that misses one class covers it at 1 - alpha only when calibration is by label."""
    generator = np.random.default_rng(0)
    y = generator.choice(3, p=[0.6, 0.3, 0.1], size=20_000)
    p = generator.dirichlet([1, 1, 1], size=len(y)) * 0.3
    p[np.arange(len(y)), np.where(y == 2, 0, y)] += 0.7  # class 2 looks like class 0
    plain = aptset.calibrate(p[:10_000], y[:10_000], random_state=0).predict_set(p[10_000:])
    by_label = aptset.calibrate(p[:10_000], y[:10_000], groups="label", random_state=0).predict_set(p[10_000:])
    weak = y[10_000:] == 2
    assert plain.covers(y[10_000:])[weak].mean() < 0.6
    # About 1000 calibration and 1000 test rows of the class: standard deviation 0.0134, 6 of them below 0.9.
    assert by_label.covers(y[10_000:])[weak].mean() > 0.82
