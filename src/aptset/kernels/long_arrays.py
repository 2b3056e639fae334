"""Long arrays on every core: put in order, counted, and taken apart by groups.

The results depend on the values alone, never on how many threads there were or where an array was cut.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import LONG, over_blocks, over_numbers, pointers_of, shared_out
from aptset.kernels.engines.seam import Columns
from aptset.kernels.formula import Floats

_BUCKETS = 256  # that are sorted one by one: few enough to be written side by side, small enough for a near cache
_MOST_GROUPS = 2**14  # that are counted for every block
_SAMPLE = 2**14  # values that tell where buckets start


def sort_upward(values: Floats) -> Floats:
    """Return a sorted copy."""
    if len(values) < LONG:
        return np.sort(values)
    ordered, offsets = _in_buckets(values, values)
    over_blocks(len(offsets) - 1, 1, lambda bucket, _: ordered[offsets[bucket] : offsets[bucket + 1]].sort())
    return ordered


def order_upward(values: Floats) -> NDArray[np.int64]:
    """Return the numbers of the values from the smallest to the largest; equal ones stand in any order."""
    if len(values) < LONG:
        return np.argsort(values)
    order, offsets = _in_buckets(np.arange(len(values)), values)

    def sort(bucket: int, _: int) -> None:
        numbers = order[offsets[bucket] : offsets[bucket + 1]]
        numbers[:] = numbers[np.argsort(values[numbers])]

    over_blocks(len(offsets) - 1, 1, sort)
    return order


def _in_buckets(words: NDArray[Any], values: Floats) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return words by buckets of their values, each of which lies below the next, and where buckets start."""
    sample = np.sort(values[:: len(values) // _SAMPLE])
    splitters = np.unique(sample[len(sample) // _BUCKETS :: len(sample) // _BUCKETS])
    numbers = np.empty(len(values), dtype=np.int32)

    def number(start: int, stop: int) -> None:
        engines.chosen.bucket_numbers(values[start:stop], splitters, numbers[start:stop])

    over_numbers(len(values), number)
    return in_groups(words, numbers, len(splitters) + 1)


def of_rank(values: Floats, rank: int) -> float:
    """Return the rank-th smallest value: one pass over all of them, and a second look at few."""
    if len(values) >= LONG:
        sample = np.sort(values[:: len(values) // _SAMPLE])
        place, reach = rank * len(sample) // len(values), 2 * int(len(sample) ** 0.5)
        low, high = sample[max(0, place - reach)], sample[min(len(sample) - 1, place + reach)]

        def look(start: int, stop: int) -> tuple[int, Floats]:
            some = values[start:stop]
            return int(np.count_nonzero(some < low)), some[(some >= low) & (some <= high)]

        found = over_numbers(len(values), look)
        below, close = sum(count for count, _ in found), np.concatenate([some for _, some in found])
        if below < rank <= below + len(close):
            return float(np.partition(close, rank - 1 - below)[rank - 1 - below])
    return float(np.partition(values, rank - 1)[rank - 1])


def group_sizes(numbers: NDArray[np.int32], n_groups: int) -> NDArray[np.int64]:
    """Count the numbers of each group."""
    found = over_numbers(len(numbers), lambda start, stop: engines.chosen.group_sizes(numbers[start:stop], n_groups))
    return found[0] if len(found) == 1 else np.sum(found, axis=0)


def in_groups(words: NDArray[Any], numbers: NDArray[np.int32], n_groups: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return words of eight bytes in the order of their groups, and where each group starts and the last one ends."""
    n, to = len(words), np.empty_like(words)
    step = shared_out(n, LONG) if n_groups <= _MOST_GROUPS else max(1, n)
    sizes_of_blocks = over_blocks(n, step, lambda a, b: engines.chosen.group_sizes(numbers[a:b], n_groups))
    sizes = np.array(sizes_of_blocks, dtype=np.int64).reshape(len(sizes_of_blocks), n_groups)
    offsets = pointers_of(sizes.sum(axis=0))
    starts = offsets[:-1] + np.cumsum(sizes, axis=0) - sizes  # of each group in each block

    def place(start: int, stop: int) -> None:
        engines.chosen.place(words[start:stop], numbers[start:stop], starts[start // step], to)

    over_blocks(n, step, place)
    return to, offsets


def holds(pointers: NDArray[np.int64], members: Columns, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which rows, whose members stand from ``pointers[i]`` on, hold a column."""
    flags = np.empty(len(columns), dtype=np.bool_)

    def work(start: int, stop: int) -> None:
        engines.chosen.holds(pointers[start : stop + 1], members, columns[start:stop], flags[start:stop])

    over_blocks(len(columns), _rows_at_once(pointers), work)
    return flags


def repeated(pointers: NDArray[np.int64], members: NDArray[np.int32], n_classes: int) -> int:
    """Return the first row that holds a label twice, or -1."""

    def work(start: int, stop: int) -> int:
        row = engines.chosen.repeated(pointers[start : stop + 1], members, n_classes)
        return start + row if row >= 0 else -1

    rows = over_blocks(len(pointers) - 1, max(n_classes, _rows_at_once(pointers)), work)
    return min((row for row in rows if row >= 0), default=-1)


def _rows_at_once(pointers: NDArray[np.int64]) -> int:
    n_rows = max(1, len(pointers) - 1)
    cells = 1 + int(pointers[-1] - pointers[0]) // n_rows
    return shared_out(n_rows, max(1, LONG // cells), cells)
