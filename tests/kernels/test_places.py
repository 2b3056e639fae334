"""The score of a label against the exact definition, on both paths."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels import engines
from aptset.kernels.formula import Formula, LinearScore
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from reference import S, adaptive_score, exact_row
from rows_strategy import matrices, uniforms

ADAPTIVE = Formula(LinearScore(above=1.0, own=1.0, own_u=-1.0))
TOLERANCE = 0.05  # rows are normalised in the reference; float16 rows may be off by a per cent
KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows_of(matrix, u=None, key=7, formula=ADAPTIVE):
    return Rows(matrix, formula, key, TOLERANCE, u=None if u is None else np.full(len(matrix), u))


def scores_and_orders(rows):
    scores, bad = all_scores_of_block(rows.seeded(), 0, len(rows))
    assert bad == -1
    # Scores never fall along the order, but may round to the same number: fall back on the probability.
    pairs = zip(scores, -rows.probabilities.astype(float), strict=True)
    return scores, [np.lexsort((minus_p, score)).tolist() for score, minus_p in pairs]


@KEYED
@given(matrix=matrices(), u=uniforms)
def test_score_equals_the_definition(path, matrix, u):
    scores, orders = scores_and_orders(rows_of(matrix, u))
    for i, row in enumerate(matrix.astype(np.float64)):
        p, order = exact_row(row), orders[i]
        assert all(row[a] >= row[b] for a, b in pairwise(order)), "order follows the probabilities"
        for label in range(len(row)):
            exact = adaptive_score(p, order, label, Fraction(u))
            # Two roundings in the numerator, one in the division: 4 units in the last place of a number <= 2.
            assert abs(Fraction(scores[i, label]) - exact) <= Fraction(4, 2**52)


@KEYED
@given(
    weights=st.lists(st.integers(0, 16), min_size=2, max_size=6).filter(any),
    u=st.sampled_from([k / 64 for k in range(65)]),
)
def test_dyadic_score_is_exact_and_is_the_smallest_level_that_admits_the_label(path, weights, u):
    # Sum to a power of two, so that every probability and every score is a float64 without rounding.
    total = 2 ** (sum(weights) - 1).bit_length()
    matrix = np.array([[*weights, total - sum(weights)]]) / total
    scores, (order,) = scores_and_orders(rows_of(matrix, u))
    p = exact_row(matrix[0])
    step = Fraction(1, 2**40)
    for label, mass in enumerate(p):
        score = Fraction(scores[0, label])
        if mass == 0:
            continue
        assert score == adaptive_score(p, order, label, Fraction(u))
        if step < score < 1:
            assert label in S(p, order, Fraction(u), score + step)
            assert label not in S(p, order, Fraction(u), score)
            assert label not in S(p, order, Fraction(u), score - step)


@KEYED
@given(matrix=matrices(max_classes=40), u=st.one_of(st.none(), uniforms))
def test_one_label_is_scored_as_among_all(path, matrix, u):
    rows = rows_of(matrix, u)
    every, _ = all_scores_of_block(rows.seeded(), 0, len(rows))
    for label in range(matrix.shape[1]):
        one = label_scores(rows, np.full(len(matrix), label))
        assert one.first_bad == -1
        np.testing.assert_array_equal(one.scores, every[:, label])


@KEYED
@given(matrix=matrices(max_classes=12, dtypes=("float64",)), u=uniforms)
def test_columns_may_come_in_any_order_without_ties(path, matrix, u):
    """Sums are exact, so the score does not see the order of summation."""
    distinct = [row for row in matrix if len(set(row)) == len(row)]
    for row in distinct:
        shuffled = np.random.default_rng(0).permutation(len(row))
        original, _ = all_scores_of_block(rows_of(row[None, :], u), 0, 1)
        moved, _ = all_scores_of_block(rows_of(row[None, shuffled], u), 0, 1)
        np.testing.assert_array_equal(original[0, shuffled], moved[0])


def test_labels_without_mass_share_the_interval_behind_one(path):
    matrix = np.array([[1.0, 0.0, 1e-17, 1e-30, 0.0]])
    scores, _ = all_scores_of_block(rows_of(matrix, u=0.5).seeded(), 0, 1)
    assert scores[0, 0] == 0.5
    assert scores[0, 2] == 1 + 0.5 / 4, "1e-17 is zero on the grid, and first among the zeros"
    assert scores[0, 3] == 1 + 1.5 / 4
    assert sorted(scores[0, [1, 4]]) == [1 + 2.5 / 4, 1 + 3.5 / 4], "equal ones follow in random order"


def test_ties_are_broken_differently_in_different_rows_and_fairly(path):
    """Of three equal labels each comes first in a third of the rows.

    Law: the number of rows where label 0 is first is Binomial(30000, 1/3); 6 standard deviations, false alarm 2e-9.
    """
    n = 30_000
    seeds = np.arange(n, dtype=np.uint64)
    rows = Rows(np.full((n, 3), 1 / 3), ADAPTIVE, key=1, tolerance=1e-9, seeds=seeds, u=np.ones(n))
    first = all_scores_of_block(rows.seeded(), 0, n)[0].argmin(axis=1)
    for label in range(3):
        assert abs((first == label).sum() - n / 3) < 6 * (n * 2 / 9) ** 0.5


def test_the_first_bad_row_is_reported_whatever_the_blocks(path, limits):
    matrix = np.full((1000, 4), 0.25)
    for bad_value in (np.nan, np.inf, -np.inf, -0.25, -1e-300, 0.5, 3.0):
        bad = matrix.copy()
        bad[700, 2] = bad[900, 1] = bad_value
        for cells in (4, 64, 10**6):
            limits(block_cells=cells)
            assert label_scores(rows_of(bad), np.zeros(1000, dtype=int))[1] == 700


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_narrow_rows_of_any_width_and_number(path, dtype):
    """Rows are turned eight at a time where they are wide enough, some columns twice: scores are those of numpy."""
    generator = np.random.default_rng(3)
    for n_columns in (2, 7, 8, 9, 10, 15, 16, 17, 31, 40):
        for n_rows in (1, 7, 64, 65, 203):
            matrix = generator.dirichlet(np.full(n_columns, 0.6), size=n_rows).astype(dtype)
            matrix[::5] = np.round(matrix[::5], 1) + np.eye(n_columns)[0]  # ties, and labels without mass
            matrix = np.ascontiguousarray(matrix / matrix.sum(axis=1, keepdims=True), dtype=dtype)
            rows, labels = rows_of(matrix).seeded(), generator.integers(n_columns, size=n_rows)
            every = np.empty(matrix.shape)
            assert engines.NUMPY.all_scores(rows, every) == -1
            np.testing.assert_array_equal(all_scores_of_block(rows, 0, n_rows)[0], every)
            np.testing.assert_array_equal(label_scores(rows, labels).scores, every[np.arange(n_rows), labels])
