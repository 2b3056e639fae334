"""The chance of the next miss: an urn for each group, from which hits and misses are drawn, and put back twice."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

Counts = NDArray[np.int64]


class Urns:
    """Rows and misses of each group since its calibration on n rows.

    ``first`` is n + 1 - k, how many of n + 1 equally likely places of a new row are misses; 0 if every label is in.
    """

    def __init__(self, sizes: Mapping[Any, int], level: Fraction) -> None:
        self.number_of = {name: number for number, name in enumerate(sizes)}
        self.n: Counts = np.array(list(sizes.values()), dtype=np.int64)
        ranks = [rank_at(size, level) for size in sizes.values()]
        places = [n + 1 - rank if rank <= n else 0 for n, rank in zip(sizes.values(), ranks, strict=True)]
        self.first: Counts = np.array(places, dtype=np.int64)
        self.rows, self.misses = np.zeros_like(self.n), np.zeros_like(self.n)

    @property
    def expected(self) -> dict[Any, float]:
        """The chance that the next row of each group is missed."""
        found = (self.first + self.misses) / (self.n + 1 + self.rows)
        chances = np.where(self.first > 0, found, 0.0).tolist()
        return dict(zip(self.number_of, chances, strict=True))

    def draw_once(self, number: int, is_miss: bool) -> float:
        """Take in one row: what :meth:`draw` does, and faster for one."""
        first, misses, rows = int(self.first[number]), int(self.misses[number]), int(self.rows[number])
        self.rows[number], self.misses[number] = rows + 1, misses + is_miss
        return (first + misses) / (int(self.n[number]) + 1 + rows) if first else 0.0

    def draw(self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_]) -> Floats:
        """Take in rows of these groups; return the chance of a miss just before each, 0 where none can be."""
        order = np.argsort(numbers, kind="stable") if len(self.n) > 1 else np.arange(len(numbers))
        sorted_numbers, sorted_misses = numbers[order], is_miss[order].astype(np.int64)
        of_groups = np.bincount(numbers, minlength=len(self.n))
        starts = np.cumsum(of_groups) - of_groups
        before = np.concatenate([[0], np.cumsum(sorted_misses)])
        rows = np.arange(len(numbers)) - starts[sorted_numbers]
        misses = before[:-1] - before[starts][sorted_numbers]
        first = self.first[sorted_numbers]
        chances = (first + self.misses[sorted_numbers] + misses) / (
            self.n[sorted_numbers] + 1 + self.rows[sorted_numbers] + rows
        )
        found = np.empty(len(numbers))
        found[order] = np.where(first > 0, chances, 0.0)
        self.rows += of_groups
        self.misses += before[starts + of_groups] - before[starts]
        return found
