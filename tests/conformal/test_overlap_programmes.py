"""The linear programmes of overlapping groups: thresholds against the definition in exact numbers."""

import itertools
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aptset.conformal.linear_programme import Design, Programme
from aptset.core.levels import rank_at


def solved(lines, right):
    """Solve equations by elimination; None if they have not one solution."""
    rows = [[Fraction(x) for x in line] + [Fraction(y)] for line, y in zip(lines, right, strict=True)]
    for i in range(len(rows)):
        pivot = next((k for k in range(i, len(rows)) if rows[k][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def dot(a, b):
    return sum((Fraction(x) * y for x, y in zip(a, b, strict=True)), Fraction(0))


def loss(residual, alpha):
    return (1 - alpha) * residual if residual > 0 else -alpha * residual


class Literal:
    """The definition, by looking at every b that passes through as many scores as it has entries.

    A score S of the new row is in iff some optimal multiplier of its own row, in the programme of all n + 1 rows, is
    below 1 - alpha. In terms of V(c) = min over b of sum of losses - c phi(x)'b, that is S <= -V'(c-).
    """

    def __init__(self, phi, scores, alpha):
        self.phi, self.scores, self.alpha = phi, [Fraction(score) for score in scores], alpha
        picks = itertools.combinations(range(len(phi)), len(phi[0]))
        found = (solved([phi[i] for i in pick], [self.scores[i] for i in pick]) for pick in picks)
        self.corners = [
            (b, sum(loss(s - dot(row, b), alpha) for row, s in zip(phi, self.scores, strict=True)))
            for b in found
            if b is not None
        ]

    def value(self, x, c):
        return min(total - c * dot(x, b) for b, total in self.corners)

    def threshold(self, x):
        """Infinite iff the programme has no solution: iff losses fall for ever in some direction."""
        c, h = 1 - self.alpha, Fraction(1, 2**200)
        if any(self._slope(x, way) < 0 for way in self._ways()):
            return inf
        return -(self.value(x, c) - self.value(x, c - h)) / h

    def _ways(self):
        """Directions of which one shows it if losses have no least value: those that d - 1 rows do not see."""
        d = len(self.phi[0])
        units = [tuple(int(i == j) for j in range(d)) for i in range(d)]
        rows = sorted(set(map(tuple, self.phi)))
        for pick in itertools.combinations(rows, d - 1):
            for unit in units:
                for sign in (1, -1):
                    way = solved([*pick, unit], [0] * (d - 1) + [sign])
                    if way is not None:
                        yield way

    def _slope(self, x, way):
        return sum(loss(-dot(row, way), self.alpha) for row in self.phi) - (1 - self.alpha) * dot(x, way)


def programme(flags, scores, alpha):
    cells = sorted({tuple(row) for row in flags})
    parts = [sorted(s for row, s in zip(flags, scores, strict=True) if tuple(row) == cell) for cell in cells]
    offsets = np.cumsum([0, *map(len, parts)])
    return Programme(Design.of(np.array(cells, dtype=bool), np.concatenate(parts), offsets), alpha)


@settings(max_examples=120)
@given(
    flags=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=7),
    alpha=st.sampled_from([Fraction(level) for level in ("1/10", "1/4", "1/3", "1/2", "5/7", "9/10")]),
    data=st.data(),
)
def test_thresholds_are_those_of_the_definition(flags, alpha, data):
    values = st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.7, 1.0, 1e-17, 1.75])
    scores = data.draw(st.lists(values, min_size=len(flags), max_size=len(flags)))
    found = programme(flags, scores, alpha)
    times = np.diff(found.design.before[found.design.starts])
    kept = [tuple(row) for row in np.repeat(found.design.phi, times, axis=0).tolist()]
    in_order = np.repeat(found.design.values, np.diff(found.design.before)).tolist()
    literal = Literal(kept, in_order, alpha)
    for new in itertools.product([False, True], repeat=2):
        phi = found.design.column(np.array(new))
        expected = inf if phi is None else literal.threshold(phi.tolist())
        mine = found.threshold(np.array(new))
        assert (mine == inf) == (expected == inf)
        if mine < inf:  # the largest float that is not above
            assert Fraction(mine) <= expected < Fraction(np.nextafter(mine, inf))


