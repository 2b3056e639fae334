"""p-values of counts: the smallest float whose decimal is not below the exact ratio."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aptset.kernels.counting import p_values_of


def by_definition(m, d):
    """Look at the floats around the ratio, one after the other, by the decimals they print as."""
    value = np.nextafter(m / d, 0.0)
    while Fraction(repr(float(value))) < Fraction(m, d):
        value = np.nextafter(value, 2.0)
    return float(value)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 19, 99, 512, 999, 1022, 1023, 1024, 4095])
def test_every_count(path, n):
    found = p_values_of(np.arange(n + 1, dtype=np.int32), n)
    assert found.tolist() == [by_definition(n + 1 - count, n + 1) for count in range(n + 1)]


@given(n=st.integers(1, 200_000), share=st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_some_counts_of_many_scores(n, share):
    counts = np.array([round(part * n) for part in share], dtype=np.int32)
    assert p_values_of(counts, n).tolist() == [by_definition(n + 1 - count, n + 1) for count in counts.tolist()]


def test_decimals_halfway_between_two():
    """j / 2^17 has 17 decimals, and lies halfway between two of 16."""
    n = 2**17 - 1
    counts = np.arange(0, n, 997, dtype=np.int32)
    found = p_values_of(counts, n)
    for count, value in zip(counts.tolist(), found.tolist(), strict=True):
        assert Decimal(repr(value)) * (n + 1) >= n + 1 - count
        assert value == by_definition(n + 1 - count, n + 1)


def test_matrices_are_looked_up_whole(path):
    counts = np.random.default_rng(0).integers(1001, size=(3000, 7)).astype(np.int32)
    table = p_values_of(np.arange(1001, dtype=np.int32), 1000)
    np.testing.assert_array_equal(p_values_of(counts, 1000), table[counts])
