"""Wide rows take shortcuts: a guess where a row is cut, labels beyond every calibration score, sorting by places.

Whatever the path, sets and counts are those of numpy's scores of every label.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from aptset.kernels import engines
from aptset.kernels.counting import Calibrated, add_counts, index_of, p_values_of, p_values_of_rows
from aptset.kernels.membership import cut, in_order, masks
from aptset.kernels.rows import Rows
from aptset.scores import SCORES
from aptset.scores.conformity import formula_of

N, C = 150, 83
NAMES = ["adaptive", "homogeneous", "regularized", "saps"]


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@cache
def matrix_of(kind):
    generator = np.random.default_rng(5)
    flat, peaked = (softmax(spread * generator.normal(size=(N, C))) for spread in (0.7, 6.0))
    match kind:
        case "flat":  # guesses are right
            found = flat
        case "flat, peaked":  # guesses are right for a while, then wrong
            found = np.where((np.arange(N) // 20 % 2 == 0)[:, None], flat, peaked)
        case "drifting":
            found = softmax(np.linspace(0.2, 4.0, N)[:, None] * generator.normal(size=(N, C)))
        case "ties and zeros":
            found = np.round(flat, 2) + np.eye(C)[generator.integers(C, size=N)]
        case "close":  # too close for places
            found = np.eye(C)[generator.integers(C, size=N)] + 0.01 * (1 + 1e-5 * generator.random((N, C)))
        case "one label":
            found = np.eye(C)[generator.integers(C, size=N)]
    return found / found.sum(axis=1, keepdims=True)


KINDS = ["flat", "flat, peaked", "drifting", "ties and zeros", "close", "one label"]


@cache
def rows_and_scores(kind, name, dtype):
    """Return the rows, and the score of every label as numpy defines it."""
    matrix = np.ascontiguousarray(matrix_of(kind).astype(dtype))
    rows = Rows(matrix, formula_of(SCORES[name]()), 3, 1e-3).seeded()
    scores = np.empty(matrix.shape)
    assert engines.NUMPY.all_scores(rows, scores) == -1
    return rows, scores


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_sets_are_those_of_the_scores(path, kind, name, dtype):
    rows, scores = rows_and_scores(kind, name, dtype)
    typical = np.quantile(scores, [0.02, 0.3, 0.6, 0.9, 1.0])
    thresholds = [[[t]] for t in (*typical, 0.9, 0.999, 1.0)]
    thresholds.append(scores[np.arange(N), np.arange(N) % C][:, None])  # a threshold for each row, met exactly
    for threshold in map(np.asarray, thresholds):
        expected = scores <= threshold
        np.testing.assert_array_equal(masks(rows, threshold)[0], expected)
        indptr, late = cut(rows, threshold).at(0)
        members, row = in_order(late), np.repeat(np.arange(N), np.diff(indptr))
        found = np.zeros_like(expected)
        found[row, members] = True
        np.testing.assert_array_equal(found, expected)
        same_row = row[1:] == row[:-1]
        assert (np.diff(scores[row, members])[same_row] >= 0).all(), "most likely first"
        assert (np.diff(rows.probabilities[row, members])[same_row] <= 0).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_scores(path, kind, name):
    rows, scores = rows_and_scores(kind, name, np.float32)
    generator = np.random.default_rng(1)
    drawn = np.sort(generator.choice(scores.ravel(), 900))
    parts = [drawn, drawn[:200], np.array([]), np.append(drawn[:70], 50.0), drawn[300:305], np.full(80, drawn[40])]
    row_groups = generator.integers(-1, len(parts), size=N).astype(np.int32)
    by_label = [drawn[k * 7 : k * 7 + k % 5] for k in range(C)]
    for groups, of_groups in ((row_groups, parts), (None, by_label)):
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in of_groups])])
        together = np.concatenate(of_groups)
        calibrated = Calibrated(together, offsets, index_of(together, offsets))
        counts = np.ones((N, C), dtype=np.int32)  # which are added to
        assert add_counts(rows, calibrated, groups, counts) == -1
        p_values, bad = p_values_of_rows(rows, calibrated, groups)
        assert bad == -1
        for number, part in enumerate(of_groups):
            mine = np.s_[:, number] if groups is None else groups == number
            below = np.searchsorted(part, scores[mine], side="left").astype(np.int32)
            np.testing.assert_array_equal(counts[mine], below + 1)
            np.testing.assert_array_equal(p_values[mine], p_values_of(below, len(part)))
        if groups is not None:
            assert (counts[groups < 0] == 1).all()
            assert (p_values[groups < 0] == 1).all()


def test_bad_rows_are_found_among_the_others(path):
    """The row that comes first, whatever guess it meets."""
    matrix = matrix_of("flat").astype(np.float32)
    matrix[120, 5] = np.nan
    matrix[130] *= 2
    rows = Rows(matrix, formula_of(SCORES["adaptive"]()), 3, 1e-3)
    scores = np.linspace(0, 1, 500)
    calibrated = Calibrated(scores, np.array([0, 500]), index_of(scores, np.array([0, 500])))
    assert masks(rows, np.array([[0.9]]))[1] == 120
    assert cut(rows, np.array([[0.9]])).first_bad == 120
    assert p_values_of_rows(rows, calibrated, np.zeros(N, dtype=np.int32))[1] == 120


@cache
def sharp_rows(n_columns):
    """Rows that are cut at very different probabilities, most of them where others were; some are rounded, so tied."""
    generator = np.random.default_rng(n_columns)
    spread = np.repeat([0.3, 1.0, 3.0, 6.0, 1.0], 60)[:, None]
    matrix = softmax(spread * generator.normal(size=(300, n_columns)))
    matrix[200:] = np.round(matrix[200:], 3)
    matrix[230:240, 0], matrix[230:240, 1:] = 1.0, 0.0
    matrix[240:250] = 1.0  # all labels equal
    matrix = np.ascontiguousarray((matrix / matrix.sum(axis=1, keepdims=True)).astype(np.float32))
    return Rows(matrix, formula_of(SCORES["adaptive"]()), 3, 1e-3)


@pytest.mark.parametrize("n_columns", [41, 48, 63, 64, 65, 128, 200, 1000])  # whole words of labels, and some left over
@pytest.mark.parametrize("name", ["adaptive", "regularized", "homogeneous"])
def test_rows_of_any_width_are_cut_where_their_scores_say(path, n_columns, name):
    rows = replace(sharp_rows(n_columns), formula=formula_of(SCORES[name]())).seeded()
    scores = np.empty(rows.probabilities.shape)
    assert engines.NUMPY.all_scores(rows, scores) == -1
    for threshold in (0.0, 0.3, 0.9, 0.95, float(np.median(scores)), float(scores[17, 5])):
        expected, wanted = scores <= threshold, np.array([[threshold]])
        np.testing.assert_array_equal(masks(rows, wanted)[0], expected)
        indptr, late = cut(rows, wanted).at(0)
        members, row = in_order(late), np.repeat(np.arange(300), np.diff(indptr))
        np.testing.assert_array_equal(np.bincount(row * n_columns + members, minlength=expected.size), expected.ravel())


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, 2.5])
def test_odd_values_are_seen_wherever_they_stand(path, value):
    for n_columns, column in ((1000, 0), (1000, 999), (1000, 700), (41, 40)):
        matrix = sharp_rows(n_columns).probabilities.copy()
        matrix[100:110, column] = value
        assert masks(replace(sharp_rows(n_columns), probabilities=matrix), np.array([[0.9]]))[1] == 100


def test_negative_zeros_are_zeros(path):
    matrix = sharp_rows(200).probabilities.copy()
    matrix[:, [3, 199]] = 0.0
    matrix /= matrix.sum(axis=1, keepdims=True)
    signed = np.where(matrix == 0, np.float32(-0.0), matrix)
    found = [masks(replace(sharp_rows(200), probabilities=one), np.array([[0.9]])) for one in (matrix, signed)]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] == -1
