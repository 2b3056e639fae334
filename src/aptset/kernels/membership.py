"""Which labels of each row score at most a threshold: a beginning of the order of the row, found without sorting it."""

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import LONG, over_blocks, over_numbers, thread_count
from aptset.kernels.engines.interface import Columns, Members, UnorderedMembers
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import pointers_of, running_totals
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import Rows, Run, first_bad_row


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

    def work(first: int, last: int) -> None:
        for which in range(first, last):
            part, stop = left.pop(which), stops[which]
            start = stop - len(_columns_of(part))
            members[start:stop] = part if isinstance(part, np.ndarray) else part.in_order()
            if also is not None:
                also(which, start)

    over_blocks(len(stops), max(1, len(stops) // (2 * thread_count())), work)
    return members


Set = tuple[NDArray[np.int64], NDArray[np.int32] | LazyMembers]


class SelectedSets(NamedTuple):
    """The sets at each level, row pointers and members, most likely first; none of them where a row is bad."""

    sets: list[Set]
    first_bad: int  # row, or -1


ThresholdsOfBlock = Callable[[int, int], Floats]


def select(rows: Rows, thresholds: Floats | ThresholdsOfBlock, min_size: int = 0) -> SelectedSets:
    """Return the labels of each row whose score is at most its threshold; sets hold ``min_size`` labels (0 or 1).

    Thresholds are (levels, 1 or rows, 1 or labels). Where every label of every row has its own they might not fit into
    memory: then it is a function that returns those of rows start .. stop - 1.
    """
    if not isinstance(thresholds, np.ndarray):
        return _select_by_cell(rows, thresholds, min_size)
    if thresholds.shape[2] > 1:
        of_levels = [cut(rows, np.ascontiguousarray(of_level[0]), min_size) for of_level in thresholds]
        first_bad = first_bad_row([of_level.first_bad for of_level in of_levels])
        return SelectedSets([] if first_bad >= 0 else [of_level.at(0) for of_level in of_levels], first_bad)
    if rows.formula.linear is None:  # the sets at smaller thresholds need not be beginnings of those at larger ones
        return _select_by_cell(rows, lambda start, stop: _of_rows(thresholds, slice(start, stop)), min_size)
    nested = cut(rows, thresholds[:, :, 0].T, min_size)
    if nested.first_bad >= 0:
        return SelectedSets([], nested.first_bad)
    if len(thresholds) == 1:
        return SelectedSets([nested.at(0)], -1)
    return SelectedSets(over_blocks(len(thresholds), 1, lambda which, _: nested.at(which)), -1)


def _of_rows(thresholds: Floats, rows: Any) -> Floats:
    """Return the thresholds of some rows, where one row may stand for all."""
    return thresholds if thresholds.shape[1] == 1 else thresholds[:, rows]


def _select_by_cell(rows: Rows, of_block: ThresholdsOfBlock, min_size: int) -> SelectedSets:
    """Return the sets where every label of every row may have a threshold of its own."""

    def work(block: Rows, start: int, stop: int, _: Words | None) -> tuple[int, list[Members]]:
        return block.engine.cut_by_cell(block, of_block(start, stop), min_size)

    run = rows.seeded().run(work)
    sets: list[Set] = []
    for of_level in zip(*run.results, strict=True) if run.first_bad < 0 else ():
        pointers = np.concatenate([[0], np.cumsum(np.concatenate([sizes for sizes, _ in of_level]), dtype=np.int64)])
        sets.append((pointers, np.concatenate([members for _, members in of_level])))
    return SelectedSets(sets, run.first_bad)


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
            _take_beginnings(*of_rows, taken[pointers[start] : pointers[stop]])

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


def _take_beginnings(
    members: NDArray[np.int32], longest: NDArray[np.int32], sizes: NDArray[np.int32], taken: NDArray[np.int32]
) -> None:
    """Take the first ``sizes[i]`` of the ``longest[i]`` members of each row."""
    if engines.chosen.loops is not None:
        engines.chosen.loops.beginnings(members, longest, sizes, taken)
        return
    starts = np.cumsum(longest, dtype=np.int64) - longest
    ends = np.cumsum(sizes, dtype=np.int64)
    taken[:] = members[np.arange(len(taken)) + np.repeat(starts - (ends - sizes), sizes)]


def cut(rows: Rows, thresholds: Floats, min_size: int = 0) -> Cut:
    """Cut rows at thresholds of their own, (1 or rows, thresholds), or at one threshold for each label, (labels,)."""
    by_label = thresholds.ndim == 1
    sizes = np.empty((1 if by_label else thresholds.shape[1], len(rows.probabilities)), dtype=np.int32)

    def work(block: Rows, start: int, stop: int, noted: Words | None) -> tuple[int, Columns | UnorderedMembers]:
        if by_label:
            return block.engine.cut_by_label(block, thresholds, min_size, sizes[0, start:stop], noted)
        wanted = np.ascontiguousarray(thresholds if len(thresholds) == 1 else thresholds[start:stop])
        return block.engine.cut(block, wanted, min_size, sizes[:, start:stop], noted)

    run = rows.run(work)
    rows.rooms.clear()
    first, pointers = run.results[0], None
    if len(run.results) == 1 and isinstance(first, np.ndarray):
        members: NDArray[np.int32] | LazyMembers = first.astype(np.int32, copy=False)
    else:
        members, pointers = _join(run, sizes)
    which = thresholds.argmax(axis=1) if len(sizes) > 1 else np.zeros(1, dtype=np.intp)
    longest = sizes[which[0]] if (which == which[0]).all() else sizes.max(axis=0)
    sets, copies = Cut(sizes, longest, members, run.first_bad, pointers), run.copies
    if copies is None or run.first_bad >= 0:
        return sets
    of_copies = thresholds if by_label or len(thresholds) == 1 else thresholds[copies.rows]
    return sets.with_rows(copies.rows, cut(rows.again(copies), of_copies, min_size))


def masks(rows: Rows, thresholds: Floats, min_size: int = 0) -> tuple[NDArray[np.bool_], int]:
    """Return the members at one level as a boolean matrix, and the first bad row or -1.

    Thresholds are (1 or rows, 1 or labels), but one for every label of every row: :func:`select` takes those.
    """
    flags = np.empty(rows.probabilities.shape, dtype=np.bool_)

    def work(block: Rows, start: int, stop: int, noted: Words | None) -> tuple[int, None]:
        wanted = np.ascontiguousarray(thresholds if len(thresholds) == 1 else thresholds[start:stop])
        return block.engine.mask(block, wanted, min_size, flags[start:stop], noted), None

    run = rows.run(work)
    if run.copies is None or run.first_bad >= 0:
        return flags, run.first_bad
    copies = run.copies.rows
    of_copies = thresholds if len(thresholds) == 1 else thresholds[copies]
    flags[copies], bad = masks(rows.again(run.copies), of_copies, min_size)
    return flags, run.copies.row_of(bad)


def mask_of(selection: SelectedSets, n_columns: int) -> NDArray[np.bool_]:
    """Return the sets at the first level as a boolean matrix; no row of it where one is bad."""
    if selection.first_bad >= 0:
        return np.zeros((0, n_columns), dtype=np.bool_)
    pointers, members = selection.sets[0]
    flags = np.zeros((len(pointers) - 1, n_columns), dtype=np.bool_)
    flags[np.repeat(np.arange(len(flags)), np.diff(pointers)), in_order(members)] = True
    return flags


def _join(
    run: Run[Columns | UnorderedMembers], sizes: NDArray[np.int32]
) -> tuple[NDArray[np.int32] | LazyMembers, NDArray[np.int64] | None]:
    """Widen and join what blocks found, and say where rows start if there is one threshold.

    What waits to be put in order stays apart.
    """
    parts = run.results
    if not all(isinstance(part, np.ndarray) for part in parts):
        return LazyMembers(parts), None
    if len(sizes) > 1 or run.first_bad >= 0:
        return joined(parts), None
    starts = [*run.starts, sizes.shape[1]]
    pointers = np.empty(sizes.shape[1] + 1, dtype=np.int64)
    pointers[0] = 0

    def point(which: int, first: int) -> None:
        start, stop = starts[which : which + 2]
        running_totals(sizes[0, start:stop], first, pointers[start + 1 : stop + 1])

    return joined(parts, point), pointers
