"""Ratios of whole numbers as p-values, and the weight that a level asks for: against rationals."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels.counting import ratios, weight_needed, weight_needed_of_sums
from aptset.kernels.p_value_rounding import by_counts


def smallest_not_below(above, below):
    """The smallest float whose decimal is not below the ratio, step by step from well below it."""
    value = above / below
    while value > 0 and Fraction(repr(value)) * below >= above:
        value = float(np.nextafter(value, -1.0))
    while Fraction(repr(value)) * below < above:
        value = float(np.nextafter(value, 2.0))
    return value


@st.composite
def pairs(draw):
    below = draw(st.one_of(st.integers(1, 1000), st.integers(1, 2**40), st.integers(1, 2**63 - 1)))
    above = draw(st.one_of(st.integers(0, below), st.integers(0, min(below, 1000)), st.just(below)))
    return above, below


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some=st.lists(pairs(), min_size=1, max_size=20))
def test_ratios_are_the_smallest_floats_whose_decimal_is_not_below(path, some):
    above, below = np.array(some, dtype=np.int64).T
    found = ratios(above, below)
    assert found.tolist() == [smallest_not_below(*pair) for pair in some]
    assert ratios(above.astype(object), below.astype(object)).tolist() == found.tolist()


@pytest.mark.parametrize("below", [3, 10, 999, 2**32, 2**32 * 7 + 1, 2**53 + 1, 2**61 + 12345])
def test_many_ratios_of_every_size(path, below):
    generator = np.random.default_rng(below % 1000)
    above = np.unique((below * generator.random(3000) ** 8).astype(np.int64))
    found = ratios(above, np.array([below]))
    assert found.tolist() == [smallest_not_below(one, below) for one in above.tolist()]


def test_equal_weights_give_the_p_values_of_counts():
    for n in (1, 9, 99, 500, 1234):
        counts = np.arange(n + 1)
        times = 5_354_228_880
        found = ratios((n + 1 - counts) * times, np.array([(n + 1) * times]))
        np.testing.assert_array_equal(found, by_counts(n, counts))


def test_huge_and_empty_totals():
    huge = np.array([10**400, 3 * 10**400, 0], dtype=object)
    np.testing.assert_array_equal(ratios(huge, np.array([4 * 10**400] * 2 + [0], dtype=object)), [0.25, 0.75, 1.0])


@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=9),
    st.sampled_from(["0.1", "0.05", "0.3", "0.999999", "1e-12", "0.12345678901234567"]),
)
def test_weight_needed_is_the_ceiling(totals, level):
    alpha = Fraction(level)
    expected = [ceil((1 - alpha) * total) for total in totals]
    assert weight_needed(np.array(totals), alpha).tolist() == expected
    assert weight_needed(np.array(totals, dtype=object), alpha).tolist() == expected


_WEIGHTS = st.lists(st.one_of(st.integers(0, 20), st.integers(0, 2**61)), min_size=1, max_size=5)
_LEVELS = [Fraction(1, 2), Fraction(1, 10), Fraction(3, 20), Fraction(1, 2**40)]


@given(
    one=_WEIGHTS,
    other=_WEIGHTS,
    alpha=st.one_of(st.sampled_from(_LEVELS), st.fractions(Fraction(1, 10**6), Fraction(999, 1000))),
)
def test_the_weight_of_sums_is_that_of_what_is_summed(one, other, alpha):
    rows, columns = np.array(one, dtype=np.int64)[:, None], np.array(other, dtype=np.int64)[None, :]
    expected = [[ceil((1 - alpha) * (a + b)) for b in other] for a in one]
    assert weight_needed_of_sums(rows, columns, alpha).tolist() == expected
    assert weight_needed_of_sums(rows.astype(object), columns, alpha).tolist() == expected
