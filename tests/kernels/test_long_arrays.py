"""Long arrays on several threads: the same values whoever works on them, and no thread waits for another forever."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import aptset
from aptset.kernels import blocks, buckets, engines, long_arrays
from aptset.metrics.estimates import mean_of_sums, means_of_sums, share_of_count, shares_of_counts

N = 3 * blocks.LONG + 12_345


@pytest.fixture(params=["1", "5"], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setenv("APTSET_THREADS", request.param)
    return int(request.param)


def values_of(kind):
    generator = np.random.default_rng(7)
    uniform = generator.random(N)
    return {
        "uniform": uniform,
        "rounded": uniform.round(3),
        "one value": np.full(N, 0.25),
        "two scales": np.where(uniform < 0.9, uniform * 1e-9, 1 - uniform),
        "sorted": np.sort(uniform),
        "infinite and missing": np.where(uniform < 0.1, np.nan, np.where(uniform < 0.3, np.inf, -1 / uniform)),
        "every 8th is small": np.where(np.arange(N) % 8 == 0, -uniform, 1 + uniform),
    }[kind]


KINDS = ["uniform", "rounded", "one value", "two scales", "sorted", "infinite and missing", "every 8th is small"]


@pytest.mark.parametrize("kind", KINDS)
def test_sorting_and_selecting(path, kind):
    values = values_of(kind)
    expected = np.sort(values)
    np.testing.assert_array_equal(long_arrays.sort_upward(values), expected)
    ordered, numbers = long_arrays.sort_beside(values, np.arange(N))
    np.testing.assert_array_equal(ordered, expected)
    np.testing.assert_array_equal(values[numbers], expected)
    np.testing.assert_array_equal(np.sort(numbers), np.arange(N))
    for rank in (1, 2, N // 10, N // 2, 9 * N // 10, N - 1, N):
        np.testing.assert_equal(long_arrays.of_rank(values, rank), expected[rank - 1])


@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (7, 1), (1000, 2), (16_384, 10), (16_384, 1), (129, 40), (3, 5000)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_of_rows_are_those_of_numpy(path, shape, order):
    """To the last bit, signs of zeros and all; what lies one after the other in memory numpy adds in pairs."""
    generator = np.random.default_rng(0)
    matrix = np.asarray(generator.standard_t(2, size=shape), order=order)
    matrix[:, 0] = -0.0
    rows, mean = generator.integers(shape[0], size=3 * shape[0]), generator.normal(size=shape[1])
    expected = [matrix.sum(axis=0), matrix[rows].sum(axis=0), np.square(matrix - mean).sum(axis=0)]
    sums = [long_arrays.sum_rows(matrix), long_arrays.sum_rows(matrix, rows), long_arrays.sum_rows(matrix, mean=mean)]
    for one, other in zip(sums, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("n_groups", [1, 10, 1000, 20_000])
def test_groups_keep_the_order_of_their_rows(path, n_groups):
    numbers = np.random.default_rng(n_groups).integers(n_groups, size=N).astype(np.int32)
    for kind in (np.int32, np.int64):
        rows, offsets = long_arrays.in_groups(np.arange(N), numbers.astype(kind), n_groups)
        np.testing.assert_array_equal(rows, np.argsort(numbers, kind="stable"))
        np.testing.assert_array_equal(np.diff(offsets), np.bincount(numbers, minlength=n_groups))
    np.testing.assert_array_equal(long_arrays.group_sizes(numbers, n_groups), np.diff(offsets))


@pytest.mark.parametrize("kind", ["uniform", "rounded", "two scales", "sorted"])
def test_buckets_start_where_the_first_of_their_scores_stands(path, kind):
    """The definition: a bucket starts before the first score whose number, (score - low) * scale, is not below it."""
    scores = np.sort(values_of(kind))
    for first, last in ((0, N - 1), (N // 4, 3 * N // 4)):
        made = buckets.buckets_between(engines.chosen.loops, scores, first, last)
        n_buckets = len(made.starts) - 1
        numbers = np.clip((scores - made.low) * made.scale, 0, n_buckets - 1).astype(np.int64)
        sizes = np.bincount(numbers, minlength=n_buckets)
        np.testing.assert_array_equal(made.starts, np.concatenate([[0], np.cumsum(sizes)]))
        assert made.crowding == np.square(sizes).sum() / N
        assert buckets.crowding_of(engines.chosen.loops, made.starts)[1] == sizes.max()


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.dtype(">i8")])
def test_labels_that_are_columns_are_copied_and_others_told(path, kind):
    labels = np.random.default_rng(3).integers(10, size=N).astype(kind)
    for to in (np.int64, np.int32):
        columns = np.empty(N, dtype=to)
        assert long_arrays.copy_columns(labels, columns, 10)
        np.testing.assert_array_equal(columns, labels)
        assert long_arrays.copy_columns(labels[::2], columns[::2].copy(), 10), "not contiguous"
        for other in (10, -1, 2**32 + 1, -(2**63)):
            if np.iinfo(kind).min <= other <= np.iinfo(kind).max:
                strange = labels.copy()
                strange[N // 2] = other
                assert not long_arrays.copy_columns(strange, columns, 10), "a number that wraps is none of a column"


@pytest.mark.parametrize("longest", [3, 40])
def test_sets_hold_a_column_and_none_twice(path, longest):
    generator = np.random.default_rng(longest)
    n_rows = blocks.LONG if longest == 3 else 20_000
    sizes = generator.integers(longest + 1, size=n_rows)
    pointers = long_arrays.pointers_of(sizes)
    np.testing.assert_array_equal(pointers, np.concatenate([[0], np.cumsum(sizes)]))
    np.testing.assert_array_equal(blocks.sizes_of(pointers), sizes)
    start = generator.integers(50, size=n_rows)
    row, place = np.repeat(np.arange(n_rows), sizes), np.arange(pointers[-1]) - np.repeat(pointers[:-1], sizes)
    members = ((start[row] + place) % 50).astype(np.int32)
    columns = generator.integers(-1, 50, size=n_rows)
    columns[::7] = generator.choice([50, 2**40, -(2**63)], size=len(columns[::7]))  # numbers of no column
    is_known = (columns >= 0) & (columns < 50)
    expected = is_known & ((columns - start) % 50 < sizes)
    for kind in (np.uint8, np.uint16, np.int32):
        found = long_arrays.judged(pointers, members.astype(kind), columns, 50, longest + 1)
        np.testing.assert_array_equal(found.holds, expected)
        np.testing.assert_array_equal(long_arrays.holding(pointers, members.astype(kind), columns), expected)
        counts = np.zeros((50, longest + 1, 2), dtype=np.int64)
        np.add.at(counts, (columns[is_known], sizes[is_known], expected[is_known].astype(int)), 1)
        np.testing.assert_array_equal(found.counts, counts)
        assert long_arrays.judged(pointers, members.astype(kind), columns).counts.size == 0
    assert long_arrays.repeated(pointers, members, 50) == -1
    bad = np.flatnonzero(sizes >= 2)[[-1, 1000]]
    members[pointers[bad] + sizes[bad] - 1] = members[pointers[bad]]
    assert long_arrays.repeated(pointers, members, 50) == bad[1], "the first row that holds a label twice"


def test_pointers_that_leave_the_members_are_refused():
    loops = engines.ENGINES["compiled"].loops
    members, flags = np.zeros(4, dtype=np.int32), np.zeros(2, dtype=np.bool_)
    for pointers in ([0, 2, 5], [0, 3, 2], [-1, 2, 4]):
        with pytest.raises(ValueError, match="fit together"):
            loops.holds(np.array(pointers), members, 4, np.zeros(2, dtype=np.int64), flags, 0, None)
        with pytest.raises(ValueError, match="fit together"):
            loops.repeated(np.array(pointers), members, 3)
    counts = np.zeros((1, 2, 2), dtype=np.int64)
    with pytest.raises(ValueError, match="fit together"):  # a size that has no count
        loops.holds(np.array([0, 2, 4]), members, 4, np.array([0, 0]), flags, 2, counts)
    with pytest.raises(ValueError, match="fit together"):
        loops.repeated(np.array([0, 4]), members - 1, 3)
    for numbers in ([3], [-1]):
        with pytest.raises(ValueError, match="fit together"):
            loops.group_sizes(np.array(numbers, dtype=np.int32), np.zeros(3, dtype=np.int64))
    for first, stop, n_starts in ((0, 3, 2), (-1, 2, 2), (2, 1, 2), (0, 2, 1)):
        with pytest.raises(ValueError, match="fit together"):
            loops.bucket_starts(np.zeros(2), first, stop, 0.0, 1.0, np.zeros(n_starts, dtype=np.int32))
    with pytest.raises(ValueError, match="fit together"):
        loops.copy_columns(np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64), 3)
    with pytest.raises(ValueError, match="fit together"):
        loops.worst_segment(np.zeros(3), np.zeros(2, dtype=np.uint8), 1, 1, 1)
    for start in (-1, 1):
        with pytest.raises(ValueError, match="fit together"):
            loops.place(np.zeros(1), np.zeros(1, dtype=np.int32), np.array([start]), np.zeros(1))


def test_calls_within_blocks_and_from_many_threads_end():
    def inner(start, stop):
        return sum(blocks.over_blocks(20, 1, lambda a, b: b - a))

    def call(_):
        return blocks.over_blocks(20, 1, inner)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(16))) == [[20] * 20] * 16


def test_the_error_is_that_of_the_first_block():
    def work(start, stop):
        if start >= 7:
            raise ValueError(f"block {start}")
        return start

    for _ in range(20):
        with pytest.raises(ValueError, match=r"^block 7$"):
            blocks.over_blocks(50, 1, work)
    assert blocks.over_blocks(7, 1, work) == list(range(7)), "what follows is not disturbed"


FORKED = """
import os, warnings
from aptset.kernels import blocks
warnings.simplefilter("ignore")
total = sum(blocks.over_blocks(100, 1, lambda a, b: a))
child = os.fork()
if child == 0:
    os._exit(0 if sum(blocks.over_blocks(100, 1, lambda a, b: a)) == total else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_threads_that_are_kept_do_not_hang_a_child():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr


def test_an_evaluation_of_many_rows_is_that_of_each_part(path):
    generator, names = np.random.default_rng(3), np.array(["a", "b", "c"])
    mask, truth = generator.random((N, 3)) < 0.6, generator.integers(3, size=N)
    group = generator.integers(4, size=N) - 2
    found = aptset.evaluate(aptset.PredictionSets.from_mask(mask, names), names[truth], groups=group, alpha=0.4)
    covered, sizes = mask[np.arange(N), truth], mask.sum(axis=1)
    assert repr(found.coverage) == repr(share_of_count(int(covered.sum()), N, 0.95))
    for by, parts, size_of in (("by_label", truth, "size_by_label"), ("by_group", group, "size_by_group")):
        for value in np.unique(parts).tolist():
            name, some = names[value] if by == "by_label" else value, parts == value
            counts = int(covered[some].sum()), int(some.sum())
            assert _same(getattr(found, by)[name], share_of_count(*counts, 0.95))
            sums = int(sizes[some].sum()), int((sizes[some] ** 2).sum())
            assert _same(getattr(found, size_of)[name], mean_of_sums(counts[1], *sums, 0, 3, 0.95))
    assert {size: share.count for size, share in found.sizes.items()} == dict(enumerate(np.bincount(sizes).tolist()))


def test_many_estimates_at_once_are_those_one_by_one():
    rows = np.array([0, 1, 1, 7, 7, 7, 1000, 123_456])
    counts = np.array([0, 0, 1, 0, 3, 7, 999, 1])
    for one, pair in zip(shares_of_counts(counts, rows, 0.9), zip(counts, rows, strict=True), strict=True):
        assert repr(one) == repr(share_of_count(*map(int, pair), 0.9))
    squares = counts**2 + 3
    for one, *sums in zip(means_of_sums(rows, counts, squares, 0, 9, 0.9), rows, counts, squares, strict=True):
        assert repr(one) == repr(mean_of_sums(*map(int, sums), 0, 9, 0.9))


def _same(one, other):
    return (float(one), one.low, one.high, one.n, one.count) == (
        float(other),
        other.low,
        other.high,
        other.n,
        other.count,
    )


def test_sets_of_many_rows_do_not_depend_on_threads(monkeypatch, threads):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(4), size=N).astype(np.float32)
    labels, flags = generator.integers(4, size=N), generator.random(N) < 0.3

    def everything():
        plain = aptset.calibrate(p, labels, random_state=0)
        by_label = aptset.calibrate(p, labels, groups="label", random_state=0)
        several = plain.predict_set(p, [0.3, 0.1])
        worst = aptset.worst_slice_coverage(several[0], labels, p.astype(float), directions=20)
        arrays = [plain.scores, *(one.indptr for one in several), *(one.indices for one in several), worst.rows]
        arrays += [by_label.predict_set(p, 0.2).indices, plain.p_values(p), worst.means, worst.overall, worst.spread]
        return plain.parts, [array.tobytes() for array in arrays], repr(worst), flags.sum()

    expected = everything()
    monkeypatch.setenv("APTSET_THREADS", str(threads + 2))
    assert everything() == expected


@pytest.mark.parametrize(("n", "columns", "n_orders"), [(1, 1, 3), (7, 3, 5), (100, 11, 40)])
def test_the_furthest_that_running_sums_get_has_the_bits_of_numpy(n, columns, n_orders):
    draw = np.random.default_rng(n)
    matrix = draw.normal(size=(n, columns)) * 10.0 ** draw.integers(-8, 8, size=columns)
    orders = draw.permuted(np.tile(np.arange(n), (n_orders, 1)), axis=1)
    expected = np.abs(np.cumsum(matrix[orders], axis=1)).max(axis=(1, 2))
    assert np.array_equal(long_arrays.furthest_sums(matrix, orders), expected)


def test_running_sums_of_rows_that_are_not_there_are_refused():
    if engines.chosen.loops is None:
        pytest.skip("this is about the compiled loops")
    for orders in ([[0, 1, 3]], [[0, 1, -1]], [[0, 1]]):
        with pytest.raises(ValueError, match="must fit together"):
            long_arrays.furthest_sums(np.ones((3, 2)), np.array(orders))