def test_where_several_multipliers_are_optimal_the_slope_to_the_left_counts():
    """A case that an optimum at c itself, rather than a little below, gets wrong."""
    texts = ["001", "001", "100", "011", "000", "110", "001", "011", "101", "001", "011", "010", "111"]
    flags = [tuple(letter == "1" for letter in text) for text in texts]
    scores = [0.0525, 0.1719, 0.0178, 0.5314, 0.2664, 0.0473, 0.0934, 0.0788, 0.6714, 0.1248, 0.9583, 0.5025, 0.3058]
    found, new = programme(flags, scores, Fraction(1, 3)), np.array([False, False, True])
    cells = np.repeat(found.design.phi, np.diff(found.design.before[found.design.starts]), axis=0).tolist()
    expected = Literal(cells, found.design.values.tolist(), Fraction(1, 3)).threshold([1, 0, 0, 1])
    assert found.design.column(new).tolist() == [1, 0, 0, 1]
    assert found.threshold(new) == pytest.approx(float(expected), rel=1e-15)
    assert 0.29 < expected < 0.3


def test_a_row_that_breaks_a_relation_of_all_calibration_rows_has_every_label():
    found = programme([(True, False), (False, True)] * 30, np.linspace(0, 1, 60).tolist(), Fraction(1, 10))
    assert found.design.kept == (0, 1)
    assert found.threshold(np.array([True, False])) < inf
    assert found.threshold(np.array([True, True])) == found.threshold(np.array([False, False])) == inf


def test_the_start_does_not_matter(monkeypatch):
    generator = np.random.default_rng(0)
    flags = [tuple(row) for row in (generator.random((300, 4)) < 0.4).tolist()]
    scores = np.round(generator.random(300), 2).tolist()  # ties
    news = [np.array(new) for new in itertools.product([False, True], repeat=4)]
    plain = programme(flags, scores, Fraction(1, 10))
    expected = [plain.threshold(new) for new in news]
    assert any(threshold not in scores for threshold in expected), "a combination of scores is no score"
    monkeypatch.setattr(
        "aptset.conformal.linear_programme._multipliers", lambda design, *_: np.full(design.phi.shape[1], 0.1)
    )
    far = programme(flags, scores, Fraction(1, 10))
    assert [far.threshold(new) for new in reversed(news)] == expected[::-1]


def test_equal_scores_cost_no_steps_in_whole_numbers(monkeypatch):
    """Scores of one digit in 800 combinations of 40 groups: among ties, steps that lead nowhere went on for ever."""
    generator, steps, is_outside = np.random.default_rng(0), [], Programme._outside
    flags = np.unique(generator.random((800, 40)) < 0.3, axis=0)
    codes = np.sort(generator.integers(len(flags), size=10_000))
    scores = np.round(generator.random(10_000), 1)

    def counted(self, *arguments):
        steps.append(1)
        assert len(steps) < 200
        return is_outside(self, *arguments)

    monkeypatch.setattr(Programme, "_outside", counted)
    offsets = np.searchsorted(codes, np.arange(len(flags) + 1))
    found = Programme(Design.of(flags, scores[np.lexsort([scores, codes])], offsets), Fraction(1, 10))
    assert {found.threshold(row) for row in flags[:5]} == {0.9}


@pytest.mark.parametrize("digits", [1, 16])
def test_sixty_combinations_of_as_many_groups_go_by_their_own_quantiles(digits):
    """No combination follows from others: each has the threshold of its own rows, however long determinants are."""
    generator = np.random.default_rng(0)
    cells = np.unique(generator.random((58, 64)) < 0.5, axis=0)
    scores = [np.sort(np.round(generator.random(30 + number), digits)) for number in range(len(cells))]
    offsets = np.cumsum([0, *map(len, scores)])
    found = Programme(Design.of(cells, np.concatenate(scores), offsets), Fraction(1, 10))
    assert len(found.design.kept) == len(cells)
    for cell, own in zip(cells, scores, strict=True):
        assert found.threshold(cell) == own[rank_at(len(own), Fraction(1, 10)) - 1]
    assert found.threshold(~cells[0]) == inf, "nothing is known of it"
