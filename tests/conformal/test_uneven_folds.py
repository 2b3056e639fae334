"""The promises of folds that differ, against an adversary who may choose the algorithm.

The world has a few items. An algorithm is any map from a set of training items to a ranking of all others: it is
symmetric, and nothing else is asked of it. Folds and the new item are drawn from the world at random, so the chance of
a miss is a count over all draws, exact. The adversary climbs towards the worst algorithm; no promise may be broken. The
formula for equal folds, used for folds that differ by one, is broken: the adversary can bite.
"""

import math
import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold, LeaveOneOut, PredefinedSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from aptset import ConformalClassifier, CVPlus, Minimax
from aptset.conformal.scheme import Promises

X, Y = load_iris(return_X_y=True)


def ways(items, counts):
    """Every way to draw that many items of each group: items and counts are lists by group."""
    if not items:
        yield ()
        return
    for mine in combinations(items[0], counts[0]):
        for others in ways(items[1:], counts[1:]):
            yield mine + others


def draws(world, folds):
    """Every (folds, items that are left) for folds of the given make-up."""
    if not folds:
        yield [], world
        return
    for fold in ways(world, folds[0]):
        left = [[item for item in group if item not in fold] for group in world]
        for others, rest in draws(left, folds[1:]):
            yield [fold, *others], rest


class Adversary:
    """Looks for the algorithm that misses most often; the new item and the rows that count are of the first group."""

    def __init__(self, world, folds, minimax):
        self.minimax, first = minimax, set(world[0])
        self.cases = []
        for parts, rest in draws(world, folds):
            rows = [item for part in parts for item in part]
            trains = [frozenset(rows) - frozenset(part) for part in parts]
            counted = [[item for item in part if item in first] for part in parts]
            self.cases += [(new, list(zip(counted, trains, strict=True))) for new in rest[0]]
        self.trains = sorted({train for _, folds in self.cases for _, train in folds}, key=sorted)
        self.items = [item for group in world for item in group]
        self.touched = {train: [] for train in self.trains}
        for number, (_, of_case) in enumerate(self.cases):
            for train in {train for _, train in of_case}:
                self.touched[train].append(number)

    def misses(self, case, rank, scores):
        new, folds = self.cases[case]
        lowest = min(scores[train][new] for _, train in folds)
        limit = (lambda train: lowest) if self.minimax else (lambda train: scores[train][new])
        return sum(scores[train][i] < limit(train) for part, train in folds for i in part) >= rank

    def worst(self, rank, steps, seed):
        """The largest chance of a miss that a random climb with falling temperature finds."""
        chance = random.Random(seed)
        scores = {s: {item: chance.random() for item in self.items if item not in s} for s in self.trains}
        missed = [self.misses(case, rank, scores) for case in range(len(self.cases))]
        best = sum(missed)
        for step in range(steps):
            train = chance.choice(self.trains)
            item = chance.choice(list(scores[train]))
            before, scores[train][item] = scores[train][item], chance.random()
            found = {case: self.misses(case, rank, scores) for case in self.touched[train]}
            gain = sum(found.values()) - sum(missed[case] for case in found)
            heat = 0.01 * len(self.cases) * (1 - step / steps) + 1e-9
            if gain >= 0 or chance.random() < math.exp(gain / heat):
                for case, value in found.items():
                    missed[case] = value
                best = max(best, sum(missed))
            else:
                scores[train][item] = before
        return Fraction(best, len(self.cases))


DESIGNS = {  # the make-up of each fold by group, and the number of items of each group in the world
    "1+2": ([(1,), (2,)], [5]),
    "1+1+2": ([(1,), (1,), (2,)], [6]),
    "2+2": ([(2,), (2,)], [6]),
    "1+2, beside other rows": ([(1, 1), (2, 0)], [5, 2]),
    "1+1, beside other rows": ([(1, 1), (1, 0)], [4, 2]),
    "1+1, no other rows": ([(1, 0), (1, 0), (0, 1)], [4, 2]),
}


@pytest.mark.parametrize("minimax", [False, True], ids=["CV+", "minimax"])
@pytest.mark.parametrize("design", DESIGNS)
def test_no_algorithm_breaks_the_promise(design, minimax):
    folds, sizes = DESIGNS[design]
    stops = np.cumsum(sizes).tolist()
    world = [list(range(stop - size, stop)) for size, stop in zip(sizes, stops, strict=True)]
    adversary = Adversary(world, folds, minimax)
    matrix = np.array(folds)
    promises = Promises(Minimax() if minimax else CVPlus(), matrix)
    n = int(matrix[:, 0].sum())
    for rank in range(1, n + 1):
        alpha = 1 - Fraction(rank, n + 1)  # the smallest level with this rank, where the promise is tightest
        lines = promises.lines[0]
        promised = min([1, *(line.at(alpha) for line in lines)])
        assert adversary.worst(rank, steps=1500, seed=rank) <= promised


