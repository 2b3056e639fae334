"""The chance of the next miss: an urn for each group, from which hits and misses are drawn, and put back twice."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

Counts = NDArray[np.int64]


_URNS_AT_ONCE = 1024  # rows of no known group


class Expected(NamedTuple):
    """The least and the largest chance of a miss that rows can have; one array where all earlier rows are known."""

    least: Floats
    most: Floats

    def of_rows(self, start: int, stop: int) -> Expected:
        """Return those of some rows."""
        least = self.least[start:stop]
        return Expected(least, least if self.most is self.least else self.most[start:stop])


class Urns:
    """Rows and misses of each group since its calibration on n rows.

    ``first`` is n + 1 - k, how many of n + 1 equally likely places of a new row are misses; 0 if every label is in.
    ``unknown`` counts rows of a group whose labels did not come, ``nowhere`` those of which not even the group is
    known. Each may have been a hit or a miss: the chance of the next miss is known up to that.
    """

    def __init__(self, sizes: Mapping[Any, int], level: Fraction) -> None:
        self.number_of = {name: number for number, name in enumerate(sizes)}
        self.n: Counts = np.array(list(sizes.values()), dtype=np.int64)
        ranks = [rank_at(size, level) for size in sizes.values()]
        places = [n + 1 - rank if rank <= n else 0 for n, rank in zip(sizes.values(), ranks, strict=True)]
        self.first: Counts = np.array(places, dtype=np.int64)
        self.rows, self.misses, self.unknown = (np.zeros_like(self.n) for _ in range(3))
        self.nowhere, self.n_unknown = 0, 0

    @property
    def expected(self) -> dict[Any, float]:
        """The chance that the next row of each group is missed; rows without labels are left out."""
        found = (self.first + self.misses) / (self.n + 1 + self.rows)
        chances = np.where(self.first > 0, found, 0.0).tolist()
        return dict(zip(self.number_of, chances, strict=True))

    def steady(self, alarm: float) -> Floats:
        """Return a rate of misses for each group; calibrations exceed any of them in 1 of 4 ``alarm`` cases at most.

        The rate of a calibration follows the law Beta(first, n + 1 - first).
        """
        from scipy.special import betaincinv  # only monitors that give rows up need it

        first = np.maximum(self.first, 1)
        share = max(1 / (4 * alarm * len(first)), 1e-300)
        return np.where(self.first > 0, 1.0 - betaincinv(self.n + 1 - first, first, share), 0.0)

    def draw_once(self, number: int, is_miss: bool) -> float:
        """Take in one row where all are known: what :meth:`draw` does, and faster for one."""
        first, misses, rows = int(self.first[number]), int(self.misses[number]), int(self.rows[number])
        self.rows[number], self.misses[number] = rows + 1, misses + is_miss
        return (first + misses) / (int(self.n[number]) + 1 + rows) if first else 0.0

    def draw(self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> Expected:
        """Take in rows of these groups; return the chance of a miss just before each, 0 where none can be.

        A row of no known group has the number -1.
        """
        changes = np.flatnonzero(np.diff(numbers < 0)) + 1
        of_parts = []
        for start, stop in pairwise([0, *changes.tolist(), len(numbers)]):
            if numbers[start] < 0:
                of_parts.append(self._draw_of_nobody(stop - start))
            else:
                part = slice(start, stop)
                of_parts.append(self._draw_of_groups(numbers[part], is_miss[part], is_known[part]))
        return of_parts[0] if len(of_parts) == 1 else Expected(*map(np.concatenate, zip(*of_parts, strict=True)))

    def _draw_of_groups(
        self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_], is_known: NDArray[np.bool_]
    ) -> Expected:
        order = np.argsort(numbers, kind="stable") if len(self.n) > 1 else np.arange(len(numbers))
        group = numbers[order]
        of_groups = np.bincount(numbers, minlength=len(self.n))
        starts = np.cumsum(of_groups) - of_groups
        stops = starts + of_groups
        misses, unknown = (np.concatenate([[0], np.cumsum(flags[order])]) for flags in (is_miss, ~is_known))
        before = np.arange(len(numbers)) - starts[group]
        missed = self.first[group] + self.misses[group] + misses[:-1] - misses[starts][group]
        doubted = self.nowhere + self.unknown[group] + unknown[:-1] - unknown[starts][group]
        total = self.n[group] + 1 + self.nowhere + self.unknown[group] + self.rows[group] + before
        can_miss, least = self.first[group] > 0, np.empty(len(numbers))
        least[order] = np.where(can_miss, missed / total, 0.0)
        most = least if not doubted.any() else np.empty(len(numbers))
        if most is not least:
            most[order] = np.where(can_miss, (missed + doubted) / total, 0.0)
        new_unknown = unknown[stops] - unknown[starts]
        self.rows += of_groups - new_unknown
        self.unknown += new_unknown
        self.n_unknown += int(unknown[-1])
        self.misses += misses[stops] - misses[starts]
        return Expected(least, most)

    def _draw_of_nobody(self, n_rows: int) -> Expected:
        """Take in rows that may be of any group: what they can have lies within what any group can."""
        can_miss = self.first > 0
        missed = (self.first + self.misses)[can_miss, None]
        total, unknown = (self.n + 1 + self.rows + self.unknown)[can_miss, None], self.unknown[can_miss, None]
        least, most = np.empty(n_rows), np.empty(n_rows)
        for start in range(0, n_rows, _URNS_AT_ONCE):
            nowhere = self.nowhere + np.arange(start, min(start + _URNS_AT_ONCE, n_rows))
            part = slice(start, start + _URNS_AT_ONCE)
            least[part] = (missed / (total + nowhere)).min(axis=0)
            most[part] = ((missed + unknown + nowhere) / (total + nowhere)).max(axis=0)
        self.nowhere, self.n_unknown = self.nowhere + n_rows, self.n_unknown + n_rows
        return Expected(least, most)


def at_rates(rates: Floats, numbers: NDArray[np.intp]) -> Expected:
    """Return rates of the groups of rows; of a row of no known group the least and the largest that one has."""
    can_miss = rates[rates > 0]
    least, most = np.append(rates, can_miss.min()), np.append(rates, can_miss.max())  # -1 is the last
    return Expected(least[numbers], most[numbers])
