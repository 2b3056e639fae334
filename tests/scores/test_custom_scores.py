"""Scores of the user's own: any function of places, in every face, with sets and p-values from the same numbers."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.kernels.formula import First, LinearScore
from reference import in_set

GENERATOR = np.random.default_rng(5)
P = GENERATOR.dirichlet(np.full(5, 0.5), size=240)
P[::7, 2] = 0.0
P /= P.sum(axis=1, keepdims=True)
Y = (GENERATOR.random((240, 1)) > P.cumsum(axis=1)[:, :-1]).sum(axis=1)
NEW = P[120:]


def odd_ranks_first(places):
    """No order along the row: labels of odd rank conform, those of even rank do not."""
    return places.rank % 2 * -10 + places.rank - places.u


def by_class(places):
    """What a label is, not only where it stands: a matrix has its columns in the order of the classes."""
    return 1 - places.own / places.total + 0.01 * np.arange(places.classes)


@dataclass(frozen=True)
class Powered:
    """A score with a setting."""

    power: float = 2.0

    def of(self, places):
        return -((places.own / places.total) ** self.power) + 1e-9 * places.u


class Plain:
    """A score that is no dataclass."""

    def of(self, places):
        return places.above - places.u


PLAIN = Plain()
OWN = [odd_ranks_first, by_class, Powered(0.5), PLAIN]


@pytest.mark.parametrize("score", OWN, ids=lambda score: getattr(score, "__name__", type(score).__name__))
@pytest.mark.parametrize("groups", [None, "label", "row"])
def test_sets_are_the_labels_whose_score_counts_say_so(score, groups, path):
    by = np.where(P[:, 0] > 0.2, "high", "low")
    passed = by[:120] if groups == "row" else groups
    calibration = aptset.calibrate(P[:120], Y[:120], conformity=score, groups=passed, random_state=0)
    new_groups = {"groups": by[120:]} if groups == "row" else {}
    p_values = calibration.p_values(NEW, **new_groups)
    alphas = [0.1, 0.3, 0.55]
    for alpha, sets in zip(alphas, calibration.predict_set(NEW, alphas, **new_groups), strict=True):
        np.testing.assert_array_equal(sets.mask, p_values > alpha)
        np.testing.assert_array_equal(calibration.predict_mask(NEW, alpha, **new_groups), sets.mask)
        for row, labels in zip(NEW, sets, strict=True):
            assert (np.diff(row[labels]) <= 0).all(), "most likely first"
    filled = calibration.predict_set(NEW, 0.9, allow_empty=False, **new_groups)
    empty = calibration.predict_set(NEW, 0.9, **new_groups).sizes == 0
    assert (filled.sizes[empty] == 1).all()
    assert all(labels[0] == row.argmax() for row, labels in zip(NEW[empty], filled[np.flatnonzero(empty)], strict=True))


def test_a_function_by_hand():
    """Scores of every label computed here, from their definition, and compared by the counting rule."""
    calibration = aptset.calibrate(P[:120], Y[:120], conformity=odd_ranks_first, randomized=False)

    def score(row, label):
        rank = 1 + sum(other > row[label] for other in row)
        return rank % 2 * -10 + rank - 1

    distinct = [i for i in range(240) if len(set(P[i])) == 5]
    assert len(distinct) > 200
    ours = [score(P[i], Y[i]) for i in range(120)]
    assert sorted(ours) == calibration.scores.tolist()
    for i, labels in zip(range(120, 240), calibration.predict_set(NEW, 0.3), strict=True):
        assert set(labels) == {y for y in range(5) if in_set(ours, score(P[i], y), Fraction(3, 10))}


@pytest.mark.parametrize("score", OWN, ids=lambda score: getattr(score, "__name__", type(score).__name__))
@pytest.mark.parametrize("scheme", ["split", "cv+", "jackknife+", "minimax"])
def test_the_estimator_takes_them(score, scheme):
    X, y = GENERATOR.normal(size=(60, 3)), np.arange(60) % 3
    X[:, 0] += y
    classifier = aptset.ConformalClassifier(GaussianNB(), calibration=scheme, conformity=score, random_state=0)
    classifier.fit(X, y)
    p_values = classifier.p_values(X[:20])
    for alpha in (0.15, 0.4):
        np.testing.assert_array_equal(classifier.predict_set(X[:20], alpha).mask, p_values > alpha)
        streamed = classifier.fit_predict_set(X, y, X[:20], alpha)
        np.testing.assert_array_equal(streamed.mask, p_values > alpha)
        classifier.fit(X, y)


def test_folds_take_them():
    folds = np.arange(120) % 4
    calibration = aptset.calibrate_cv(P[:120], Y[:120], folds, conformity=by_class, random_state=0)
    sets, p_values = calibration.predict_set([NEW] * 4, 0.2), calibration.p_values([NEW] * 4)
    np.testing.assert_array_equal(sets.mask, p_values > 0.2)


@pytest.mark.parametrize("score", OWN, ids=lambda score: getattr(score, "__name__", type(score).__name__))
def test_nothing_but_the_row_decides(score, limits, monkeypatch):
    calibration = aptset.calibrate(P[:120], Y[:120], conformity=score, random_state=0)
    expected = calibration.predict_set(NEW, 0.2)
    order = np.random.default_rng(0).permutation(120)
    assert calibration.predict_set(NEW[order], 0.2) == expected[order]
    limits(block_cells=12)
    monkeypatch.setenv("APTSET_THREADS", "3")
    assert calibration.predict_set(NEW, 0.2) == expected


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda places: places.own[:, :2], r"shape \(120, 5\).*returned shape \(120, 2\)"),
        (lambda places: places.u, "returned shape"),
        (lambda places: 1 / np.where(places.own > 0, places.own, np.nan), "finite scores.*mass 0 and rank 5"),
        (lambda places: np.full(places.own.shape, np.inf), "finite scores"),
        (lambda places: None, r"returned shape \(\)"),
        (lambda places: np.full(places.own.shape, "x"), "matrix of numbers"),
        (lambda places: places.own - places.own.mean(axis=0), "from its own places alone"),
        (lambda: 0, "positional argument"),
    ],
)
def test_what_is_no_score(function, message):
    with pytest.raises((ValueError, TypeError), match=message):
        aptset.calibrate(P[:120], Y[:120], conformity=function)


class Falling:
    """Legal to look at, but it falls along the row."""

    weights = LinearScore(own=1.0)

    def of(self, places):
        return places.own / places.total


class Wrong(aptset.Adaptive):
    """Changes the function and keeps the weights."""

    def of(self, places):
        return places.above / places.total


class Halved:
    """Weights alone, which the loops cannot keep in order."""

    weights = LinearScore(above=0.5, own=0.5)


class Numbers:
    """No weights at all."""

    weights = (1.0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (Falling(), "fall along the row.*Leave `weights` out"),
        (Wrong(), "by weights and .* by of"),
        (Halved(), "-1, 0 or 1"),
        (Numbers(), "a LinearScore as weights"),
    ],
)
def test_fast_forms_are_refused_with_a_reason(score, message):
    with pytest.raises((ValueError, TypeError), match=message):
        aptset.calibrate(P[:120], Y[:120], conformity=score)


def test_a_fast_form_of_ones_own_is_the_slow_one():
    class Second:
        """The margin without noise."""

        weights = LinearScore(own=-1.0, top=1.0, behind=False, first=First(own=-1.0, second=1.0))

        def of(self, places):
            return (np.where(places.rank == 1, places.second, places.top) - places.own) / places.total

    fast, slow = (aptset.calibrate(P[:120], Y[:120], conformity=s, random_state=0) for s in (Second(), Second().of))
    np.testing.assert_array_equal(fast.scores, slow.scores)
    assert fast.predict_set(NEW, 0.2) == slow.predict_set(NEW, 0.2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aptset.Regularized(penalty=-1), "penalty must"),
        (lambda: aptset.Regularized(penalty=float("nan")), "penalty must"),
        (lambda: aptset.Regularized(free_ranks=1.5), "free_ranks must"),
        (lambda: aptset.Regularized(free_ranks=-1), "free_ranks must"),
        (lambda: aptset.SAPS(penalty="x"), "penalty must"),
        (lambda: aptset.Tempered(aptset.Adaptive(), power=0.3), r"power must.*nearest is 0\.296875"),
        (lambda: aptset.Tempered(aptset.Adaptive(), power=0), "power must"),
        (lambda: aptset.Tempered(aptset.Adaptive(), power=9), r"nearest is 8\.0"),
    ],
)
def test_settings_are_checked_when_a_score_is_made(make, message):
    with pytest.raises(ValueError, match=message):
        make()
