"""Oracle sets against the definitions of section 1.1 of the paper."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aptset
from reference import L, S, exact_row
from rows_strategy import matrices, uniforms


def test_worked_example():
    p = [[0.3, 0.6, 0.1]]
    assert set(aptset.oracle_sets(p, 0.1)[0]) == {0, 1}
    assert aptset.oracle_sets(p, 0.1)[0].tolist() == [1, 0], "most likely first"
    assert aptset.oracle_sets(p, 0.5)[0].tolist() == [1]
    u = np.linspace(0, 1, 6001)
    sizes = aptset.oracle_sets(np.tile(p, (len(u), 1)), 0.5, u=u).sizes
    np.testing.assert_array_equal(sizes, np.where(u <= 1 / 6, 0, 1))  # empty with probability 1/6


@given(matrix=matrices(dtypes=("float64",)), alpha=st.integers(1, 98), u=st.one_of(st.none(), uniforms))
def test_equals_the_definition(matrix, alpha, u):
    # 97 is prime: no sum of floats comes near the level, so rounding decides nothing.
    level = 1 - Fraction(alpha, 97 + 2)
    sets = aptset.oracle_sets(matrix, Fraction(alpha, 99), u=u, random_state=0, normalize=True)
    for i, row in enumerate(matrix):
        p = exact_row(row / row.sum())
        order = sets[i].tolist() + [y for y in np.argsort(-row, kind="stable").tolist() if y not in sets[i]]
        expected = set(order[: L(p, order, level)]) if u is None else S(p, order, Fraction(u), level)
        assert set(sets[i].tolist()) == expected


def test_reaching_the_level_by_decimals_counts():
    rows = [[0.1, 0.2, 0.7], [0.25, 0.65, 0.1], [0.05, 0.05, 0.9]]
    assert aptset.oracle_sets(rows, 0.1).sizes.tolist() == [2, 2, 1]
    assert aptset.oracle_sets([[0.1] * 10], 0.3).sizes.tolist() == [7]


def test_zero_probabilities_never_enter():
    assert aptset.oracle_sets([[0.5, 0.5, 0.0]], 1e-12)[0].size == 2


def test_ties_are_broken_at_random():
    rows = np.full((50, 4), 0.25)
    picked = {aptset.oracle_sets(rows[:1], 0.75, random_state=seed)[0].item() for seed in range(50)}
    assert picked == {0, 1, 2, 3}


def test_string_labels_and_frames():
    pd = pytest.importorskip("pandas")
    sets = aptset.oracle_sets(pd.DataFrame({"cat": [0.8], "dog": [0.2]}), 0.3)
    assert sets[0].tolist() == ["cat"]
