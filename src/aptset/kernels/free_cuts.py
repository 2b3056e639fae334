"""Sets under any function of places: every label is scored and compared, no order of the scores is assumed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.engines.seam import Members
from aptset.kernels.formula import Floats
from aptset.kernels.late import LateMembers, in_order
from aptset.kernels.places import Rows, first_bad_row

Set = tuple[NDArray[np.int64], NDArray[np.int32] | LateMembers]


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


def cut_freely(rows: Rows, thresholds: Floats, at_least: int) -> FreeCut:
    """Return the labels whose score is at most each threshold; sets hold ``at_least`` labels (0 or 1)."""

    def of_block(start: int, stop: int) -> list[Floats]:
        wanted = thresholds if len(thresholds) == 1 else thresholds[start:stop]
        return [wanted[:, a : a + 1] for a in range(thresholds.shape[1])]

    return cut_by_cell(rows, of_block, at_least)


def cut_by_cell(rows: Rows, of_block: Callable[[int, int], list[Floats]], at_least: int) -> FreeCut:
    """Return the sets where every label of every row may have a threshold of its own.

    ``of_block`` returns the thresholds of rows start .. stop - 1, one array for each level; one with a single column
    has the same threshold for all labels of a row.
    """
    rows = rows.seeded()

    def work(block: Rows, start: int, stop: int) -> tuple[int, list[Members]]:
        bad, found = block.engine.cut_by_cell(block, of_block(start, stop), at_least)
        return (start + bad if bad >= 0 else -1), found

    results = rows.over_blocks(work)
    first_bad = first_bad_row([bad for bad, _ in results])
    if first_bad >= 0:
        return FreeCut([], first_bad)
    sets: list[Set] = []
    for of_level in zip(*(found for _, found in results), strict=True):
        pointers = np.concatenate([[0], np.cumsum(np.concatenate([sizes for sizes, _ in of_level]), dtype=np.int64)])
        sets.append((pointers, np.concatenate([members for _, members in of_level])))
    return FreeCut(sets, -1)


def mask_of(found: FreeCut, n_columns: int) -> NDArray[np.bool_]:
    """Return the sets at the first threshold as a boolean matrix; no row of it where one is bad."""
    if found.first_bad >= 0:
        return np.zeros((0, n_columns), dtype=np.bool_)
    pointers, members = found.at(0)
    flags = np.zeros((len(pointers) - 1, n_columns), dtype=np.bool_)
    flags[np.repeat(np.arange(len(flags)), np.diff(pointers)), in_order(members)] = True
    return flags