def test_the_adversary_bites():
    """Folds of 1 and 2 rows break the formula for equal folds; folds of 2 and 2 reach theirs exactly."""
    n, rank = 3, 1
    alpha = 1 - Fraction(rank, n + 1)
    m = Fraction(n, 2)
    as_if_equal = (alpha * (n + 1) + m - 1) / (n + m)
    found = Adversary([list(range(5))], [(1,), (2,)], minimax=True).worst(rank, 1500, 0)
    assert found > as_if_equal
    equal = Adversary([list(range(6))], [(2,), (2,)], minimax=True).worst(1, 1500, 0)
    assert equal == Promises(Minimax(), np.array([[2], [2]])).lines[0][-1].at(Fraction(4, 5)) == Fraction(5, 6)


def test_lines_of_equal_folds_are_those_of_the_paper():
    """Theorem 2 in the paper's letters, for equal folds and for one row per fold; Theorem S1."""
    for k, n in ((10, 150), (5, 20), (150, 150)):
        sizes = np.full((k, 1), n // k)
        for alpha in (Fraction(1, 10), Fraction(1, 3)):
            loss = min(2 * (1 - Fraction(1, k)) / (Fraction(n, k) + 1), (1 - Fraction(k, n)) / (k + 1))
            assert Promises(CVPlus(), sizes).coverage(alpha) == max(0, 1 - 2 * alpha - loss)
    assert Promises(Minimax(), np.ones((50, 1), dtype=int)).coverage(Fraction(1, 10)) == Fraction(9, 10)


def test_folds_that_differ_by_one_promise_less():
    """One row more than 50 folds of 3: the folds of 3 alone carry the proof, and their share of the rows counts."""
    alpha = Fraction(1, 10)
    sizes = np.array([[3]] * 49 + [[4]])
    expected = 1 - (2 * alpha * (151 + 3) + 3 - 1) / (50 * 3)
    assert Promises(CVPlus(), sizes).coverage(alpha) == expected
    assert Promises(CVPlus(), np.full((50, 1), 3)).coverage(alpha) > expected
    few = np.array([[101], [100]])  # large folds: the mean of p-values needs no equal sizes, and is better
    assert Promises(CVPlus(), few).coverage(alpha) == 1 - 2 * alpha - Fraction(2, 203)
    assert Promises(Minimax(), few).coverage(alpha) >= Promises(CVPlus(), few).coverage(alpha)


@pytest.mark.parametrize("scheme", [CVPlus, Minimax])
def test_splitters_that_may_look_at_the_labels_promise_nothing(scheme):
    class Own(KFold):
        """Nobody knows what it looks at."""

    for splitter in (StratifiedKFold(5), Own(5)):
        calibration = scheme(splitter=splitter)
        classifier = ConformalClassifier(GaussianNB(), calibration=calibration, random_state=0).fit(X, Y)
        name = type(splitter).__name__
        with pytest.warns(UserWarning, match=rf"nothing is promised: {name} may look at the data.*CVPlus\(n_fold") as w:
            assert classifier.guarantee() == 0
        assert w[0].filename == __file__
        assert f"promises nothing, {name} may look" in repr(classifier)
        with pytest.raises(ValueError, match=rf"coverage 0.9; {name} may look at the data"):
            classifier.set_params(level="guaranteed").fit(X, Y)
    for splitter in (KFold(5, shuffle=True), PredefinedSplit(np.arange(150) % 5)):
        classifier = ConformalClassifier(GaussianNB(), calibration=scheme(splitter=splitter), random_state=0)
        order = np.random.default_rng(0).permutation(150)
        expected = ConformalClassifier(GaussianNB(), calibration=scheme(n_folds=5)).fit(X, Y).guarantee()
        assert classifier.fit(X[order], Y[order]).guarantee() == expected > 0.7
    alone = ConformalClassifier(GaussianNB(), calibration=scheme(splitter=LeaveOneOut())).fit(X[::3], Y[::3])
    assert alone.guarantee() == (0.9 if scheme is Minimax else 0.8)
