"""Intervals against their definitions, and at their nominal coverage."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aptset
from aptset.metrics.estimates import mean, mean_of_sizes, share, share_of_count


@given(n=st.integers(1, 60), data=st.data(), confidence=st.sampled_from([0.8, 0.95, 0.999]))
def test_shares_have_the_exact_binomial_interval(n, data, confidence):
    count = data.draw(st.integers(0, n))
    found = share_of_count(count, n, confidence)
    expected = stats.binomtest(count, n).proportion_ci(confidence, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (found, found.n, found.count) == (count / n, n, count)


def test_intervals_of_shares_cover_at_their_nominal_rate():
    """Law: Clopper-Pearson covers the truth with probability at least 0.95.

    4000 repetitions; the count of successes is Binomial(4000, at least 0.95): 5 standard deviations, false alarm 3e-7.
    """
    generator = np.random.default_rng(0)
    repetitions = 4000
    hits = sum(
        found.low <= 0.9 <= found.high
        for found in (share(generator.random(80) < 0.9, 0.95) for _ in range(repetitions))
    )
    assert hits > 0.95 * repetitions - 5 * (repetitions * 0.95 * 0.05) ** 0.5


SIZES = {  # rows, labels, sizes that come, their chances
    "few huge sets": (50, 100, [1, 100], [0.98, 0.02]),
    "very few huge sets": (1000, 1000, [1, 2, 1000], [0.6, 0.399, 0.001]),
    "few empty sets among large": (50, 100, [0, 100], [0.02, 0.98]),
    "few empty sets, labels unused": (200, 1000, [0, 5], [0.01, 0.99]),
    "three rows": (3, 10, [1, 2, 10], [0.5, 0.4, 0.1]),
    "one row": (1, 10, [1, 10], [0.5, 0.5]),
    "even sizes": (60, 5, [1, 2, 3], [0.3, 0.4, 0.3]),
    "long tail": (100, 50, np.arange(1, 51), 1 / np.arange(1, 51) ** 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_intervals_of_sizes_hold(name):
    """The interval holds at least 0.95; Student's held 0.64 in the first case.

    4000 repetitions, 5 standard deviations of a Binomial(4000, 0.95): false alarm 3e-7 each.
    """
    rows, most, values, weights = SIZES[name]
    generator = np.random.default_rng(0)
    chances = np.array(weights) / np.sum(weights)
    truth, repetitions = float(np.dot(values, chances)), 4000
    drawn = generator.choice(np.array(values), p=chances, size=(repetitions, rows))
    found = [mean_of_sizes(sizes, 0, most, 0.95) for sizes in drawn]
    hits = sum(one.low <= truth + 1e-12 and truth - 1e-12 <= one.high for one in found)
    assert hits > 0.95 * repetitions - 5 * (repetitions * 0.95 * 0.05) ** 0.5
    assert all(0 <= one.low <= float(one) <= one.high <= most for one in found)


def test_intervals_of_sizes_are_near_students_where_those_hold():
    sizes = np.random.default_rng(0).integers(1, 6, size=2000)
    found = mean_of_sizes(sizes, 0, 5, 0.95)
    half = 1.961 * sizes.std(ddof=1) / 2000**0.5
    assert (found.low, found.high) == pytest.approx((sizes.mean() - half, sizes.mean() + half), abs=0.008)
    wider = mean_of_sizes(sizes, 0, 5, 0.99)
    assert wider.low < found.low < found.high < wider.high


def test_estimates_are_floats_that_know_more():
    found = aptset.coverage([["a"], ["b"]], ["a", "a"])
    assert isinstance(found, float)
    assert found + 1 == 1.5
    assert found < 0.6
    again = pickle.loads(pickle.dumps(found))
    assert (again, again.low, again.n, again.count) == (found, found.low, 2, 1)
    nothing = aptset.singleton_accuracy([[], ["a", "b"]], ["a", "a"])
    assert np.isnan(nothing)
    assert (nothing.low, nothing.high, nothing.n) == (0, 1, 0)
    assert np.isnan(aptset.size_given_coverage([[]], ["a"]))
    one = aptset.mean_size([["a"]])
    assert (one, one.low, one.high) == (1, 0, 1)


def test_the_interval_of_the_gap_holds():
    """Law: simultaneous intervals hold all groups at once with probability at least 0.95, so the gap too.

    200 repetitions with a true gap of 0 and of 0.3: at least 0.95 - 5 standard deviations (0.077) of them hold it.
    """
    generator = np.random.default_rng(0)
    for chances in (np.full(6, 0.9), np.array([0.9, 0.8, 0.7, 0.6, 0.9, 0.9])):
        held = held_target = 0
        for _ in range(200):
            group = generator.integers(6, size=400)
            covered = generator.random(400) < chances[group]
            mask = np.column_stack([covered, np.ones(400, dtype=bool)])
            gap = aptset.coverage_gap(mask, np.zeros(400, dtype=int), by=group)
            held += gap.low <= np.ptp(chances) + 1e-12 and gap.high >= np.ptp(chances)
            toward = aptset.coverage_gap(mask, np.zeros(400, dtype=int), 0.1, by=group)
            held_target += toward.low <= np.abs(chances - 0.9).mean() + 1e-12 <= toward.high
        assert held > 200 * (0.95 - 0.077)
        assert held_target > 200 * (0.95 - 0.077)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_the_ends_of_sizes_are_students_after_one_extreme_size_more(sizes):
    found = mean_of_sizes(np.array(sizes), 0, 9, 0.9)
    t = stats.t(len(sizes)).ppf(0.95)
    ends = []
    for extreme, interval_end in ((0, 0), (9, 1)):
        more = np.array([*sizes, extreme], dtype=float)
        student = stats.t.interval(0.9, len(sizes), more.mean(), stats.sem(more))[interval_end]
        further = (t**2 - 1) / 3 * abs(extreme - more.mean()) / len(more)
        ends.append(np.clip(student + (2 * interval_end - 1) * further, 0, 9))
    assert (found.low, found.high) == pytest.approx(ends)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1))
def test_means_have_the_interval_of_student(values):
    found = mean(np.array(values), 0.9)
    low, high = stats.t.interval(0.9, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
