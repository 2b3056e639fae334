"""The softmax and the sums of rows that every library repeats: near the exact values, from the row alone."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aptset.core.matrix import softmax_of
from aptset.kernels.formula import normalised, raised, sum_of_row, tempered
from aptset.kernels.rows import softmax_by_blocks
from aptset.kernels.softmax import exponential, softmax


def exact(value):
    """Return e to a power with more digits than a float has."""
    with localcontext() as context:
        context.prec = 40
        return Decimal(float(value)).exp()


@given(st.lists(st.floats(-708, 0), min_size=1, max_size=40))
def test_the_exponential_is_within_a_unit_in_the_last_place(values):
    for value, found in zip(values, exponential(np.array(values)).tolist(), strict=True):
        assert abs(Decimal(found) - exact(value)) <= Decimal(float(np.spacing(found)))


def test_ends_of_the_exponential():
    found = exponential(np.array([0.0, -0.0, -708.0, np.nextafter(-708, -709), -1e308, -np.inf]))
    assert found[:2].tolist() == [1.0, 1.0]
    assert found[2] > 0
    assert found[3:].tolist() == [0.0, 0.0, 0.0]
    with np.errstate(invalid="ignore"):
        assert np.isnan(exponential(np.array([np.nan])))[0]


@pytest.mark.parametrize("n_classes", [2, 3, 7, 8, 9, 16, 33, 1000, 2500])
def test_engines_give_the_same_softmax(path, n_classes):
    generator = np.random.default_rng(n_classes)
    logits = generator.normal(size=(60, n_classes)) * generator.choice([1e-3, 1.0, 50.0, 500.0], size=(60, 1))
    logits[3, 0], logits[4], logits[5, -1], logits[6, 1], logits[7] = np.nan, -np.inf, -np.inf, np.inf, -0.0
    logits[8, 0] = 800.0
    for given_logits in (logits, logits.astype(np.float32), np.asfortranarray(logits)):
        with np.errstate(all="ignore"):
            expected = softmax(given_logits.astype(np.float64, order="C"))
        np.testing.assert_array_equal(softmax_by_blocks(given_logits), expected)


def test_rows_of_a_softmax_depend_on_themselves_alone(limits):
    logits = np.random.default_rng(0).normal(size=(700, 9)) * 30
    logits[3], logits[5, 2] = np.nan, -np.inf
    whole = softmax_by_blocks(logits)
    limits(softmax_cells=50)
    np.testing.assert_array_equal(softmax_by_blocks(logits), whole)
    for row in (0, 5, 699):
        np.testing.assert_array_equal(softmax(logits[[row]])[0], whole[row])
        np.testing.assert_array_equal(softmax_of(np.asfortranarray(logits)[[row, row]], "x")[0], whole[row])
    assert np.isnan(whole[3]).all()
    assert whole[5, 2] == 0.0
    good = np.delete(np.arange(700), 3)
    np.testing.assert_allclose(whole[good].sum(axis=1), 1.0, rtol=0, atol=1e-15)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=70))
def test_sums_of_halves_are_near_the_exact_sum(values):
    found = sum_of_row(np.array([values]))
    assert found.shape == (1, 1)
    total = sum(map(Fraction, values))
    assert abs(Fraction(float(found[0, 0])) - total) <= total * Fraction(12, 2**53)  # a rounding for each halving


@pytest.mark.parametrize("n_columns", [2, 3, 10, 101, 1000])
def test_normalised_rows(n_columns):
    rows = np.random.default_rng(n_columns).gamma(0.3, size=(40, n_columns))
    found = normalised(rows)
    np.testing.assert_allclose(found, rows / rows.sum(axis=1, keepdims=True), rtol=1e-14)
    for layout in (np.asfortranarray(rows), rows[::-1][::-1], np.repeat(rows, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(normalised(layout), found)
    np.testing.assert_array_equal(normalised(rows[7:8])[0], found[7])
    with np.errstate(all="ignore"):
        bad = normalised(np.array([[1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [1.0, 3.0]]))
    assert np.isnan(bad[:3]).all()
    assert bad[3].tolist() == [0.25, 0.75]


def test_tempered_rows_that_were_bad_stay_bad():
    with np.errstate(all="ignore"):
        found = tempered(np.array([[0.5, 0.5], [0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]]), 0.5, 1e-5)
    assert np.isnan(found[1:]).all()
    assert found[0].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(raised(np.array([0.3]), 2.40625), 0.3**2.40625, rtol=1e-15)
