"""Long arrays on every core: put in order, counted, and taken apart by groups.

The results depend on the values alone, never on how many threads there were or where an array was cut.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import LONG, over_blocks, over_numbers, shared_out, thread_count
from aptset.kernels.engines.interface import Columns
from aptset.kernels.formula import Floats

_FEW = 2**16  # values that one thread puts in order
_BUCKETS, _LEAST_BUCKET = 64, 2**14  # that are sorted one by one, and how many values are worth one of them
_WORTH_A_BLOCK = 2**16  # words: each takes a few steps
_MOST_GROUPS = 2**14  # that are counted for every block
_SAMPLED_OF_A_BUCKET = 2**7  # values that tell where buckets start, on average
_SAMPLE, _LEAST_STEP = 2**13, 32  # values that tell about where a rank is: so many, or one in so many
_WORTH_A_SAMPLE = 2**15  # values
_FEW_CLOSE = 8  # one in so many is close to a rank, unless many values tie


def sort_upward(values: Floats) -> Floats:
    """Return a sorted copy."""
    if len(values) < _FEW:
        return np.sort(values)
    ordered, offsets = _in_buckets(values, values)
    over_blocks(len(offsets) - 1, 1, lambda bucket, _: ordered[offsets[bucket] : offsets[bucket + 1]].sort())
    return ordered


def sort_beside(values: Floats, beside: NDArray[Any]) -> tuple[Floats, NDArray[Any]]:
    """Return the values upward, and what stands beside each of them; beside equal ones it stands in any order."""
    if len(values) < _FEW:
        order = np.argsort(values)
        return values[order], beside[order]
    order, offsets = _in_buckets(np.arange(len(values)), values)
    ordered, moved = np.empty_like(values), np.empty_like(beside)

    def sort(bucket: int, _: int) -> None:
        here = slice(offsets[bucket], offsets[bucket + 1])
        numbers = order[here]
        numbers = numbers[np.argsort(values[numbers])]
        ordered[here], moved[here] = values[numbers], beside[numbers]

    over_blocks(len(offsets) - 1, 1, sort)
    return ordered, moved


def _in_buckets(words: NDArray[Any], values: Floats) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return words by buckets of their values, each of which lies below the next, and where buckets start."""
    n_buckets = min(_BUCKETS, len(values) // _LEAST_BUCKET)
    sample = np.sort(values[:: len(values) // (_SAMPLED_OF_A_BUCKET * n_buckets)])
    step = -(-len(sample) // n_buckets)
    splitters = np.unique(sample[step::step])
    numbers, n_groups = np.empty(len(values), dtype=np.int32), len(splitters) + 1

    def number(start: int, stop: int) -> NDArray[np.int64]:
        part, to = np.ascontiguousarray(values[start:stop]), numbers[start:stop]  # NaN is above all splitters
        if engines.chosen.loops is not None:
            engines.chosen.loops.bucket_numbers(part, splitters, to)
        else:
            to[:] = np.searchsorted(splitters, part, side="right")
        return _sizes(to, n_groups)

    return _in_groups(words, numbers, n_groups, number)


def of_rank(values: Floats, rank: int) -> float:
    """Return the rank-th smallest value: one pass over all of them, and another look at few.

    A sample tells between which values it lies, up to four standard deviations; where it does not, all are looked at.
    """
    if len(values) >= _WORTH_A_SAMPLE:
        sample = np.sort(values[:: max(_LEAST_STEP, len(values) // _SAMPLE)])
        share = rank / len(values)
        place, reach = int(share * len(sample)), 8 + int(4 * (len(sample) * share * (1 - share)) ** 0.5)
        low, high = sample[max(0, place - reach)], sample[min(len(sample) - 1, place + reach)]
        of_blocks = over_numbers(len(values), lambda start, stop: _within(values[start:stop], low, high))
        below, close = sum(count for count, _ in of_blocks), np.concatenate([inside for _, inside in of_blocks])
        if below < rank <= below + len(close) < below + len(values):
            return of_rank(close, rank - below)
    return float(np.partition(values, rank - 1)[rank - 1])


def _within(values: Floats, low: float, high: float) -> tuple[int, Floats]:
    """Return how many values are below a range, and those within it."""
    if engines.chosen.loops is not None and values.flags.c_contiguous:
        inside = np.empty(len(values) // _FEW_CLOSE)
        below, n_inside = engines.chosen.loops.within(values, low, high, inside)
        if n_inside <= len(inside):
            return below, inside[:n_inside]
    return int(np.count_nonzero(values < low)), values[(values >= low) & (values <= high)]


def _sizes(numbers: NDArray[np.int32], n_groups: int) -> NDArray[np.int64]:
    """Count the numbers of each group; refuse one that is not among them."""
    if engines.chosen.loops is not None:
        sizes = np.zeros(n_groups, dtype=np.int64)
        engines.chosen.loops.group_sizes(numbers, sizes)
        return sizes
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= n_groups):
        raise ValueError("numbers of groups must be below their count")
    return np.bincount(numbers, minlength=n_groups).astype(np.int64)


def copy_columns(labels: NDArray[Any], columns: NDArray[Any], n_columns: int) -> bool:
    """Copy whole numbers, into int32 or int64; tell whether all of them are those of columns."""
    if engines.chosen.loops is not None and labels.dtype == np.int64 and labels.flags.c_contiguous:
        return bool(engines.chosen.loops.copy_columns(labels, columns, n_columns))
    numbers = labels.astype(np.int64)
    columns[:] = numbers
    return bool(numbers.min() >= 0 and numbers.max() < n_columns)


def group_sizes(numbers: NDArray[np.int32], n_groups: int) -> NDArray[np.int64]:
    """Count the numbers of each group."""
    sizes = over_numbers(len(numbers), lambda start, stop: _sizes(numbers[start:stop], n_groups))
    return sizes[0] if len(sizes) == 1 else np.sum(sizes, axis=0)


def in_groups(words: NDArray[Any], numbers: NDArray[Any], n_groups: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return words of eight bytes in the order of their groups, and where each group starts and the last one ends."""
    narrow = numbers if numbers.dtype == np.int32 else np.empty(len(numbers), dtype=np.int32)

    def sizes_of(start: int, stop: int) -> NDArray[np.int64]:
        if narrow is not numbers:
            narrow[start:stop] = numbers[start:stop]
        return _sizes(narrow[start:stop], n_groups)

    return _in_groups(words, narrow, n_groups, sizes_of)


def _in_groups(
    words: NDArray[Any],
    numbers: NDArray[np.int32],
    n_groups: int,
    sizes_of: Callable[[int, int], NDArray[np.int64]],
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Do so; the function says how many words of a block each group has, before numbers of the block are looked at."""
    n, to = len(words), np.empty_like(words)
    step = max(_WORTH_A_BLOCK, 16 * n_groups, -(-n // thread_count())) if n_groups <= _MOST_GROUPS else max(1, n)
    sizes_of_blocks = over_blocks(n, step, sizes_of, serial_blocks=1)
    sizes = np.array(sizes_of_blocks, dtype=np.int64).reshape(len(sizes_of_blocks), n_groups)
    offsets = pointers_of(sizes.sum(axis=0))
    starts = offsets[:-1] + np.cumsum(sizes, axis=0) - sizes  # of each group in each block

    over_blocks(n, step, lambda a, b: _place(words[a:b], numbers[a:b], starts[a // step], to), serial_blocks=1)
    return to, offsets


def _place(words: NDArray[Any], numbers: NDArray[np.int32], starts: NDArray[np.int64], to: NDArray[Any]) -> None:
    """Put words of eight bytes, in their order, where their groups start."""
    if engines.chosen.loops is not None:
        engines.chosen.loops.place(np.ascontiguousarray(words), numbers, starts.copy(), to)
        return
    order = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers, minlength=len(starts))
    to[np.arange(len(words)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)] = words[order]


def codes_of(items: NDArray[np.uint8]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number rows of bytes by their content, in order of first appearance; return the first of each number, too."""
    if engines.chosen.loops is not None:
        numbers, firsts = np.empty(len(items), dtype=np.int32), np.empty(len(items), dtype=np.int64)
        n_codes = engines.chosen.loops.codes(np.ascontiguousarray(items), numbers, firsts)
        return numbers, firsts[:n_codes].copy()
    whole = np.ascontiguousarray(items).view([("", np.uint8)] * items.shape[1]).ravel()
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(first), dtype=np.int32)
    number[order] = np.arange(len(first))
    return number[which.ravel()], first[order].astype(np.int64)


def sum_rows(matrix: Floats, rows: NDArray[np.intp] | None = None, mean: Floats | None = None) -> Floats:
    """Return the sum of each column, over some rows or all; with a mean, of the squares of how far they are from it.

    Rows are added one after the other. So does numpy where there are several columns; the numbers of one it adds in
    pairs, and those of columns that lie one after the other in memory, too.
    """
    if engines.chosen.loops is not None and matrix.flags.c_contiguous and matrix.shape[1] > 1:
        sums = np.zeros(matrix.shape[1])
        engines.chosen.loops.add_rows(matrix, rows, mean, sums)
        return sums
    chosen = matrix if rows is None else matrix[rows]
    with np.errstate(over="ignore"):  # as loops do: a spread that is infinite says so itself
        return np.asarray((chosen if mean is None else np.square(chosen - mean)).sum(axis=0))


def furthest_sums(matrix: Floats, orders: NDArray[np.intp]) -> Floats:
    """Return how far from 0 running sums of rows, taken in each of some orders, get in any column."""
    if engines.chosen.loops is None:
        return np.asarray(np.abs(np.cumsum(matrix[orders], axis=1)).max(axis=(1, 2)))
    furthest = np.empty(len(orders))
    engines.chosen.loops.furthest_sums(matrix, matrix.shape[1], orders, furthest)
    return furthest


class Judged(NamedTuple):
    """Which rows hold their column, and how many rows each column, size and holding or not has."""

    holds: NDArray[np.bool_]
    counts: NDArray[np.int64]  # (columns, sizes, 2), none of them if they were not asked for


def holding(pointers: NDArray[np.int64], members: Columns, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows, whose members stand from ``pointers[i]`` on, hold a column; none holds a number of no column."""
    flags, none = np.empty(len(columns), dtype=np.bool_), np.zeros((0, 0, 2), dtype=np.int64)

    def work(start: int, stop: int) -> None:
        _judge(pointers[start : stop + 1], members, columns[start:stop], flags[start:stop], none)

    over_blocks(len(columns), _rows_at_once(pointers), work)
    return flags


def judged(
    pointers: NDArray[np.int64], members: Columns, columns: NDArray[np.int64], n_columns: int = 0, n_sizes: int = 0
) -> Judged:
    """Tell which rows, whose members stand from ``pointers[i]`` on, hold a column; none holds a number of no column.

    Count those of each column below ``n_columns`` and each size below ``n_sizes``, if there are any.
    """
    flags, none = np.empty(len(columns), dtype=np.bool_), np.zeros((n_columns, n_sizes, 2), dtype=np.int64)

    def work(start: int, stop: int) -> NDArray[np.int64]:
        counts = none.copy()
        _judge(pointers[start : stop + 1], members, columns[start:stop], flags[start:stop], counts)
        return counts

    return Judged(flags, sum(over_blocks(len(columns), _rows_at_once(pointers), work), none))


def _judge(
    pointers: NDArray[np.int64],
    members: Columns,
    columns: NDArray[np.int64],
    flags: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    """Flag the rows that hold their column, and count them where counts are asked for."""
    if engines.chosen.loops is not None:
        of_counts = (counts.shape[1], counts) if counts.size else (0, None)
        of_rows = (pointers, members, members.itemsize, np.ascontiguousarray(columns), flags)
        engines.chosen.loops.holds(*of_rows, *of_counts)
        return
    sizes, within = np.diff(pointers), members[pointers[0] : pointers[-1]]
    hits = np.concatenate([[0], np.cumsum(within == np.repeat(columns, sizes))])
    flags[:] = np.diff(hits[pointers - pointers[0]]) > 0
    if counts.size:
        known = (columns >= 0) & (columns < len(counts))
        np.add.at(counts, (columns[known], sizes[known], flags[known].astype(np.intp)), 1)


def running_totals(sizes: NDArray[Any], first: int, ends: NDArray[np.int64]) -> None:
    """Write where rows of these sizes end, the first of which starts at ``first``."""
    if engines.chosen.loops is not None:
        kept = sizes if sizes.dtype in (np.int32, np.int64) else sizes.astype(np.int64)
        engines.chosen.loops.running_totals(np.ascontiguousarray(kept), first, ends)
        return
    np.cumsum(sizes, dtype=np.int64, out=ends)
    ends += first


def pointers_of(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Return where rows of these sizes start, and where the last one ends."""
    pointers = np.empty(len(sizes) + 1, dtype=np.int64)
    pointers[0] = 0
    totals = over_numbers(len(sizes), lambda start, stop: (start, int(sizes[start:stop].sum(dtype=np.int64))))
    first, before = {}, 0
    for start, total in totals:
        first[start], before = before, before + total

    def add_up(start: int, stop: int) -> None:
        running_totals(sizes[start:stop], first[start], pointers[start + 1 : stop + 1])

    over_numbers(len(sizes), add_up)
    return pointers


def repeated(pointers: NDArray[np.int64], members: NDArray[np.int32], n_classes: int) -> int:
    """Return the first row that holds a label twice, or -1."""

    def work(start: int, stop: int) -> int:
        row = _repeated(pointers[start : stop + 1], members, n_classes)
        return start + row if row >= 0 else -1

    rows = over_blocks(len(pointers) - 1, max(n_classes, _rows_at_once(pointers)), work)
    return min((row for row in rows if row >= 0), default=-1)


def _repeated(pointers: NDArray[np.int64], members: NDArray[np.int32], n_classes: int) -> int:
    if engines.chosen.loops is not None:
        return int(engines.chosen.loops.repeated(pointers, members, n_classes))
    row = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    pairs = np.sort(row * n_classes + members[pointers[0] : pointers[-1]])
    twice = np.flatnonzero(pairs[1:] == pairs[:-1])
    return int(pairs[twice[0]] // n_classes) if len(twice) else -1


def _rows_at_once(pointers: NDArray[np.int64]) -> int:
    n_rows = max(1, len(pointers) - 1)
    cells = 1 + int(pointers[-1] - pointers[0]) // n_rows
    return shared_out(n_rows, max(1, LONG // cells), cells)
