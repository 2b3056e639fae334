"""Sets under any function of places: every label is scored and compared, no order of the scores is assumed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats
from aptset.kernels.opened import free_order_and_scores
from aptset.kernels.places import Rows, first_bad_row

Set = tuple[NDArray[np.int64], NDArray[np.int32]]


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
    rows = rows.seeded()

    def work(block: Rows, start: int, stop: int) -> tuple[int, list[tuple[NDArray[np.int64], NDArray[np.int32]]]]:
        order, scores, bad = free_order_and_scores(block)
        ordered = np.take_along_axis(scores, order, axis=1)
        wanted = thresholds if len(thresholds) == 1 else thresholds[start:stop]
        found = []
        for a in range(thresholds.shape[1]):
            inside = _filled(ordered <= wanted[:, a : a + 1], at_least)
            found.append((inside.sum(axis=1), order[inside].astype(np.int32)))
        return (start + bad if bad >= 0 else -1), found

    results = rows.over_blocks(work)
    sets = []
    for a in range(thresholds.shape[1]):
        sizes = np.concatenate([found[a][0] for _, found in results])
        pointers = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        sets.append((pointers, np.concatenate([found[a][1] for _, found in results])))
    return FreeCut(sets, first_bad_row([bad for bad, _ in results]))


def mask_freely(rows: Rows, thresholds: Floats, at_least: int) -> tuple[NDArray[np.bool_], int]:
    """Return the members at one threshold as a boolean matrix, and the first bad row or -1."""
    rows = rows.seeded()
    flags = np.empty((len(rows), rows.n_columns), dtype=np.bool_)

    def work(block: Rows, start: int, stop: int) -> int:
        order, scores, bad = free_order_and_scores(block)
        wanted = thresholds if len(thresholds) == 1 else thresholds[start:stop]
        inside = _filled(np.take_along_axis(scores, order, axis=1) <= wanted, at_least)
        np.put_along_axis(flags[start:stop], order, inside, axis=1)
        return start + bad if bad >= 0 else -1

    return flags, first_bad_row(rows.over_blocks(work))


def _filled(inside: NDArray[np.bool_], at_least: int) -> NDArray[np.bool_]:
    """Give empty sets their most likely label, if sets must hold one."""
    if at_least:
        inside[~inside.any(axis=1), 0] = True
    return inside
