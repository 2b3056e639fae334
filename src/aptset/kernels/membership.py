"""Which labels of each row score at most a threshold: a beginning of the order of the row, found without sorting it."""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import LONG, over_blocks, over_numbers
from aptset.kernels.engines.interface import Columns, Members, UnorderedMembers
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import pointers_of
from aptset.kernels.rows import Rows, first_bad_row, piece_of


class LazyMembers:
    """Members of sets, one row after the other, in any order within their rows until they are asked for.

    Beside each of them its probability waits, so the matrix that they come from may change or go.
    """

    def __init__(self, parts: list[Columns | UnorderedMembers]) -> None:
        self._parts: list[Columns | UnorderedMembers] = parts
        self._lock = Lock()

    def __len__(self) -> int:
        return sum(len(_columns_of(part)) for part in self._parts)

    def in_any_order(self) -> Columns:
        """Return the members as they are."""
        columns = [_columns_of(part) for part in self._parts]
        return columns[0] if len(columns) == 1 else _side_by_side(columns)

    def in_order(self) -> NDArray[np.int32]:
        """Return the members, most likely first; worked out once, on several threads."""
        with self._lock:
            if len(self._parts) > 1 or not isinstance(self._parts[0], np.ndarray):
                self._parts = [joined(list(self._parts))]  # replaced in one step: others read the parts meanwhile
            (members,) = self._parts
            return members  # type: ignore[return-value]  # an array by now


def in_order(members: NDArray[np.int32] | LazyMembers) -> NDArray[np.int32]:
    """Return members, most likely first."""
    return members.in_order() if isinstance(members, LazyMembers) else members


def _columns_of(part: Columns | UnorderedMembers) -> Columns:
    """Return the members of a part as they are."""
    return part if isinstance(part, np.ndarray) else part.columns


def _side_by_side(columns: list[Columns]) -> Columns:
    """Return the columns of all parts in one array."""
    stops = np.cumsum([len(part) for part in columns]).tolist()
    members = np.empty(stops[-1], dtype=np.result_type(*columns))

    def work(which: int, _: int) -> None:
        members[stops[which] - len(columns[which]) : stops[which]] = columns[which]

    over_blocks(len(stops), 1, work)
    return members


def joined(
    parts: list[Columns | UnorderedMembers], also: Callable[[int, int], None] | None = None
) -> NDArray[np.int32]:
    """Return the members of all parts, most likely first; each part is dropped when it is done.

    ``also`` is called beside each part with its number and with where its members start.
    """
    stops = np.cumsum([len(_columns_of(part)) for part in parts]).tolist()
    members, left = np.empty(stops[-1] if stops else 0, dtype=np.int32), dict(enumerate(parts))
    parts.clear()

    def work(which: int, _: int) -> None:
        part, stop = left.pop(which), stops[which]
        start = stop - len(_columns_of(part))
        members[start:stop] = part if isinstance(part, np.ndarray) else part.in_order()
        if also is not None:
            also(which, start)

    over_blocks(len(stops), 1, work)
    return members


Set = tuple[NDArray[np.int64], NDArray[np.int32] | LazyMembers]


class FreeCut(NamedTuple):
    """The sets at every threshold, each a list of its own: the smaller ones need not be beginnings of the larger."""

    sets: list[Set]  # (row pointers, members), most likely first
    first_bad: int

    def at(self, which: int) -> Set:
        """Return (row pointers, members) of the sets at one of the thresholds."""
        return self.sets[which]

    def at_each(self) -> list[Set]:
        """Return the sets at every threshold."""
        return self.sets


def cut_freely(rows: Rows, thresholds: Floats, min_size: int) -> FreeCut:
    """Return the labels whose score is at most each threshold; sets hold ``min_size`` labels (0 or 1)."""

    def of_block(start: int, stop: int) -> list[Floats]:
        wanted = thresholds if len(thresholds) == 1 else thresholds[start:stop]
        return [wanted[:, a : a + 1] for a in range(thresholds.shape[1])]

    return cut_by_cell(rows, of_block, min_size)


def cut_by_cell(rows: Rows, of_block: Callable[[int, int], list[Floats]], min_size: int) -> FreeCut:
    """Return the sets where every label of every row may have a threshold of its own.

    ``of_block`` returns the thresholds of rows start .. stop - 1, one array for each level; one with a single column
    has the same threshold for all labels of a row.
    """
    rows = rows.seeded()

    def work(block: Rows, start: int, stop: int) -> tuple[int, list[Members]]:
        bad, members = block.engine.cut_by_cell(block, of_block(start, stop), min_size)
        return (start + bad if bad >= 0 else -1), members

    results = rows.over_blocks(work)
    first_bad = first_bad_row([bad for bad, _ in results])
    if first_bad >= 0:
        return FreeCut([], first_bad)
    sets: list[Set] = []
    for of_level in zip(*(members for _, members in results), strict=True):
        pointers = np.concatenate([[0], np.cumsum(np.concatenate([sizes for sizes, _ in of_level]), dtype=np.int64)])
        sets.append((pointers, np.concatenate([members for _, members in of_level])))
    return FreeCut(sets, -1)


