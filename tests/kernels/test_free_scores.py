"""Scores without weights, bands and thresholds for every cell: every engine gives the bits of numpy's."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aptset
from aptset.kernels import engines
from aptset.kernels.counting import Calibrated, add_counts, index_of, p_values_of_rows
from aptset.kernels.engines.compiled_engine import job_of
from aptset.kernels.formula import Formula
from aptset.kernels.membership import in_order, masks, select
from aptset.kernels.rows import Rows, all_scores_of_block, label_scores
from aptset.scores.conformity import formula_of
from rows_strategy import matrices

KEYED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def of_all_places(places):
    """Look at everything that a score may look at."""
    of_row = places.top / 3 - places.second / 7 + places.with_mass / (5 * places.classes) + places.u / 11
    return places.own / places.total - places.above / 2 + places.rank / 64 + of_row


def of_prevalence(n_classes):
    return formula_of(aptset.Prevalence({k: k * k % 5 for k in range(n_classes)}))


def formulas(n_classes):
    """Return a function, the fast form of another, and a fast form that goes by weights."""
    return [Formula(None, of_all_places), of_prevalence(n_classes), formula_of(aptset.Adaptive())]


@contextmanager
def by_numpy(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engines, "chosen", engines.NUMPY)
        yield


def calibrated_of(rows, n_groups, of_columns=None, n=150):
    """Return scores of these rows and others between them, in groups; the last has none."""
    scores, _ = all_scores_of_block(rows, 0, len(rows))
    some = np.resize(np.concatenate([scores.ravel(), scores.ravel() + 0.01]), n)
    group = np.sort(np.random.default_rng(0).integers(max(1, n_groups - 1), size=n))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    upward = np.concatenate([np.sort(part) for part in np.split(some, offsets[1:-1])])
    return Calibrated(upward, offsets, index_of(upward, offsets), of_columns=of_columns)


def answers(rows):
    """Return everything that the loops say about some rows."""
    n, k = rows.probabilities.shape
    scores, bad = all_scores_of_block(rows, 0, n)
    if bad >= 0:
        return [bad, label_scores(rows, np.zeros(n, dtype=np.int64)).first_bad, masks(rows, np.ones((1, 1)))[1]]
    middle, by_label = np.quantile(scores, [0.3, 0.8])[None, :], np.quantile(scores, 0.6, axis=0)
    by_cell = np.stack([scores[::-1], np.full((n, k), -9.0)])
    found = [scores, label_scores(rows, np.arange(n) % k).scores, masks(rows, middle[:, :1], 1)[0]]
    found += [masks(rows, by_label[None])[0]]
    cuts = [select(rows, middle.T[:, :, None], 1), select(rows, np.resize(middle, (1, n, 1)))]
    cuts += [select(rows, by_label[None, None], 1)]
    cuts += [select(rows, lambda start, stop: by_cell[:, start:stop], 1)]
    cuts += [select(rows, lambda start, stop: by_cell[:1, :1], 1)]
    cuts += [select(rows, lambda start, stop: by_cell[:, start:stop, :1], 1)]
    for one in cuts:
        for pointers, members in one.sets:
            found += [pointers, in_order(members)]
    bands = np.arange(k) % 3
    row_groups = (np.arange(n) % 4 - 1).astype(np.int32)
    for n_groups, of_columns, groups in ((4, None, row_groups), (k, None, None), (3, bands, None)):
        calibrated, counts = calibrated_of(rows, n_groups, of_columns), np.ones((n, k), dtype=np.int32)
        assert add_counts(rows.seeded(), calibrated, groups, counts) == -1
        found += [counts, p_values_of_rows(rows, calibrated, groups)[0]]
    return found


def assert_same(rows, monkeypatch):
    found = answers(rows)
    with by_numpy(monkeypatch):
        expected = answers(rows)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@KEYED
@given(matrix=matrices(max_classes=7), data=st.data())
def test_engines_agree_on_ugly_rows(path, monkeypatch, matrix, data):
    formula = data.draw(st.sampled_from(formulas(matrix.shape[1])))
    u = data.draw(st.one_of(st.none(), st.floats(0, 1).map(lambda one: np.full(len(matrix), one))))
    assert_same(Rows(matrix, formula, 5, 0.05, u=u, normalize=data.draw(st.booleans())), monkeypatch)


@pytest.mark.parametrize("n_classes", [2, 8, 17, 40, 41, 130])
def test_engines_agree_on_rows_of_every_width(path, monkeypatch, n_classes):
    p = np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.3), size=37)
    p[p < 1e-3] = 0.0
    p[7], p[9] = p[8], np.eye(n_classes)[1]
    p /= p.sum(axis=1, keepdims=True)
    p[3][p[3] == 0] = -0.0  # zeros of the other sign
    for formula in formulas(n_classes):
        assert_same(Rows(p, formula, 3, 1e-5), monkeypatch)
        assert_same(Rows(p.astype(np.float32), formula, 3, 1e-3), monkeypatch)


@pytest.mark.parametrize("wrong", [np.nan, -0.25, 2.5])
def test_bad_rows_are_told(path, wrong):
    p = np.full((20, 4), 0.25)
    p[13, 2] = wrong
    for formula in formulas(4):
        rows = Rows(p, formula, 3, 1e-5).seeded()
        counts, calibrated = np.zeros((20, 4), dtype=np.int32), Calibrated(np.ones(3), np.array([0, 3]))
        zeros = np.zeros(20, dtype=np.int32)
        assert all_scores_of_block(rows, 0, 20)[1] == 13
        assert label_scores(rows, np.zeros(20, dtype=np.int64)).first_bad == 13
        assert select(rows, lambda start, stop: np.ones((1, 1, 1)), 0).first_bad == 13
        assert select(rows, np.ones((1, 1, 1))).first_bad == masks(rows, np.ones((1, 1)))[1] == 13
        assert select(rows, np.ones((1, 1, 4))).first_bad == masks(rows, np.ones((1, 4)))[1] == 13
        assert add_counts(rows, calibrated, zeros, counts) == p_values_of_rows(rows, calibrated, zeros)[1] == 13


def test_rows_alone_and_in_blocks(path, limits, monkeypatch):
    p = np.random.default_rng(0).dirichlet(np.ones(6), size=40)
    for formula in formulas(6):
        whole = answers(Rows(p, formula, 3, 1e-5))
        limits(block_cells=50, read_in_place=1)
        for one, other in zip(answers(Rows(p, formula, 3, 1e-5)), whole, strict=True):
            np.testing.assert_array_equal(one, other)
        monkeypatch.undo()


def test_lengths_that_do_not_fit_are_refused():
    loops = pytest.importorskip("aptset.kernels._compiled")
    two, out = np.zeros((2, 3)), np.zeros((2, 3))
    scores, offsets, nothing = np.zeros(4), np.array([0, 4]), (None,) * 6
    groups = np.zeros(2, dtype=np.int32)
    cells = (two, np.ones(1), 0, 0, 0, groups)  # scores, one threshold, at least none, sizes

    def seeded_job(n):
        rows = Rows(np.full((n, 3), 1 / 3), Formula(aptset.Adaptive().weights), 3, 1e-5)
        return job_of(replace(rows, seeds=np.zeros(n, dtype=np.uint64)), None)

    calls = [
        lambda: loops.p_values_of_scores(two, 3, scores, offsets, groups, None, *nothing, out),  # without rounding
        lambda: loops.counts_of_scores(two, 3, scores, offsets, groups[:1], None, *nothing, np.zeros(6, np.int32)),
        lambda: loops.counts_of_scores(
            two, 3, scores, offsets, None, np.full(3, 1, np.int32), *nothing, np.zeros(6, np.int32)
        ),
        lambda: loops.counts_of_scores(
            two, 3, scores, offsets, None, np.full(2, 0, np.int32), *nothing, np.zeros(6, np.int32)
        ),
        lambda: loops.counts_of_scores(two, 0, scores, offsets, groups, None, *nothing, np.zeros(6, np.int32)),
        *(
            partial(loops.by_cell, *seeded_job(2), 2, *cells, np.zeros(0, np.uint8), width, None)
            for width in (-1, 0, 3)
        ),
        lambda: loops.by_cell(*seeded_job(0), 2**61, *cells, np.zeros(0, np.uint8), 1, None),
        lambda: loops.softmax(two, 3, np.zeros(17), out),
        lambda: loops.softmax(two, 0, np.zeros(18), out),
        lambda: loops.ratios(groups, groups, two, scores, out, np.zeros(2, np.bool_)),
        lambda: loops.codes(np.zeros(7, np.uint8), np.zeros(2, np.int32), np.zeros(2, np.int64)),
        lambda: loops.codes(np.zeros(8, np.uint8), np.zeros(2, np.int32), np.zeros(1, np.int64)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="fit together"):
            call()
