"""Thresholds from counts: each is the score of some rank, found by looking again at the bucket that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.score_counts import EVERYTHING, Bucket, Keys, ScoreCounts, scores_of_keys
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats


class Wanted(NamedTuple):
    """A score that is known by the bucket that it is in, and by its rank there."""

    level: int  # the number of the level of the promise
    group: int
    inside: Bucket
    rank: int


class _Looked(NamedTuple):
    """The buckets to look into: distinct numbers, and pairs of group and position among them, both upward."""

    level: int
    numbers: Keys
    pairs: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The k-th smallest score of each group at each level of the promise, as far as they are known by now."""

    names: tuple[Any, ...]
    sizes: NDArray[np.int64]
    found: Floats  # (levels, groups); infinite where k exceeds n
    wanted: tuple[Wanted, ...]

    @classmethod
    def of(cls, counts: ScoreCounts, levels: Sequence[Fraction]) -> OrderStatistics:
        """Look into the counts of all scores."""
        found, wanted = np.full((len(levels), len(counts.names)), np.inf), []
        for number, alpha in enumerate(levels):
            for group, n in enumerate(counts.sizes.tolist()):
                if (rank := rank_at(n, alpha)) <= n:
                    wanted.append(Wanted(number, group, EVERYTHING, rank))
        return cls(counts.names, counts.sizes, found, tuple(wanted)).narrowed(counts)

    def narrowed(self, counts: ScoreCounts) -> OrderStatistics:
        """Look into counts of the scores in the buckets that are wanted, which are finer now."""
        found, wanted = self.found.copy(), []
        for one in self.wanted:
            bucket, rank = counts.place(one.group, one.inside, one.rank)
            if bucket.level == 0:
                found[one.level, one.group] = scores_of_keys(np.array([bucket.number]), None)[0]
            else:
                wanted.append(Wanted(one.level, one.group, bucket, rank))
        return OrderStatistics(self.names, self.sizes, found, tuple(wanted))

    @cached_property
    def _looked(self) -> _Looked:
        numbers = np.unique(np.array([one.inside.number for one in self.wanted], dtype=np.int64))
        places = np.searchsorted(numbers, [one.inside.number for one in self.wanted])
        groups = np.array([one.group for one in self.wanted], dtype=np.int64)
        return _Looked(self.wanted[0].inside.level, numbers, np.unique(groups * len(numbers) + places))

    @property
    def n_buckets(self) -> int:
        """How many buckets are to be looked into."""
        return len(self._looked.pairs)

    def are_wanted(self, keys: Keys, groups: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which keys, each of a group, are in a bucket that is wanted."""
        level, numbers, pairs = self._looked
        buckets = keys >> level
        place = np.minimum(np.searchsorted(numbers, buckets), len(numbers) - 1)
        pair = groups.astype(np.int64) * len(numbers) + place
        at = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
        inside: NDArray[np.bool_] = (numbers[place] == buckets) & (pairs[at] == pair)
        return inside