def mask_of(sets: FreeCut, n_columns: int) -> NDArray[np.bool_]:
    """Return the sets at the first threshold as a boolean matrix; no row of it where one is bad."""
    if sets.first_bad >= 0:
        return np.zeros((0, n_columns), dtype=np.bool_)
    pointers, members = sets.at(0)
    flags = np.zeros((len(pointers) - 1, n_columns), dtype=np.bool_)
    flags[np.repeat(np.arange(len(flags)), np.diff(pointers)), in_order(members)] = True
    return flags


class BlockMembers(NamedTuple):
    """What a block of rows from ``start`` on holds: its first bad row or -1, and the members of its sets."""

    start: int
    first_bad: int
    members: Columns | UnorderedMembers


class Cut(NamedTuple):
    """Members at the largest threshold of each row, most likely first, and the sizes at every threshold.

    Sets at smaller thresholds are beginnings of the same rows, so one list of members serves them all. The order of the
    members may be left for later where there is one threshold.
    """

    sizes: NDArray[np.int32]  # (thresholds, rows)
    longest: NDArray[np.int32]  # of each row
    members: NDArray[np.int32] | LazyMembers  # one row after the other
    first_bad: int
    pointers: NDArray[np.int64] | None = None  # to where rows start, if known

    def at(self, which: int) -> Set:
        """Return (row pointers, members) of the sets at one of the thresholds."""
        sizes = self.sizes[which]
        pointers = self.pointers
        if pointers is None and len(sizes) < LONG:  # the short way of small calls
            pointers = np.zeros(len(sizes) + 1, dtype=np.int64)
            np.cumsum(sizes, out=pointers[1:])
        elif pointers is None:
            pointers = pointers_of(sizes)
        if isinstance(self.members, LazyMembers) or pointers[-1] == len(self.members):
            return pointers, self.members
        taken, members, starts = np.empty(pointers[-1], dtype=np.int32), self.members, pointers_of(self.longest)

        def take(start: int, stop: int) -> None:
            of_rows = members[starts[start] : starts[stop]], self.longest[start:stop], sizes[start:stop]
            engines.chosen.beginnings(*of_rows, taken[pointers[start] : pointers[stop]])

        over_numbers(len(sizes), take)
        return pointers, taken

    def with_rows(self, rows: NDArray[np.int64], others: "Cut") -> "Cut":
        """Return the same with some rows replaced; none of it is worth anything if one of those is bad."""
        if others.first_bad >= 0:
            return self._replace(first_bad=int(rows[others.first_bad]))
        sizes, longest = self.sizes.copy(), self.longest.copy()
        starts = np.cumsum(self.longest, dtype=np.int64) - self.longest
        starts[rows] = len(self.members) + np.cumsum(others.longest, dtype=np.int64) - others.longest
        sizes[:, rows], longest[rows] = others.sizes, others.longest
        ends = np.cumsum(longest, dtype=np.int64)
        joined = np.concatenate([in_order(self.members), in_order(others.members)])
        members = joined[np.arange(ends[-1]) + np.repeat(starts - (ends - longest), longest)]
        return Cut(sizes, longest, members, -1)

    def at_each(self) -> list[Set]:
        """Return the sets at every threshold, several at a time."""
        if len(self.sizes) == 1:
            return [self.at(0)]
        return over_blocks(len(self.sizes), 1, lambda which, _: self.at(which))


def cut(rows: Rows, thresholds: Floats, min_size: int = 0) -> Cut | FreeCut:
    """Cut every row at its thresholds; sets hold ``min_size`` labels (0 or 1).

    Thresholds are (rows, thresholds), or (1, thresholds) if they are the same for all rows.
    """
    return cut_freely(rows, thresholds, min_size) if rows.formula.weights is None else _cut(rows, thresholds, min_size)


def _cut(rows: Rows, thresholds: Floats, min_size: int) -> Cut:
    noted, sizes = rows.room_for_seeds(), np.empty((thresholds.shape[1], len(rows.probabilities)), dtype=np.int32)

    def work(block: Rows, start: int, stop: int) -> BlockMembers:
        wanted, seeds = _of_block(thresholds, start, stop), piece_of(noted, start, stop)
        bad, members = block.engine.cut(block, wanted, min_size, sizes[:, start:stop], seeds)
        return BlockMembers(start, start + bad if bad >= 0 else -1, members)

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row([piece.first_bad for piece in results])
    rows.rooms.clear()
    members, pointers = _join(results, sizes, first_bad)
    sets = Cut(sizes, _longest(sizes, thresholds), members, first_bad, pointers)
    if copies is None or first_bad >= 0:
        return sets
    again = _cut(rows.again(copies), _of_rows(thresholds, copies.rows), min_size)
    return sets.with_rows(copies.rows, again)


