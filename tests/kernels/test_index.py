"""An index over many scores changes no count: every label is compared with a plain binary search."""

import numpy as np
import pytest

from aptset.kernels import engines
from aptset.kernels.buckets import refined
from aptset.kernels.counting import NO_INDEX, Calibrated, add_counts, index_of, p_values_of, p_values_of_rows
from aptset.kernels.rows import CALIBRATION, Rows, all_scores_of_block, label_scores
from aptset.scores import SCORES
from aptset.scores.conformity import formula_of

generator = np.random.default_rng(0)
N = 9000
P = generator.dirichlet(np.full(7, 0.4), size=N)
P[::3] = np.eye(7)[generator.integers(7, size=len(P[::3]))]  # labels without mass, and copies
P[1::3] = np.round(P[1::3], 1) / np.round(P[1::3], 1).sum(axis=1, keepdims=True)  # ties, and atoms of scores
LABELS = generator.integers(7, size=N)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("kind", ["scores", "few values", "one far away", "shifted below zero"])
def test_counts_are_those_of_a_binary_search(path, name, kind):
    rows = Rows(P, formula_of(SCORES[name]()), 3, 1e-6, side=CALIBRATION).seeded()
    scores = np.sort(label_scores(rows, LABELS).scores)
    if kind == "few values":
        scores = np.sort(np.round(scores, 1))
    elif kind == "one far away":  # nearly all scores then stand in one bucket
        scores[-1] = 1e9
    elif kind == "shifted below zero":
        scores -= 1.5
    index = index_of(scores, np.array([0, N]))
    assert index.starts is not None
    every, _ = all_scores_of_block(rows, 0, N)
    for given in (index, NO_INDEX):
        counts = np.zeros((N, 7), dtype=np.int32)
        groups, offsets = np.zeros(N, dtype=np.int32), np.array([0, N])
        groups[::10] = -1  # of a group never seen: nothing is below
        assert add_counts(rows, Calibrated(scores, offsets, given), groups, counts) == -1
        expected = np.searchsorted(scores, every, side="left")
        expected[::10] = 0
        np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("name", ["adaptive", "homogeneous"])
def test_groups_have_an_index_each(path, name):
    """Groups of many scores, of few, of one value and of none side by side, by row and by label."""
    rows = Rows(P, formula_of(SCORES[name]()), 3, 1e-6, side=CALIBRATION).seeded()
    every, _ = all_scores_of_block(rows, 0, N)
    parts = [np.sort(label_scores(rows, LABELS).scores), np.zeros(500), np.array([]), np.array([0.2, 0.4])]
    parts += [np.sort(generator.random(300)), np.sort(generator.random(64).round(1)), np.array([0.5])]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    calibrated = Calibrated(np.concatenate(parts), offsets, index_of(np.concatenate(parts), offsets))
    groups = generator.integers(-1, 7, size=N).astype(np.int32)
    for row_groups in (None, groups):
        counts = np.zeros((N, 7), dtype=np.int32)
        assert add_counts(rows, calibrated, row_groups, counts) == -1
        for i in range(0, N, 7):
            for j in range(7):
                group = j if row_groups is None else row_groups[i]
                assert counts[i, j] == (0 if group < 0 else (parts[group] < every[i, j]).sum())
        p_values, bad = p_values_of_rows(rows, calibrated, row_groups)
        assert bad == -1
        for group, part in enumerate(parts):
            mine = np.s_[:, group] if row_groups is None else np.flatnonzero(row_groups == group)
            np.testing.assert_array_equal(p_values[mine], p_values_of(counts[mine], len(part)))
        assert row_groups is None or (p_values[row_groups < 0] == 1).all()


def rows_on_many_scales(n_rows, n_columns):
    """Rows whose labels but one share 1e-1 to 1e-12 of the mass, so that scores crowd below 1 on every scale."""
    draw = np.random.default_rng(4)
    rest = draw.dirichlet(np.full(n_columns - 1, 0.1), size=n_rows) * 10.0 ** -draw.uniform(1, 12, size=(n_rows, 1))
    return Rows(np.column_stack([1 - rest.sum(axis=1), rest]), formula_of(SCORES["adaptive"]()), 3, 1e-6).seeded()


@pytest.mark.parametrize("n_columns", [7, 60])  # narrow rows and wide ones
def test_buckets_that_are_crowded_have_finer_ones(path, n_columns):
    rows = rows_on_many_scales(1500, n_columns)
    every, _ = all_scores_of_block(rows, 0, 1500)
    scales = np.sort(every[:, 1:].ravel())[::3]
    steps = np.sort(1 - 2.0 ** -np.repeat(np.arange(53.0), 50))  # deeper than lists go, and many of each
    several = [scales, np.array([]), steps, np.full(300, 0.5), -scales[::-1], *[scales] * (n_columns - 5)]
    for parts in ([scales], several):
        scores, offsets = np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        index = index_of(scores, offsets)
        finer = refined(engines.chosen.loops, scores, offsets, index)
        assert finer.finer is not None
        assert len(finer.low) > len(parts)
        by_row = np.arange(1500, dtype=np.int32) % len(parts)
        for row_groups in (by_row, None) if len(parts) == n_columns else (by_row,):
            counts = np.zeros(every.shape, dtype=np.int32)
            assert add_counts(rows, Calibrated(scores, offsets, index), row_groups, counts) == -1
            for group, part in enumerate(parts):
                mine = np.s_[:, group] if row_groups is None else row_groups == group
                np.testing.assert_array_equal(counts[mine], np.searchsorted(part, every[mine], side="left"))


def test_finer_buckets_hold_the_scores_that_they_divide():
    rows = rows_on_many_scales(2000, 7)
    every, _ = all_scores_of_block(rows, 0, 2000)
    scores, offsets = np.sort(every.ravel()), np.array([0, every.size])
    finer = refined(engines.chosen.loops, scores, offsets, index_of(scores, offsets))
    divided = np.flatnonzero(finer.finer)
    assert len(divided) > 1
    for bucket in divided:
        first, stop = finer.firsts[finer.finer[bucket]], finer.firsts[finer.finer[bucket] + 1]
        assert finer.starts[first] == finer.starts[bucket]
        assert finer.starts[stop - 1] == finer.starts[bucket + 1]
        assert (np.diff(finer.starts[first:stop]) >= 0).all()
    plain = np.linspace(0.0, 1.0, 5000)
    assert refined(engines.chosen.loops, plain, np.array([0, 5000]), index_of(plain, np.array([0, 5000]))).finer is None


def test_no_index_where_it_would_not_help():
    whole = np.array([0, 10_000])
    assert index_of(np.zeros(10_000), whole) is NO_INDEX
    assert index_of(np.arange(50.0), np.array([0, 50])) is NO_INDEX
    assert index_of(np.array([0.0] * 5000 + [5e-324] * 5000), whole) is NO_INDEX, "a scale that no float holds"


def test_scores_too_far_apart_for_a_span_have_no_index():
    scores = np.sort(np.concatenate([np.linspace(-1.7e308, -1e308, 200), np.linspace(1e308, 1.7e308, 300)]))
    index = index_of(scores, np.array([0, 500]))
    calibrated = Calibrated(scores, np.array([0, 500]), index)
    rows = Rows(P[:40], formula_of(SCORES["adaptive"]()), 3, 1e-6).seeded()
    found = p_values_of_rows(rows, calibrated, np.zeros(40, dtype=np.int32))[0]
    assert (found == p_values_of(np.array([200]), 500)).all()
