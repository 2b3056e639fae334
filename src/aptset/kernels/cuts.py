"""Which labels of each row score at most a threshold: a beginning of the order of the row, found without sorting it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.formula import Floats, Weights
from aptset.kernels.free_cuts import FreeCut, cut_freely, mask_freely
from aptset.kernels.opened import OpenBlock, open_block, ordered_scores
from aptset.kernels.places import Rows, compiled_arguments, first_bad_row, piece_of
from aptset.kernels.rowhash import Words, column_keys

Columns = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]


class Cut(NamedTuple):
    """Members at the largest threshold of each row, most likely first, and the sizes at every threshold.

    Sets at smaller thresholds are beginnings of the same rows, so one list of members serves them all.
    """

    sizes: NDArray[np.int32]  # (thresholds, rows)
    longest: NDArray[np.int32]  # of each row
    members: NDArray[np.int32]  # one row after the other
    first_bad: int

    def at(self, which: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return (row pointers, members) of the sets at one of the thresholds."""
        sizes = self.sizes[which]
        pointers = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=pointers[1:])
        if pointers[-1] == len(self.members):
            return pointers, self.members
        taken = np.empty(pointers[-1], dtype=np.int32)
        if backend.compiled is not None:
            backend.compiled.beginnings(self.members, self.longest, sizes, taken)
        else:
            starts = np.cumsum(self.longest, dtype=np.int64) - self.longest
            taken[:] = self.members[np.arange(pointers[-1]) + np.repeat(starts - pointers[:-1], sizes)]
        return pointers, taken

    def with_rows(self, rows: NDArray[np.int64], others: "Cut") -> "Cut":
        """Return the same with some rows replaced."""
        sizes, longest = self.sizes.copy(), self.longest.copy()
        starts = np.cumsum(self.longest, dtype=np.int64) - self.longest
        starts[rows] = len(self.members) + np.cumsum(others.longest, dtype=np.int64) - others.longest
        sizes[:, rows], longest[rows] = others.sizes, others.longest
        ends = np.cumsum(longest, dtype=np.int64)
        joined = np.concatenate([self.members, others.members])
        members = joined[np.arange(ends[-1]) + np.repeat(starts - (ends - longest), longest)]
        return Cut(sizes, longest, members, -1)

    def at_each(self) -> list[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Return the sets at every threshold, several at a time."""
        return over_blocks(len(self.sizes), max(self.sizes.shape[1], BLOCK_CELLS), lambda which, _: self.at(which))


def cut(rows: Rows, thresholds: Floats, at_least: int = 0) -> Cut | FreeCut:
    """Cut every row at its thresholds; sets hold ``at_least`` labels (0 or 1).

    Thresholds are (rows, thresholds), or (1, thresholds) if they are the same for all rows.
    """
    weights = rows.formula.weights
    return cut_freely(rows, thresholds, at_least) if weights is None else _cut(rows, weights, thresholds, at_least)


def _cut(rows: Rows, weights: Weights, thresholds: Floats, at_least: int) -> Cut:
    keys, noted = column_keys(rows.key, rows.n_columns), rows.room_for_seeds()
    sizes = np.empty((thresholds.shape[1], len(rows)), dtype=np.int32)

    def work(start: int, stop: int) -> tuple[int, Columns]:
        block, wanted = rows.block(start, stop), _of_block(thresholds, start, stop)
        if backend.compiled is None:
            seeds = piece_of(noted, start, stop)
            bad, sizes[:, start:stop], members = _cut_block(block, keys, weights, wanted, at_least, seeds)
        else:
            found = np.empty((wanted.shape[1], stop - start), dtype=np.int32)
            room = np.empty((stop - start) * rows.n_columns, dtype=_dtype_of_columns(rows.n_columns))
            given = (*_wanted_arguments(wanted, at_least), found, room, room.itemsize)
            arguments = compiled_arguments(block, keys, piece_of(noted, start, stop))
            bad, written = backend.compiled.cuts(*arguments, *given)
            sizes[:, start:stop], members = found, room[:written].copy()
        return (start + int(bad) if bad >= 0 else -1), members

    results = over_blocks(len(rows), rows.n_columns, work, rows.in_place)
    first_bad = first_bad_row([bad for bad, _ in results])
    which = thresholds.argmax(axis=1)
    longest = sizes[which[0]] if (which == which[0]).all() else sizes.max(axis=0)
    found = Cut(sizes, longest, _join([members for _, members in results]), first_bad)
    copies = None if first_bad >= 0 else rows.copies(noted)
    if copies is None:
        return found
    again = _cut(rows.again(copies), weights, _of_rows(thresholds, copies.rows), at_least)
    return found.with_rows(copies.rows, again)


def masks(rows: Rows, thresholds: Floats, at_least: int = 0) -> tuple[NDArray[np.bool_], int]:
    """Return the members at one threshold as a boolean matrix, and the first bad row or -1."""
    weights = rows.formula.weights
    if weights is None:
        return mask_freely(rows, thresholds, at_least)
    keys, noted = column_keys(rows.key, rows.n_columns), rows.room_for_seeds()
    flags = np.empty((len(rows), rows.n_columns), dtype=np.bool_)

    def work(start: int, stop: int) -> int:
        block, wanted = rows.block(start, stop), _of_block(thresholds, start, stop)
        if backend.compiled is not None:
            given = (*_wanted_arguments(wanted, at_least), flags[start:stop])
            arguments = compiled_arguments(block, keys, piece_of(noted, start, stop))
            bad = int(backend.compiled.masks(*arguments, *given))
        else:
            opened = open_block(block, keys, piece_of(noted, start, stop))
            bad = _mask_block(opened, weights, wanted, at_least, flags[start:stop])
        return start + bad if bad >= 0 else -1

    first_bad = first_bad_row(over_blocks(len(rows), rows.n_columns, work, rows.in_place))
    copies = None if first_bad >= 0 else rows.copies(noted)
    if copies is not None:
        flags[copies.rows], _ = masks(rows.again(copies), _of_rows(thresholds, copies.rows), at_least)
    return flags, first_bad


def _of_rows(thresholds: Floats, rows: NDArray[np.int64]) -> Floats:
    return thresholds if len(thresholds) == 1 else thresholds[rows]


def _of_block(thresholds: Floats, start: int, stop: int) -> Floats:
    return np.ascontiguousarray(thresholds if len(thresholds) == 1 else thresholds[start:stop])


def _wanted_arguments(thresholds: Floats, at_least: int) -> tuple[object, ...]:
    """Return the arguments that say where to cut (``WANTED_FORMAT`` in ``c/compiled.c``)."""
    n_thresholds = thresholds.shape[1]
    return thresholds, n_thresholds, n_thresholds if len(thresholds) > 1 else 0, at_least


def _dtype_of_columns(n_columns: int) -> type[np.generic]:
    """Return the smallest type for a column: what waits to be joined then takes little memory beside the result."""
    if n_columns <= 40:  # WIDEST_TILE in c/tile.h
        return np.uint8
    return np.uint16 if n_columns <= 2**16 else np.int32


def _join(parts: list[Columns]) -> NDArray[np.int32]:
    """Widen and join parts, dropping each one when it is done."""
    stops = np.cumsum([len(part) for part in parts]).tolist()
    joined = np.empty(stops[-1] if stops else 0, dtype=np.int32)
    while parts:
        stop, part = stops.pop(), parts.pop()
        joined[stop - len(part) : stop] = part
    return joined


def _mask_block(
    opened: OpenBlock, weights: Weights, thresholds: Floats, at_least: int, flags: NDArray[np.bool_]
) -> int:
    if opened.first_bad < 0:
        order, scores = ordered_scores(opened, weights)
        inside = scores <= thresholds
        inside[:, :at_least] = True
        np.put_along_axis(flags, order, inside, axis=1)
    return opened.first_bad


def _cut_block(
    block: Rows, keys: Words, weights: Weights, thresholds: Floats, at_least: int, noted: Words | None
) -> tuple[int, NDArray[np.int32], NDArray[np.int32]]:
    opened = open_block(block, keys, noted)
    none = np.zeros((thresholds.shape[1], len(block)), dtype=np.int32)
    if opened.first_bad >= 0:
        return opened.first_bad, none, none[0, :0]
    order, scores = ordered_scores(opened, weights)
    counts = [(scores <= thresholds[:, a, None]).sum(axis=1) for a in range(thresholds.shape[1])]
    sizes = np.maximum(np.array(counts, dtype=np.int32), at_least)
    is_member = np.arange(block.n_columns)[None, :] < sizes.max(axis=0)[:, None]
    return -1, sizes, order[is_member].astype(np.int32)