def _longest(sizes: NDArray[np.int32], thresholds: Floats) -> NDArray[np.int32]:
    """Return the sizes at the largest threshold of each row."""
    which = thresholds.argmax(axis=1) if len(sizes) > 1 else np.zeros(1, dtype=np.intp)
    longest: NDArray[np.int32] = sizes[which[0]] if (which == which[0]).all() else sizes.max(axis=0)
    return longest


def masks(rows: Rows, thresholds: Floats, min_size: int = 0) -> tuple[NDArray[np.bool_], int]:
    """Return the members at one threshold as a boolean matrix, and the first bad row or -1."""
    noted, flags = rows.room_for_seeds(), np.empty(rows.probabilities.shape, dtype=np.bool_)

    def work(block: Rows, start: int, stop: int) -> int:
        wanted, seeds = _of_block(thresholds, start, stop), piece_of(noted, start, stop)
        bad = block.engine.mask(block, wanted, min_size, flags[start:stop], seeds)
        return start + bad if bad >= 0 else -1

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row(results)
    if copies is not None and first_bad < 0:
        flags[copies.rows], bad = masks(rows.again(copies), _of_rows(thresholds, copies.rows), min_size)
        first_bad = copies.row_of(bad)
    return flags, first_bad


def cut_by_label(rows: Rows, thresholds: Floats, min_size: int = 0) -> FreeCut:
    """Return the sets where each label has a threshold of its own: (thresholds, labels)."""
    of_levels = [_cut_by_label(rows, np.ascontiguousarray(of_level), min_size) for of_level in thresholds]
    first_bad = first_bad_row([one.first_bad for one in of_levels])  # sizes are worth nothing then
    return FreeCut([] if first_bad >= 0 else [one.at(0) for one in of_levels], first_bad)


def _cut_by_label(rows: Rows, thresholds: Floats, min_size: int) -> Cut:
    noted, sizes = rows.room_for_seeds(), np.empty(len(rows), dtype=np.int32)

    def work(block: Rows, start: int, stop: int) -> BlockMembers:
        seeds = piece_of(noted, start, stop)
        bad, members = block.engine.cut_by_label(block, thresholds, min_size, sizes[start:stop], seeds)
        return BlockMembers(start, start + bad if bad >= 0 else -1, members)

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row([piece.first_bad for piece in results])
    rows.rooms.clear()
    members, pointers = _join(results, sizes[None, :], first_bad)
    sets = Cut(sizes[None, :], sizes, members, first_bad, pointers)
    return (
        sets
        if copies is None or first_bad >= 0
        else sets.with_rows(copies.rows, _cut_by_label(rows.again(copies), thresholds, min_size))
    )


def masks_by_label(rows: Rows, thresholds: Floats, min_size: int = 0) -> tuple[NDArray[np.bool_], int]:
    """Return the members where each label has a threshold of its own, and the first bad row or -1."""
    noted, flags = rows.room_for_seeds(), np.zeros(rows.probabilities.shape, dtype=np.bool_)

    def work(block: Rows, start: int, stop: int) -> int:
        seeds = piece_of(noted, start, stop)
        bad = block.engine.mask_by_label(block, thresholds, min_size, flags[start:stop], seeds)
        return start + bad if bad >= 0 else -1

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row(results)
    if copies is not None and first_bad < 0:
        flags[copies.rows], bad = masks_by_label(rows.again(copies), thresholds, min_size)
        first_bad = copies.row_of(bad)
    return flags, first_bad


def _of_rows(thresholds: Floats, rows: NDArray[np.int64]) -> Floats:
    return thresholds if len(thresholds) == 1 else thresholds[rows]


def _of_block(thresholds: Floats, start: int, stop: int) -> Floats:
    return np.ascontiguousarray(thresholds if len(thresholds) == 1 else thresholds[start:stop])


def _join(
    pieces: list[BlockMembers], sizes: NDArray[np.int32], first_bad: int
) -> tuple[NDArray[np.int32] | LazyMembers, NDArray[np.int64] | None]:
    """Widen and join what blocks found, and say where rows start if there is one threshold.

    What waits to be put in order stays apart.
    """
    if len(pieces) == 1 and isinstance(pieces[0].members, np.ndarray):
        return pieces[0].members.astype(np.int32, copy=False), None
    parts = [piece.members for piece in pieces]
    if not all(isinstance(part, np.ndarray) for part in parts):
        return LazyMembers(parts), None
    if len(sizes) > 1 or first_bad >= 0:
        return joined(parts), None
    starts = [*(piece.start for piece in pieces), sizes.shape[1]]
    pieces.clear()
    pointers = np.empty(sizes.shape[1] + 1, dtype=np.int64)
    pointers[0] = 0

    def point(which: int, first: int) -> None:
        start, stop = starts[which : which + 2]
        engines.chosen.running_totals(sizes[0, start:stop], first, pointers[start + 1 : stop + 1])

    return joined(parts, point), pointers
