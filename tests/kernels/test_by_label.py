"""A threshold for every label: membership is exactly `score <= threshold of the label`, on every engine."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels.formula import Formula
from aptset.kernels.membership import in_order, masks, select
from aptset.kernels.rows import BLOCK_ROWS, Rows, all_scores_of_block
from aptset.scores import SCORES
from aptset.scores.conformity import formula_of
from rows_strategy import matrices

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
FREE = Formula(None, lambda places: places.rank % 3 - places.u)  # scores that rise and fall along the row
FORMULAS = {name: formula_of(score()) for name, score in SCORES.items()} | {"any function": FREE}


def check(rows, thresholds, min_size):
    """Compare with all scores of the rows; members must stand in the order of their row."""
    scores, _ = all_scores_of_block(rows.seeded(), 0, len(rows))
    every, late = select(rows, np.full((1, 1, 1), np.inf)).sets[0]
    members_of_all = in_order(late)
    found = select(rows, thresholds[:, None], min_size)
    assert found.first_bad == -1
    for a, of_labels in enumerate(thresholds):
        flags, bad = masks(rows, of_labels[None], min_size)
        assert bad == -1
        indptr, members = found.sets[a]
        for i in range(len(rows)):
            order = members_of_all[every[i] : every[i + 1]]
            expected = [j for j in order if scores[i, j] <= of_labels[j]] or [*order[:min_size]]
            assert members[indptr[i] : indptr[i + 1]].tolist() == expected
            assert np.flatnonzero(flags[i]).tolist() == sorted(expected)


@KEYED
@given(
    matrix=matrices(max_classes=45), name=st.sampled_from(sorted(FORMULAS)), min_size=st.integers(0, 1), data=st.data()
)
def test_membership_by_label(path, matrix, name, min_size, data):
    rows = Rows(matrix, FORMULAS[name], 3, 0.05)
    scores, _ = all_scores_of_block(rows.seeded(), 0, len(rows))
    values = st.sampled_from([*sorted(set(scores.ravel().tolist()))[:50], -1.0, 0.5, np.inf])
    row_of_thresholds = st.lists(values, min_size=matrix.shape[1], max_size=matrix.shape[1])
    check(rows, np.array([data.draw(row_of_thresholds), data.draw(row_of_thresholds)]), min_size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("n_classes", [10, 41, 300])
def test_some_labels_have_no_threshold(path, n_classes, spread, dtype):
    """Labels that calibration never saw are in every set, behind or among the others, in the order of the row."""
    generator = np.random.default_rng(n_classes)
    matrix = np.exp(spread * generator.normal(size=(60, n_classes)))
    matrix = (matrix / matrix.sum(axis=1, keepdims=True)).astype(dtype)
    matrix[::7] = np.round(matrix[::7] * 8) / 8  # ties, and labels without mass
    matrix[::7, 0] += 1 - matrix[::7].sum(axis=1)
    matrix = np.abs(matrix) / np.abs(matrix).sum(axis=1, keepdims=True)
    thresholds = generator.random((3, n_classes))
    thresholds[1, ::4], thresholds[2] = np.inf, np.inf
    for min_size in (0, 1):
        check(Rows(matrix, FORMULAS["adaptive"], 3, 1e-3), thresholds, min_size)
        check(Rows(matrix, FORMULAS["regularized"], 3, 1e-3), thresholds - 0.9, min_size)


def test_copies_bad_rows_and_blocks(path, limits):
    generator = np.random.default_rng(0)
    matrix = generator.dirichlet(np.ones(6), size=40)[generator.integers(40, size=BLOCK_ROWS + 50)]
    rows, thresholds = Rows(matrix, FORMULAS["adaptive"], 3, 1e-6), generator.random((1, 6))
    one = select(rows, thresholds[None]).sets[0]
    other = select(rows.seeded(), thresholds[None]).sets[0]
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(masks(rows, thresholds)[0], masks(rows.seeded(), thresholds)[0])
    limits(block_cells=60)
    np.testing.assert_array_equal(select(rows, thresholds[None]).sets[0][1], one[1])
    matrix[700, 2] = np.nan
    assert select(rows, thresholds[None]).first_bad == masks(rows, thresholds)[1] == 700
