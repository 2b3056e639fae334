"""The jackknife+-after-bootstrap against its definition: each row is judged by the models that never saw it."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.naive_bayes import GaussianNB

from aptset import Bootstrap, ConformalClassifier, OutOfBag
from aptset.conformal.schemes.bootstrap import mean_of_models
from reference import adaptive_score, exact_row


class Table(ClassifierMixin, BaseEstimator):
    """Says something about row x that only the bag it was trained on decides."""

    asked = 0

    def fit(self, X, y):
        self.classes_, self.bag_ = np.unique(y), np.sort(X[:, 0].astype(int))
        return self

    def predict_proba(self, X):
        Table.asked += 1
        rows = [np.random.default_rng([int(x), *self.bag_]).dirichlet(np.ones(3)) for x in X[:, 0]]
        found = np.zeros((len(X), len(self.classes_)))
        found[:] = np.array(rows)[:, self.classes_]
        return found / found.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def literal_counts(classifier, X, y, u, new, u_new, group=None, group_new=None):
    """How many calibration rows score lower than each label, in exact arithmetic from the mean probabilities on."""
    models = [m.ensemble.estimators_[m.number] if hasattr(m, "ensemble") else m for m in classifier.models_]
    bags = [set(model.bag_.tolist()) for model in models]

    def mean_without(i, x):
        said = []
        for model, bag in zip(models, bags, strict=True):
            if i not in bag:
                row = dict(zip(model.classes_, model.predict_proba(np.array([[x]]))[0], strict=True))
                said.append([row.get(label, 0.0) for label in range(3)])
        assert said, "with 25 models every row has a judge"
        # Rounded twice on the way, both times as documented: 33 significant bits, then multiples of 2^-36.
        exact = [[Fraction(round(Fraction(steady(p)) * 2**36), 2**36) for p in row] for row in said]
        return exact_row([float(sum(column) / len(said)) for column in zip(*exact, strict=True)])

    def score(p, label, uniform):
        order = sorted(range(3), key=lambda y: -p[y])
        return adaptive_score(p, order, label, Fraction(uniform))

    counts = np.zeros((len(new), 3), dtype=int)
    for i in range(len(X)):
        own = score(mean_without(i, X[i, 0]), y[i], u[i])
        for row in range(len(new)):
            if group is None or group[i] == group_new[row]:
                p = mean_without(i, new[row, 0])
                counts[row] += [own < score(p, label, u_new[row]) for label in range(3)]
    return counts


def steady(p):
    bits = np.array([p]).view(np.int64) + (1 << 19)
    return float((bits & -(1 << 20)).view(np.float64)[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    ("model", "scheme"),
    [(Table(), Bootstrap(25)), (BaggingClassifier(Table(), n_estimators=25), OutOfBag())],
    ids=["bootstrap", "out-of-bag"],
)
def test_definition(seed, grouped, model, scheme):
    generator = np.random.default_rng(seed)
    n, m = 12, 3
    X, new = np.arange(n)[:, None] * 1.0, 100.0 + np.arange(m)[:, None]
    y = np.arange(n) % 3
    u, u_new = generator.random(n), generator.random(m)
    groups = (np.arange(n) % 2, np.arange(m) % 2) if grouped else (None, None)
    classifier = ConformalClassifier(model, calibration=scheme, random_state=seed)
    classifier.fit(X, y, u=u, groups=groups[0])
    counts = literal_counts(classifier, X, y, u, new, u_new, *groups)
    sizes = np.full((m, 1), n) if not grouped else np.array([[(groups[0] == g).sum()] for g in groups[1]])
    expected = (sizes + 1 - counts) / (sizes + 1)
    np.testing.assert_allclose(classifier.p_values(new, u=u_new, groups=groups[1]), expected, rtol=1e-15)


def test_bags_are_drawn_as_the_theorem_asks():
    """B ~ Binomial(round(n_models / p), p), p = (1 - 1/(n + 1))^n: mean and variance over 400 draws, 5.5 errors."""
    n, repetitions = 20, 400
    p = (1 - 1 / (n + 1)) ** n
    drawn = round(30 / p)
    numbers = [len(Bootstrap().folds(None, np.zeros(n), np.random.default_rng(r))) for r in range(repetitions)]
    assert abs(np.mean(numbers) - drawn * p) < 5.5 * (drawn * p * (1 - p) / repetitions) ** 0.5
    assert 0.6 < np.var(numbers) / (drawn * p * (1 - p)) < 1.5  # its relative error is sqrt(2/400) = 0.07
    for fold in Bootstrap().folds(None, np.zeros(n), np.random.default_rng(0)):
        assert len(fold.train) == n
        assert sorted({*fold.train.tolist(), *fold.held_out.tolist()}) == list(range(n))
        assert not set(fold.train.tolist()) & set(fold.held_out.tolist())


def test_each_model_is_asked_once_for_a_batch():
    X, new = np.arange(40)[:, None] * 1.0, 100.0 + np.arange(5)[:, None]
    classifier = ConformalClassifier(Table(), calibration="bootstrap", random_state=0).fit(X, np.arange(40) % 3)
    assert len(classifier.fitted_.held_out.folds) == 40, "every row has judges of its own"
    Table.asked = 0
    classifier.predict_set(new)
    assert Table.asked == len(classifier.models_)


def test_a_row_without_judges_finds_all_labels_alike():
    means = mean_of_models(np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.5, 0.0]]), np.array([0, 2]), 4)
    np.testing.assert_array_equal(means, [[0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0.0]])
    X = np.arange(400)[:, None] * 1.0
    classifier = ConformalClassifier(Table(), calibration=Bootstrap(10), random_state=0).fit(X, np.arange(400) % 3)
    assert not classifier.fitted_.held_out.model_mask.any(axis=1).all(), "some rows are in every bag"
    assert classifier.predict_set(X[:3]).sizes.sum() > 0


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize(
    ("model", "scheme"),
    [(Table(), Bootstrap(25)), (BaggingClassifier(Table(), n_estimators=25), OutOfBag())],
    ids=["bootstrap", "out-of-bag"],
)
def test_a_bag_may_hold_every_row(n, model, scheme):
    """With two rows every other bag does, and with five one in 26: its model judges nobody, and nothing breaks."""
    X, y = np.arange(n)[:, None] * 1.0, np.arange(n) % 2
    for seed in range(4):
        classifier = ConformalClassifier(model, calibration=scheme, classes=[0, 1, 2], random_state=seed).fit(X, y)
        p_values = classifier.p_values(X + 100)
        assert np.isin(np.round(p_values * (n + 1), 9), np.arange(1, n + 2)).all()


def test_promise_and_sizes():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 2)), np.arange(60) % 3
    classifier = ConformalClassifier(GaussianNB(), calibration="bootstrap", random_state=0).fit(X, y)
    assert classifier.guarantee(0.1) == 0.8
    assert classifier.n_calibration_ == 60
    assert "jackknife+-after-bootstrap, 60 samples" in repr(classifier)
    guaranteed = ConformalClassifier(GaussianNB(), calibration="bootstrap", level="guaranteed", random_state=0)
    assert guaranteed.fit(X, y).input_level(0.1) == 0.05


@pytest.mark.parametrize(
    ("n_models", "error", "words"),
    [(9, ValueError, "n_models must be at least 10"), ("many", TypeError, "whole number"), (True, TypeError, "True")],
)
def test_number_of_models(n_models, error, words):
    classifier = ConformalClassifier(GaussianNB(), calibration=Bootstrap(n_models))
    with pytest.raises(error, match=words):
        classifier.fit(np.zeros((20, 1)), np.arange(20) % 2)
