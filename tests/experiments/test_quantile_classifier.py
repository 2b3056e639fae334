"""Conformal quantile classification: by definition, by law, at the border."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from aptset.experiments.baselines import ConformalQuantileClassifier, ForestQuantiles, thirds


class Known(ClassifierMixin, BaseEstimator):
    """Probabilities are a fixed function of x, in eighths, so that exact arithmetic can follow."""

    def fit(self, X, y):
        self.classes_, self.rows_ = np.unique(y), X
        return self

    def predict_proba(self, X):
        first = np.floor(np.abs(X[:, 0]) * 7 % 7) / 8
        return np.column_stack([first, (7 / 8 - first) / 2, 1 - first - (7 / 8 - first) / 2])


class Line(BaseEstimator):
    """Quantiles that are a fixed function of x; remembers what it was asked to regress."""

    def fit(self, X, y):
        self.rows_, self.target_ = X, y
        return self

    def predict(self, X):
        return np.column_stack([np.floor(X[:, 0] * 16) / 64, np.floor(X[:, 0] * 16) / 32 + 0.5])


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_are_the_definition(side, alpha):
    generator = np.random.default_rng(0)
    X, y = generator.random((100, 2)), generator.integers(3, size=100)
    new = generator.random((40, 2))
    found = ConformalQuantileClassifier(Known(), quantiles=Line(), side=side, alpha=alpha, random_state=1).fit(X, y)
    first, second, third = thirds(100, np.random.default_rng(1))
    np.testing.assert_array_equal(found.model_.rows_, X[first])
    np.testing.assert_array_equal(found.quantiles_.rows_, X[second])
    of_truth = found.model_.predict_proba(X[second])[np.arange(34), y[second]]
    np.testing.assert_array_equal(found.quantiles_.target_, of_truth)
    column = 1 if side == "upper" else 0

    def exact(values):
        return [[Fraction(float(value)) for value in row] for row in values]

    p, q = exact(Known().fit(X, y).predict_proba(X)), exact(Line().predict(X))
    p_new, q_new = exact(Known().fit(X, y).predict_proba(new)), exact(Line().predict(new))
    differences = sorted(q[i][column] - p[i][y[i]] for i in third)
    correction = differences[ceil((1 - Fraction(str(alpha))) * 34) - 1]
    sets = found.predict_set(new)
    for row in range(40):
        expected = {label for label in range(3) if p_new[row][label] >= q_new[row][column] - correction}
        assert set(sets[row].tolist()) == expected
        mine = [float(p_new[row][label]) for label in sets[row]]
        assert mine == sorted(mine, reverse=True), "most likely first"


def test_a_thousand_rows_are_333_334_333():
    parts = thirds(1000, np.random.default_rng(0))
    assert [len(part) for part in parts] == [333, 334, 333]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_coverage_follows_the_law_of_split_calibration(side):
    # Law: the covered rows of one fit are Beta-binomial(m, k, n + 1 - k); probabilities and quantiles have no ties.
    # 40 fits are summed; normal approximation with 6 standard deviations, fixed seeds: false alarm below 1e-8.
    n, m, fits, total = 33, 200, 40, 0
    for seed in range(fits):
        generator = np.random.default_rng(seed)
        y = generator.integers(3, size=99 + m)
        X = generator.normal(size=(99 + m, 2)) + y[:, None]
        found = ConformalQuantileClassifier(
            GaussianNB(), quantiles=ForestQuantiles(n_estimators=5), side=side, random_state=seed
        ).fit(X[:99], y[:99])
        total += found.predict_set(X[99:]).covers(y[99:]).sum()
    k = ceil(0.9 * (n + 1))
    law = betabinom(m, k, n + 1 - k)
    assert total > fits * law.mean() - 6 * (fits * law.var()) ** 0.5
    assert total < fits * law.mean() + 6 * (fits * law.var()) ** 0.5 + 0.01 * fits * m  # leaves of a forest can tie


def test_labels_are_the_users_and_alpha_may_change_later():
    X, y = load_iris(return_X_y=True)
    names = load_iris().target_names[y]
    found = ConformalQuantileClassifier(GaussianNB(), quantiles="forest", random_state=0).fit(X, names)
    assert found.predict_set(X).classes.tolist() == ["setosa", "versicolor", "virginica"]
    small, large = found.predict_set(X, alpha=0.3), found.predict_set(X, alpha=0.05)
    assert (small.mask <= large.mask).all()
    assert set(found.predict(X)) <= set(names)
    again = ConformalQuantileClassifier(GaussianNB(), quantiles="forest", random_state=0).fit(X, names)
    assert again.predict_set(X) == found.predict_set(X)


def test_too_few_rows_give_every_label_and_a_warning():
    X, y = load_iris(return_X_y=True)
    rows = np.arange(0, 150, 8)
    found = ConformalQuantileClassifier(GaussianNB(), quantiles="forest", random_state=0).fit(X[rows], y[rows])
    with pytest.warns(UserWarning, match="6 calibration samples are too few for alpha=0.1: at least 9 are needed"):
        assert (found.predict_set(X).sizes == 3).all()


def test_the_paper_s_forest():
    forest = ForestQuantiles()
    assert (forest.n_estimators, forest.min_samples_split) == (100, 3)
    X = np.random.default_rng(0).random((300, 1))
    y = X[:, 0] + np.random.default_rng(1).random(300)
    low, high = forest.set_params(random_state=0).fit(X, y).predict(X).T
    assert (low <= high).all()
    assert 0.7 < np.mean((y >= low) & (y <= high)) <= 1


def test_bad_input():
    X, y = load_iris(return_X_y=True)
    for settings, message in (
        ({"quantiles": "tree"}, r"quantiles must be one of \['forest', 'network'\] or an object with predict"),
        ({"side": "middle"}, r"side must be one of \['upper', 'lower'\]; got 'middle'"),
        ({"alpha": 1.5}, r"alpha must be in \(0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ConformalQuantileClassifier(GaussianNB(), **{"quantiles": "forest", **settings}).fit(X, y)
    with pytest.raises(ValueError, match="y must hold at least 2 classes"):
        ConformalQuantileClassifier(GaussianNB(), quantiles="forest").fit(X, np.zeros(150))


@parametrize_with_checks(
    [
        ConformalQuantileClassifier(LogisticRegression(), quantiles=ForestQuantiles(n_estimators=5)),
        ForestQuantiles(n_estimators=5),
    ]
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # of an infinite label
@pytest.mark.filterwarnings("ignore:.*calibration samples are too few", "ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_agrees(estimator, check):
    if check.func.__name__ == "check_array_api_input":  # runs only under SCIPY_ARRAY_API
        return
    if check.func.__name__ == "check_estimators_pickle" and check.keywords.get("readonly_memmap"):
        # quantile-forest 1.4 cannot predict from read-only memory
        with pytest.raises(ValueError, match="read-only"):
            check(estimator)
    else:
        check(estimator)
