from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from aptset.core.levels import rank_at, size_needed
from aptset.kernels.long_arrays import sort_upward

alphas = st.integers(1, 9999).map(lambda k: Fraction(k, 10_000))


@given(n=st.integers(0, 10**6), alpha=alphas)
def test_rank_is_the_smallest_integer_that_reaches_the_level(n, alpha):
    k = rank_at(n, alpha)
    assert k >= (1 - alpha) * (n + 1) > k - 1
    assert aptset.conformal_rank(n, float(alpha)) == k, "the float is read as the decimal it stands for"


@given(alpha=alphas)
def test_size_needed_is_the_first_that_suffices(alpha):
    n = size_needed(alpha)
    assert rank_at(n, alpha) <= n
    assert rank_at(n - 1, alpha) > n - 1


def test_binary_floats_do_not_decide():
    # (1 - 0.1) * 10 is 9 exactly; in floats (1 - 0.7) * 10 is 3.0000000000000004, whose ceiling is 4.
    assert aptset.conformal_rank(9, 0.1) == 9
    assert aptset.conformal_rank(9, 0.7) == 3
    same = [0.1, np.float64(0.1), np.float32(0.1), np.float16(0.1), Decimal("0.1"), Fraction(1, 10), np.array(0.1)]
    assert {aptset.conformal_rank(99, alpha) for alpha in same} == {90}


@pytest.mark.parametrize(("n", "error"), [(-1, ValueError), (2.5, TypeError), ("3", TypeError), (True, TypeError)])
def test_bad_sample_size(n, error):
    with pytest.raises(error, match="n must be"):
        aptset.conformal_rank(n, 0.1)


@pytest.mark.parametrize("n", [0, 1, 10, 300_000])
def test_sorting_in_parts_is_sorting(monkeypatch, n):
    monkeypatch.setenv("APTSET_THREADS", "3")
    scores = np.random.default_rng(n).random(n).round(4)
    np.testing.assert_array_equal(sort_upward(scores), np.sort(scores))
