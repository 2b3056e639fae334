"""The law of coverage against counting of orders, direct convolution, and the library of laws that everyone trusts."""

import itertools
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.stats import betabinom

import aptset
from aptset.metrics.coverage_distribution import (
    beta_binomial,
    chance_of_so_few,
    chances_of_sum,
    coverage_law,
    simultaneous_band,
)
from aptset.metrics.evaluation_rows import LEVELS

ALPHA = Fraction(1, 10)


def central_range(rows, n, level):
    """Return the ends of the central 95 % of the law."""
    law = aptset.coverage_test(rows, rows, n, level)
    return np.array([law.low, law.high])


def exact_chance(covered, m, n, k):
    """Count orders of n calibration and m test scores with the given number of test scores up to the k-th of n."""
    total = 0
    for places in itertools.combinations(range(n + m), n):  # where the calibration scores stand
        total += (places[k - 1] - (k - 1)) == covered  # test scores before the k-th calibration score
    return Fraction(total, comb(n + m, n))


@pytest.mark.parametrize(("m", "n", "k"), [(3, 4, 2), (5, 3, 3), (4, 4, 4)])
def test_the_law_of_one_split_counts_orders(m, n, k):
    expected = [float(exact_chance(covered, m, n, k)) for covered in range(m + 1)]
    assert beta_binomial(m, n, k) == pytest.approx(expected, rel=1e-12)


def test_the_law_of_the_total_is_the_convolution():
    laws = [(5, 9), (5, 9), (3, 19), (4, 5)]  # five rows are too few for 0.1: all four are covered
    direct = np.ones(1)
    for m, n in laws:
        k = -int(-(1 - ALPHA) * (n + 1) // 1)
        direct = np.convolve(
            direct, stats.betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1)) if k <= n else [0] * m + [1]
        )
    assert chances_of_sum(laws, ALPHA) == pytest.approx(direct, abs=1e-14)


def test_the_law_of_groups_is_the_convolution():
    laws = ((40, 30), (25, 99), (7, 5), (300, 500))
    chances = np.ones(1)
    for m, n in laws:
        k = int(np.ceil(Fraction(9, 10) * (n + 1)))
        one = betabinom(m, k, n + 1 - k).pmf(np.arange(m + 1)) if k <= n else np.append(np.zeros(m), 1)
        chances = np.convolve(chances, one)
    below = np.cumsum(chances)
    for count in (250, 320, 335, 350, 372):
        law = coverage_law(count, laws, ALPHA)
        assert law.too_low == pytest.approx(below[count], rel=1e-9)
        assert law.too_high == pytest.approx(chances[count:].sum(), rel=1e-9)
    assert (law.low, law.high) == tuple(np.searchsorted(below, [0.025, 0.975]) / 372)
    assert not law.is_certain
    assert coverage_law(7, ((7, 5),), ALPHA).is_certain
    one = aptset.coverage_test(884, m=1000, n=500, alpha=0.1)
    found = coverage_law(884, ((1000, 500),), ALPHA)
    assert found[:4] == pytest.approx((one.low, one.high, one.too_low, one.too_high), rel=1e-9)


def test_band_is_the_beta_binomial_law():
    for n, rows, level in ((99, 50, Fraction(1, 10)), (500, 1000, Fraction(1, 4)), (20, 7, Fraction(1, 3))):
        k = int(np.ceil((1 - level) * (n + 1)))
        expected = betabinom(rows, k, n + 1 - k).ppf([0.025, 0.975]) / rows
        assert central_range(rows, n, level) == pytest.approx(expected)
    assert central_range(10, 5, Fraction(1, 100)).tolist() == [1, 1]


def test_the_chance_of_so_few_is_a_binomial_tail():
    exact = sum(comb(12, j) * Fraction(9, 10) ** j * Fraction(1, 10) ** (12 - j) for j in range(9))
    assert chance_of_so_few(8, 12, 0.9) == pytest.approx(float(exact), rel=1e-12)


def test_no_other_module_has_a_law_of_its_own():
    """The Beta-binomial is written down once; whoever needs it imports it."""
    source = Path(aptset.__file__).parent
    own = ("betabinom", "betaln", "betainc(", "bdtr(")
    found = {
        path.relative_to(source).as_posix() for path in source.rglob("*.py") if any(w in path.read_text() for w in own)
    }
    assert found == {"metrics/coverage_distribution.py"}


def curves_of_valid_calibrations(n, rows, times, seed):
    """Draw uniform scores of calibration and test rows, and count the covered ones at each level."""
    generator = np.random.default_rng(seed)
    ranks = [int(np.ceil((1 - level) * (n + 1))) for level in LEVELS]
    for _ in range(times):
        known = np.append(np.sort(generator.random(n)), 2.0)
        yield np.searchsorted(np.sort(generator.random(rows)), known[np.minimum(ranks, n + 1) - 1], side="right") / rows


@pytest.mark.parametrize(("n", "rows"), [(99, 400), (500, 200)])
def test_the_band_of_the_report_holds_whole_curves(n, rows):
    """Law: 95 of 100 whole curves lie in the band, 39 of 40 above the edge of the open one.

    The share of 4,000 curves has a standard error of 0.0034 (0.0025), and the band's own level one of 0.0022 (0.0016)
    from the curves that set it: five of both together, less than one false alarm in a million. A band at each level by
    itself holds about 0.7 of the curves.
    """
    (low, high), (edge, top) = (simultaneous_band(rows, n, LEVELS, is_open) for is_open in (False, True))
    each = np.array([central_range(rows, n, level) for level in LEVELS]).T
    curves = np.array(list(curves_of_valid_calibrations(n, rows, 4000, 5)))
    inside, above = np.all((low <= curves) & (curves <= high), axis=1), np.all(edge <= curves, axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=5 * 0.0041)
    assert above.mean() == pytest.approx(0.975, abs=5 * 0.003)
    assert np.all((each[0] <= curves) & (curves <= each[1]), axis=1).mean() < 0.85
    assert np.all(top == 1)


def test_the_band_of_a_report_is_the_same_every_time_and_certain_where_sets_hold_everything():
    few = (Fraction(1, 100), Fraction(1, 2), Fraction(1, 10))
    assert np.array_equal(simultaneous_band(50, 20, few), simultaneous_band(50, 20, few))
    assert simultaneous_band(50, 20, few)[:, 0].tolist() == [1, 1]
    assert simultaneous_band(1, 20, few[1:]).tolist() == [[0, 0], [1, 1]]
