"""Members that wait to be put in order: the same sets in the same order, and no order for those who need none."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aptset
from aptset.kernels import engines
from aptset.kernels.engines import compiled_engine
from aptset.kernels.formula import Formula
from aptset.kernels.membership import LazyMembers, cut, in_order
from aptset.kernels.rows import Rows
from aptset.scores import SCORES
from rows_strategy import matrices

NAMES = sorted(name for name in SCORES if hasattr(SCORES[name], "weights"))


@pytest.fixture
def everything_waits(limits):
    """Let members of small sets in few rows wait, too; a block is a few rows."""
    limits(many_members=0, few_cells=0, block_cells=120, read_in_place=1)


def flat_rows(n=300, n_classes=200, dtype=np.float32):
    """Rows that need many labels, some of them tied; five come twice."""
    logits = np.random.default_rng(n_classes).normal(size=(n, n_classes)).round(1)
    matrix = np.exp(logits)
    matrix[-5:] = matrix[:5]
    return (matrix / matrix.sum(axis=1, keepdims=True)).astype(dtype)


def wide(matrix):
    """Repeat the labels until rows are too wide to come out in order anyhow: every label is tied."""
    return np.tile(matrix, (1, 24)) / matrix.dtype.type(24)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    matrix=matrices(max_classes=4),
    name=st.sampled_from(NAMES),
    threshold=st.one_of(st.floats(0, 2), st.sampled_from([-1.0, 1.0, np.inf])),
    min_size=st.integers(0, 1),
)
def test_waiting_members_are_those_of_numpy_in_their_order(path, everything_waits, matrix, name, threshold, min_size):
    matrix = wide(matrix)
    rows = Rows(matrix, Formula(SCORES[name]().weights), key=3, tolerance=0.05)
    pointers, members = cut(rows, np.full((1, 1), threshold), min_size).at(0)
    chosen, engines.chosen = engines.chosen, engines.NUMPY
    try:
        expected_pointers, expected = cut(rows, np.full((1, 1), threshold), min_size).at(0)
    finally:
        engines.chosen = chosen
    np.testing.assert_array_equal(pointers, expected_pointers)
    if isinstance(members, LazyMembers):
        loose = members.in_any_order()
        assert len(loose) == len(members) == len(expected)
        for start, stop in pairwise(pointers.tolist()):
            assert set(loose[start:stop].tolist()) == set(expected[start:stop].tolist())
    np.testing.assert_array_equal(in_order(members), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [41, 200, 1000])
def test_sets_are_the_same_whether_they_wait_or_not(monkeypatch, n_classes, dtype):
    matrix = flat_rows(600, n_classes, dtype)
    labels = np.arange(len(matrix)) % n_classes
    calibration = aptset.calibrate(matrix, labels, random_state=0)
    late = calibration.predict_set(matrix[:-5], 0.2)
    monkeypatch.setattr(engines, "chosen", engines.NUMPY)
    plain = calibration.predict_set(matrix[:-5], 0.2)
    assert ("_lazy" in vars(late)) == (late.sizes.mean() >= 48), "few members are put in order at once"
    assert "_lazy" not in vars(plain)
    assert late == plain
    assert late.indices.dtype == plain.indices.dtype == np.int32


def test_more_columns_than_two_bytes_hold(monkeypatch):
    matrix = flat_rows(12, 70_000, np.float64)
    rows = Rows(
        matrix, Formula(SCORES["adaptive"]().weights), key=3, tolerance=0.05, seeds=np.arange(12, dtype=np.uint64)
    )
    pointers, members = cut(rows, np.full((1, 1), 0.9)).at(0)
    assert isinstance(members, LazyMembers)
    monkeypatch.setattr(engines, "chosen", engines.NUMPY)
    expected_pointers, expected = cut(rows, np.full((1, 1), 0.9)).at(0)
    np.testing.assert_array_equal(pointers, expected_pointers)
    np.testing.assert_array_equal(in_order(members), expected)


def waiting_sets(matrix):
    labels = np.arange(len(matrix)) % matrix.shape[1]
    sets = aptset.calibrate(matrix, labels, random_state=0).predict_set(matrix[:250], 0.2)
    assert "_lazy" in vars(sets)
    return sets, labels[:250]


def test_sizes_coverage_and_masks_put_nothing_in_order(monkeypatch):
    matrix = flat_rows()
    sets, labels = waiting_sets(matrix)

    def refuse(_):
        raise AssertionError("put in order")

    with monkeypatch.context() as patched:
        patched.setattr(LazyMembers, "in_order", refuse)
        mask, covered, sizes = sets.mask, sets.covers(labels), sets.sizes
        judged = aptset.evaluate(sets, labels, alpha=0.2)
        named = sets.named_as(aptset.core.tables.make_table({"x": np.arange(250)}, "pandas"))
        np.testing.assert_array_equal(named.mask, mask)
        with pytest.raises(AssertionError, match="put in order"):
            sets.labels()
    eager = pickle.loads(pickle.dumps(sets))
    assert "_lazy" not in vars(eager)
    np.testing.assert_array_equal(mask, eager.mask)
    np.testing.assert_array_equal(covered, eager.covers(labels))
    np.testing.assert_array_equal(sizes, eager.sizes)
    assert str(judged) == str(aptset.evaluate(eager, labels, alpha=0.2))
    assert named.indices is not None
    np.testing.assert_array_equal(named.indices, eager.indices)


def test_the_order_is_that_of_the_rows_as_they_were():
    matrix = flat_rows()
    sets, _ = waiting_sets(matrix)
    original, changing = matrix[:250].copy(), matrix
    changing[:] = changing[:, ::-1].copy()
    rows = np.repeat(np.arange(250), sets.sizes)
    falls = np.diff(original[rows, sets.indices]) <= 0
    assert falls[np.diff(rows) == 0].all()


def test_waiting_sets_copy_pickle_and_stay_frozen():
    sets, _ = waiting_sets(flat_rows())
    for other in (pickle.loads(pickle.dumps(sets)), copy.copy(sets), copy.deepcopy(sets)):
        assert other == sets
    with pytest.raises(ValueError, match="read-only"):
        sets.indices[0] = 3
    with pytest.raises(AttributeError, match="no attribute 'indexes'"):
        sets.indexes  # noqa: B018 - asked for to be refused


def test_many_threads_ask_for_the_order_and_it_is_worked_out_once(monkeypatch):
    sets, _ = waiting_sets(flat_rows())
    expected, calls = pickle.loads(pickle.dumps(waiting_sets(flat_rows())[0])).indices, []
    work_out = compiled_engine.WaitingMembers.in_order
    monkeypatch.setattr(
        compiled_engine.WaitingMembers, "in_order", lambda part: (calls.append(part), work_out(part))[1]
    )
    parts = len(vars(sets)["_lazy"]._parts)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: sets.indices, range(32)))
    assert len(calls) == parts
    for indices in found:
        np.testing.assert_array_equal(indices, expected)
