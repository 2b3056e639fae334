"""Sets under any function of places: every label is scored and compared, no order of the scores is assumed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.engines.numpy_engine import filled
from aptset.kernels.formula import Floats
from aptset.kernels.late import LateMembers
from aptset.kernels.opened import order_and_scores
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
    rows = rows.seeded()

    def work(block: Rows, start: int, stop: int) -> tuple[int, list[tuple[NDArray[np.int64], NDArray[np.int32]]]]:
        order, ordered, bad = order_and_scores(block)
        wanted = thresholds if len(thresholds) == 1 else thresholds[start:stop]
        found = []
        for a in range(thresholds.shape[1]):
            inside = filled(ordered <= wanted[:, a : a + 1], at_least)
            found.append((inside.sum(axis=1), order[inside].astype(np.int32)))
        return (start + bad if bad >= 0 else -1), found

    results = rows.over_blocks(work)
    sets: list[Set] = []
    for a in range(thresholds.shape[1]):
        sizes = np.concatenate([found[a][0] for _, found in results])
        pointers = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        sets.append((pointers, np.concatenate([found[a][1] for _, found in results])))
    return FreeCut(sets, first_bad_row([bad for bad, _ in results]))
