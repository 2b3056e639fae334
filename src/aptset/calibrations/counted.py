"""What is left of scores that nobody kept: the thresholds of some levels, or how many stand on each point of a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.checks import refuse_other_level, refuse_without_scores
from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.score_counts import EVERYTHING, ScoreCounts, scores_of_keys
from aptset.data.groups.ids import Groups, Ids
from aptset.kernels.counts import rank_at
from aptset.kernels.engines.seam import columns_in
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, first_bad_row
from aptset.kernels.quotients import by_counts


@dataclass(frozen=True, kw_only=True)
class Counted(HeldOut):
    """Scores that were counted instead of kept: no folds to look at, but sizes and thresholds as ever."""

    group_sizes: NDArray[np.int64]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of calibration samples in each group."""
        return self.group_sizes

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration samples of each group, of the one model."""
        return self.sizes[None, :]

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return int(self.sizes.sum())

    @property
    def scores(self) -> Floats:
        """Not there."""
        refuse_without_scores("its scores")

    def p_values(self, rows: Rows, ids: Ids | None) -> tuple[Floats, int]:
        """Return the p-value of every label, and the first bad row or -1."""
        refuse_without_scores("p-values")


@dataclass(frozen=True, kw_only=True)
class KnownThresholds(Counted):
    """Thresholds of a few levels, (levels, groups), to the last bit what the scores themselves would give."""

    levels: tuple[Fraction, ...]
    found: Floats

    def merge(self, *others: HeldOut) -> NoReturn:
        """Refuse: order statistics of parts say nothing about those of the whole."""
        refuse_without_scores("what merging takes")

    def _find_thresholds(self, alpha: Fraction) -> Floats:
        if alpha not in self.levels:
            refuse_other_level(alpha, self.levels)
        found = np.append(self.found[self.levels.index(alpha)], np.inf)
        found.flags.writeable = False
        return found


class _Table(NamedTuple):
    """The points of the grid where scores of a group stand, how many are below each, and p-values worked out so far."""

    points: Floats
    below: NDArray[np.int64]
    p_values: Floats


@dataclass(frozen=True, kw_only=True)
class OnGrid(Counted):
    """How many scores stand on each point of a grid: every level and every p-value, whatever n is."""

    counts: ScoreCounts
    resolution: float

    @classmethod
    def of(cls, counts: ScoreCounts, groups: Groups, resolution: float) -> OnGrid:
        """Keep counts of scores in the order of their groups."""
        return cls((), groups, group_sizes=counts.sizes, counts=counts, resolution=resolution)

    def merge(self, *others: HeldOut) -> OnGrid:
        """Join the counts of other rows."""
        counts = ScoreCounts.joined([self.counts, *(other.counts for other in others if isinstance(other, OnGrid))])
        names = self.groups.names if self.groups.kind != "row" else counts.names
        return OnGrid.of(counts, replace(self.groups, names=names), self.resolution)

    def _find_thresholds(self, alpha: Fraction) -> Floats:
        found = np.full(len(self.sizes) + 1, np.inf)
        for group, n in enumerate(self.sizes.tolist()):
            if (rank := rank_at(n, alpha)) <= n:
                bucket, _ = self.counts.place(group, EVERYTHING, rank)
                found[group] = bucket.number * self.resolution
        found.flags.writeable = False
        return found

    def p_values(self, rows: Rows, ids: Ids | None) -> tuple[Floats, int]:
        """Return the p-value of every label by looking it up, and the first bad row or -1."""
        rows, found = rows.seeded(), np.ones(rows.probabilities.shape)

        def work(block: Rows, start: int, stop: int) -> int:
            scores = np.empty(block.probabilities.shape)
            bad = block.engine.all_scores(block, scores)
            if bad < 0:
                self._look_up(scores, None if ids is None else ids[start:stop], found[start:stop])
            return start + bad if bad >= 0 else -1

        return found, first_bad_row(rows.over_blocks(work))

    def _look_up(self, scores: Floats, ids: Ids | None, found: Floats) -> None:
        """Write the p-values of some rows; those of a group never seen stay 1."""
        for group in range(len(self.sizes)) if ids is None else np.unique(ids[ids >= 0]).tolist():
            of_labels = columns_in(group, self.groups.of_columns)
            mine: Any = np.s_[:, of_labels] if ids is None else np.flatnonzero(ids == group)
            points, below, p_values = self._table(group)
            place = np.searchsorted(points, scores[mine])  # points below a score are below it on the grid as well
            met = np.unique(place)
            new = met[np.isnan(p_values[met])]
            p_values[new] = by_counts(int(self.sizes[group]), below[new])
            found[mine] = p_values[place]

    def _table(self, group: int) -> _Table:
        found = self._tables.get(group)
        if found is None:
            start, stop = self.counts.starts[group : group + 2].tolist()
            points = scores_of_keys(self.counts.buckets[start:stop], self.resolution)
            below = np.concatenate([[0], np.cumsum(self.counts.counts[start:stop])])
            found = self._tables[group] = _Table(points, below, np.full(len(below), np.nan))
        return found

    @cached_property
    def _tables(self) -> dict[int, _Table]:
        """Those of groups that were met. Threads that come at once write the same numbers."""
        return {}
