"""Membership is exactly `score <= threshold`, and nothing but the content of a row decides it."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aptset.kernels import engines
from aptset.kernels.formula import Formula
from aptset.kernels.membership import cut, in_order, masks
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.scores import SCORES
from rows_strategy import matrices, uniforms

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
NAMES = sorted(name for name in SCORES if hasattr(SCORES[name], "weights"))  # the others are not cut
score_names = st.sampled_from(NAMES)


def rows_of(matrix, name="adaptive", u=None):
    formula = Formula(SCORES[name]().weights)
    return Rows(matrix, formula, key=3, tolerance=0.05, u=None if u is None else np.full(len(matrix), u))


def mask_of(found, which, shape):
    indptr, late = found.at(which)
    members, mask = in_order(late), np.zeros(shape, dtype=bool)
    mask[np.repeat(np.arange(shape[0]), np.diff(indptr)), members] = True
    assert mask.sum() == len(members), "no label twice"
    return mask


@KEYED
@given(matrix=matrices(max_classes=45), name=score_names, u=st.one_of(st.none(), uniforms), data=st.data())
def test_membership_is_score_at_most_threshold(path, matrix, name, u, data):
    rows = rows_of(matrix, name, u)
    scores, _ = all_scores_of_block(rows.seeded(), 0, len(rows))
    # Thresholds that matter are scores themselves and their neighbours.
    picked = data.draw(st.lists(st.sampled_from(sorted(set(scores.ravel()))), min_size=1, max_size=4))
    thresholds = [*picked, np.nextafter(picked[0], -1), np.nextafter(picked[0], 9), -1.0, np.inf]
    for some in (thresholds, thresholds[:1]):
        found = cut(rows, np.tile(some, (len(matrix), 1)))
        for a, threshold in enumerate(some):
            np.testing.assert_array_equal(mask_of(found, a, matrix.shape), scores <= threshold)
            np.testing.assert_array_equal(masks(rows, np.array([[threshold]]))[0], scores <= threshold)


@KEYED
@given(matrix=matrices(max_classes=45), name=score_names)
def test_members_come_in_the_order_of_the_row(path, matrix, name):
    rows = rows_of(matrix, name)
    scores, _ = all_scores_of_block(rows.seeded(), 0, len(rows))
    indptr, members = cut(rows, np.full((len(matrix), 1), np.inf)).at(0)
    for i in range(len(matrix)):
        order = members[indptr[i] : indptr[i + 1]]
        assert sorted(order) == list(range(matrix.shape[1]))
        assert (np.diff(matrix[i].astype(float)[order]) <= 0).all()
        assert (np.diff(scores[i, order]) >= 0).all()


@KEYED
@given(matrix=matrices(max_classes=45), name=score_names)
def test_at_least_one_adds_the_top_label_and_nothing_else(path, matrix, name):
    rows, shape = rows_of(matrix, name), matrix.shape
    thresholds = np.tile([-1.0, 0.3], (len(matrix), 1))
    with_empty, without = cut(rows, thresholds), cut(rows, thresholds, min_size=1)
    top = cut(rows, np.full((len(matrix), 1), np.inf))
    for a in range(2):
        mask, filled = mask_of(with_empty, a, shape), mask_of(without, a, shape)
        np.testing.assert_array_equal(masks(rows, thresholds[:, a : a + 1], min_size=1)[0], filled)
        empty = ~mask.any(axis=1)
        np.testing.assert_array_equal(mask[~empty], filled[~empty])
        assert (filled[empty].sum(axis=1) == 1).all()
        firsts = top.members[np.cumsum(top.sizes[0]) - top.sizes[0]]
        assert filled[empty, firsts[empty]].all()


@pytest.mark.parametrize("n_classes", [5, 60])
def test_homogeneous_cut_right_below_the_labels_without_mass(path, n_classes):
    """Thresholds within the tie noise of 1, where tiny masses and no mass at all stand side by side."""
    matrix = np.zeros((40, n_classes))
    matrix[:, 0] = 1.0
    matrix[:, 1] = 2.0 ** -np.arange(20, 60)
    matrix[:, 2] = 1e-18
    for u in (0.0, 0.5, 1.0 - 2.0**-53, 1.0):
        rows = rows_of(matrix, "homogeneous", u)
        scores, _ = all_scores_of_block(rows.seeded(), 0, 40)
        for threshold in (1.0 - 2.0**-33, 1.0 - 2.0**-50, 1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52):
            found = cut(rows, np.full((40, 1), threshold))
            np.testing.assert_array_equal(mask_of(found, 0, matrix.shape), scores <= threshold)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_classes", [2, 10, 40, 41, 300])
@pytest.mark.parametrize("spread", [0.0, 1.0, 8.0, 60.0])
def test_engines_agree_to_the_last_bit(monkeypatch, name, n_classes, spread):
    generator = np.random.default_rng([n_classes, int(spread)])
    logits = generator.normal(size=(200, n_classes)).round(1) * spread  # rounded: some ties
    matrix = np.exp(logits - logits.max(axis=1, keepdims=True))
    matrix = (matrix / matrix.sum(axis=1, keepdims=True)).astype(np.float32)
    labels = generator.integers(n_classes, size=200)
    answers = []
    assert len(engines.ENGINES) > 1
    for engine in engines.ENGINES.values():
        monkeypatch.setattr(engines, "chosen", engine)
        for dtype in (np.float32, np.float64):
            rows = rows_of(matrix.astype(dtype), name)
            found = cut(rows, np.tile([0.1, 0.5, 0.9, 1.0, 1.5], (200, 1)))
            scores, _ = all_scores_of_block(rows.seeded(), 0, 200)
            answers.append((label_scores(rows, labels)[0], scores, found.sizes, found.members))
    for other in answers[1:]:
        for mine, theirs in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


WIDE = {
    "flat": lambda z: np.exp(z),
    "peaked": lambda z: np.exp(6 * z),
    "overconfident": lambda z: np.exp(40 * z),
    "rounded": lambda z: np.exp(z).round(1) + 0.1,
    "uniform": lambda z: np.ones_like(z),
    "mostly nothing": lambda z: np.where(z > 1.5, z, 0.0) + (np.arange(z.shape[1]) == 3),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("n_classes", [41, 64, 97, 1000])
def test_wide_rows_are_cut_where_their_scores_say(path, kind, n_classes, dtype):
    """The search in single floats only guesses; scores decide, whatever the row looks like."""
    weights = WIDE[kind](np.random.default_rng(n_classes).normal(size=(40, n_classes)))
    matrix = (weights / weights.sum(axis=1, keepdims=True)).astype(dtype)
    for name in NAMES:
        rows = rows_of(matrix, name)
        scores, _ = all_scores_of_block(rows.seeded(), 0, 40)
        exact = np.sort(scores, axis=1)
        columns = (exact[:, 0], exact[:, n_classes // 3], np.nextafter(exact[:, -5], 0), exact[:, -1])
        near_one = 1 - np.logspace(-1, -15, 40)  # where sums of single floats are too rough to tell
        levels = (np.full(40, level) for level in (0.9, -1.0, np.inf, 1.0))
        for thresholds in (
            *columns,
            *levels,
            near_one,
            exact[np.arange(40), np.linspace(0, n_classes - 1, 40, dtype=int)],
        ):
            flags, bad = masks(rows, thresholds[:, None])
            assert bad == -1
            np.testing.assert_array_equal(flags, scores <= thresholds[:, None])
            found = cut(rows, thresholds[:, None])
            np.testing.assert_array_equal(mask_of(found, 0, matrix.shape), flags)


def test_masks_report_the_first_bad_row(path):
    for n_classes in (5, 60):
        matrix = np.full((300, n_classes), 1 / n_classes)
        matrix[200, 1] = matrix[250, 0] = np.nan
        assert masks(rows_of(matrix), np.array([[0.5]]))[1] == 200
        assert cut(rows_of(matrix), np.array([[0.5]])).first_bad == 200


def test_minus_zero_is_zero(path):
    for n_classes in (5, 60):
        matrix = np.zeros((10, n_classes))
        matrix[:, 0] = 1.0
        other = np.where(matrix == 0, -0.0, matrix)
        for work in (
            lambda rows: masks(rows, np.array([[1.5]]))[0],
            lambda rows: in_order(cut(rows, np.array([[1.5]])).members),
        ):
            np.testing.assert_array_equal(work(rows_of(matrix)), work(rows_of(other)))


@pytest.mark.parametrize("cells", [1, 100, 2**17])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_blocks_threads_and_layout_do_not_matter(path, limits, monkeypatch, cells, threads):
    matrix = np.random.default_rng(0).dirichlet(np.full(20, 0.3), size=150)
    thresholds = np.tile([0.5, 0.9], (150, 1))
    expected = cut(rows_of(matrix), thresholds)
    limits(block_cells=cells)
    monkeypatch.setenv("APTSET_THREADS", threads)
    wide = np.zeros((300, 40))
    wide[::2, ::2] = matrix
    read_only = matrix.copy()
    read_only.flags.writeable = False
    for layout in (matrix, np.asfortranarray(matrix), wide[::2, ::2], read_only, matrix[::-1][::-1]):
        found = cut(rows_of(layout), thresholds)
        np.testing.assert_array_equal(found.sizes, expected.sizes)
        np.testing.assert_array_equal(in_order(found.members), in_order(expected.members))
        for a in range(2):
            flags, _ = masks(rows_of(layout), thresholds[:, a : a + 1])
            np.testing.assert_array_equal(flags, mask_of(expected, a, matrix.shape))
