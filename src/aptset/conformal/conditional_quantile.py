"""Thresholds of overlapping groups: the conditional quantile of Gibbs, Cherian and Candès (2023), by combination."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.fold_scores import FoldScores
from aptset.conformal.linear_programme import Design, Programme
from aptset.core.groups import Groups, Ids
from aptset.core.overlapping import check_addable
from aptset.kernels.formula import Floats


class ConditionalQuantile:
    """Thresholds of combinations of groups; each is worked out when a row first has it."""

    def __init__(self, groups: Groups, fold: FoldScores) -> None:
        check_addable(fold.scores)
        self._groups, self._fold = groups, fold
        self._programmes: dict[Fraction, Programme] = {}
        self._known: dict[tuple[Fraction, int], float] = {}

    def thresholds(self, ids: Ids, alpha: Fraction) -> Floats:
        """Return the threshold of each row from the number of its combination; infinite for groups never seen."""
        present = np.flatnonzero(np.bincount(ids + 1)) - 1
        cells = self._groups.combinations
        by_cell = np.full(len(cells) + 1, np.inf)  # last: of groups never seen
        by_cell[present] = [self._threshold(number, cells, alpha) for number in present.tolist()]
        return by_cell[ids]

    def _threshold(self, number: int, cells: list[Any], alpha: Fraction) -> float:
        if number < 0:
            return float("inf")
        known = self._known.get((alpha, number))  # threads that come at once work it out twice, nothing worse
        if known is None:
            if alpha not in self._programmes:
                self._programmes[alpha] = Programme(self._design, alpha)
            known = self._known[alpha, number] = self._programmes[alpha].threshold(self._flags([cells[number]])[0])
        return known

    def sizes_of(self, names: set[Any]) -> dict[Any, int]:
        """Return how many calibration rows are in each of some groups, and how many there are."""
        sizes = np.diff(self._fold.offsets).tolist()
        pairs = list(zip(self._groups.names, sizes, strict=True))
        of_names = {name: sum(size for cell, size in pairs if name in cell) for name in sorted(names, key=str)}
        return {**of_names, "all rows": sum(sizes)}

    def _flags(self, cells: list[Any]) -> NDArray[np.bool_]:
        names = self._groups.overlap.names if self._groups.overlap else ()
        return np.array([[name in cell for name in names] for cell in map(set, cells)], dtype=np.bool_)

    @cached_property
    def _design(self) -> Design:
        return Design.of(self._flags(list(self._groups.names)), self._fold.scores, self._fold.offsets)
