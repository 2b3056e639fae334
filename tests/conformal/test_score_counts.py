"""Counts of scores: merged in any order they are those of all scores, and thresholds from them are exact."""

from collections import Counter
from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aptset.conformal.histogram import TOP_LEVEL, Histogram, OrderStatistics, ScoreCounts, keys_of, scores_of_keys
from aptset.core.groups import EVERYONE
from aptset.kernels.p_value_rounding import by_counts

# Ties, atoms, neighbours in the last bit, both signs, dust and giants.
SCORES = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, -0.0, 0.5, np.nextafter(0.5, 1), np.nextafter(0.5, 0), 1.0, 5e-324, -5e-324, 1e300, -2.5]),
    st.integers(-3, 3).map(float),
)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), SCORES), max_size=40)


def counted(rows, most):
    names = sorted({name for name, _ in rows}, key=str)
    keys = keys_of(np.array([score for _, score in rows], dtype=np.float64), None)
    groups = np.array([names.index(name) for name, _ in rows], dtype=np.int32)
    return ScoreCounts.of(keys, groups, names, np.bincount(groups, minlength=len(names)), most)


def facts(counts):
    of_buckets = (counts.groups.tolist(), counts.buckets.tolist(), counts.counts.tolist())
    return counts.names, counts.sizes.tolist(), *of_buckets, counts.level


@given(st.lists(SCORES, min_size=2, max_size=30))
def test_keys_are_whole_numbers_in_the_order_of_the_scores(scores):
    keys = keys_of(np.array(scores), None)
    assert scores_of_keys(keys, None).tolist() == scores
    for one, first in zip(scores, keys.tolist(), strict=True):
        for other, second in zip(scores, keys.tolist(), strict=True):
            assert (one < other, one == other) == (first < second, first == second)


@given(ROWS, st.integers(1, 12))
def test_the_level_is_the_lowest_with_few_enough_buckets(rows, most):
    """By definition, with Python's integers."""
    counts = counted(rows, most)
    keys = [(name, int(keys_of(np.array([score]), None)[0])) for name, score in rows]
    for level in range(TOP_LEVEL + 1):
        expected = Counter((name, key >> level) for name, key in keys)
        if len(expected) <= most or level == TOP_LEVEL:
            break
    found = zip(counts.groups.tolist(), counts.buckets.tolist(), counts.counts.tolist(), strict=True)
    assert counts.level == level
    assert {(counts.names[group], bucket): count for group, bucket, count in found} == dict(expected)
    assert dict(zip(counts.names, counts.sizes.tolist(), strict=True)) == Counter(name for name, _ in rows)


@given(st.lists(ROWS, min_size=3, max_size=5), st.integers(1, 12), st.randoms(use_true_random=False))
def test_merging_is_associative_and_commutative(parts, most, chance):
    states = [counted(part, most) for part in parts]
    at_once = facts(counted([row for part in parts for row in part], most))
    one, other, *rest = states
    others = ScoreCounts.joined([other, *rest])
    assert facts(ScoreCounts.joined([one, others])) == at_once
    assert facts(ScoreCounts.joined([others, one])) == at_once
    assert facts(ScoreCounts.joined([ScoreCounts.joined([one, other]), *rest])) == at_once
    while len(states) > 1:  # any tree
        chance.shuffle(states)
        states = [ScoreCounts.joined(states[:2]), *states[2:]]
    assert facts(states[0]) == at_once


@given(ROWS, st.integers(2, 12), st.lists(st.sampled_from([0.01, 0.1, 0.25, 1 / 3, 0.5, 0.9]), min_size=1, unique=True))
def test_order_statistics_are_exact(rows, most, alphas):
    """The k-th smallest of each group, k = ceil((1 - alpha)(n + 1)), by sorting; infinite if there are fewer."""
    levels = [Fraction(str(alpha)) for alpha in alphas]
    counts = counted(rows, most)
    found, passes = OrderStatistics.of(counts, levels), 1
    while found.wanted:
        keys = keys_of(np.array([score for _, score in rows]), None)
        groups = np.array([found.names.index(name) for name, _ in rows], dtype=np.int32)
        inside = found.are_wanted(keys, groups)
        by_definition = {(one.group, one.inside.number, one.inside.level) for one in found.wanted}
        level = found.wanted[0].inside.level
        pairs = zip(groups.tolist(), keys.tolist(), strict=True)
        assert inside.tolist() == [(group, key >> level, level) in by_definition for group, key in pairs]
        bound = max(most, 2 * found.n_buckets)
        again = ScoreCounts.of(keys[inside], groups[inside], found.names, found.sizes, bound)
        assert again.level < level, "every pass gains a bit"
        found, passes = found.narrowed(again), passes + 1
    assert passes <= TOP_LEVEL + 1
    for number, level in enumerate(levels):
        for group, name in enumerate(found.names):
            scores = sorted(score for other, score in rows if other == name)
            k = ceil((1 - level) * (len(scores) + 1))
            assert found.values[number, group] == (scores[k - 1] if k <= len(scores) else inf)


def test_ties_and_atoms_need_one_pass():
    """A billion scores of a few values are a few buckets, at full length."""
    keys = keys_of(np.array([0.0, 0.25, 0.5]), None)
    counts = ScoreCounts(
        ("all",), np.array([10**9 + 7]), np.zeros(3, np.int32), keys, np.array([7, 5 * 10**8, 5 * 10**8]), 0, 8
    )
    merged = ScoreCounts.joined([counts] * 1000)
    assert merged.sizes.tolist() == [10**12 + 7000]
    found = OrderStatistics.of(merged, [Fraction(1, 10), Fraction(6, 10), Fraction("0.999999999999")])
    assert not found.wanted
    assert found.values[:, 0].tolist() == [0.5, 0.25, 0.0]


def test_a_trillion_scores_on_a_grid():
    """Ranks beyond 2^31 and p-values of 12 digits, against whole numbers and fractions."""
    generator = np.random.default_rng(0)
    points, of_point = np.arange(1000), generator.integers(10**8, 2 * 10**9, size=1000)
    n = int(of_point.sum())
    counts = ScoreCounts(("all",), np.array([n]), np.zeros(1000, np.int32), points, of_point, 0, None)
    held_out = Histogram(counts, EVERYONE, 2.0**-10)
    running = np.cumsum(of_point).tolist()
    for alpha in (Fraction(1, 10), Fraction(1, 1000), Fraction("0.123456789012")):
        k = ceil((1 - alpha) * (n + 1))
        expected = next(point for point, total in enumerate(running) if total >= k) / 1024
        assert held_out.by_cell(alpha).tolist() == [expected, inf]
    below = np.array([0, *running])
    for count, value in zip(below.tolist(), by_counts(n, below).tolist(), strict=True):
        exact = Fraction(n + 1 - count, n + 1)
        assert Fraction(repr(value)) >= exact > Fraction(repr(np.nextafter(np.nextafter(value, 0), 0).item()))


@pytest.mark.parametrize("most", [None, 3])
def test_nothing_is_counted_as_nothing(most):
    nothing = counted([], most)
    some = counted([("a", 0.5)], most)
    assert facts(ScoreCounts.joined([nothing, some, nothing])) == facts(some)
    assert facts(ScoreCounts.joined([nothing]))[:2] == ((), [])
