"""How many scores of each group stand where: what is known of any number of scores, in bounded memory, and merged.

Scores become whole numbers in the same order, their keys: the bits of a float64, or steps of a grid. Keys that agree in
all but their last ``level`` bits share a bucket. The level is the lowest at which the non-empty buckets are at most
``most``: a function of the scores alone, so merging is associative and commutative, and few distinct scores (a small n,
ties, atoms) keep level 0, where every bucket is one score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats

Keys = NDArray[np.int64]

TOP_LEVEL = 63  # here only the sign is left
_ALL_BUT_SIGN = np.int64(2**63 - 1)


def keys_of(scores: Floats, grid: float | None) -> Keys:
    """Return whole numbers in the order of the scores: their bits, or their steps on a grid, on which they are."""
    if grid is not None:
        return (scores / grid).astype(np.int64)
    bits = (scores + 0.0).view(np.int64)  # -0 becomes 0, which it equals
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)


def scores_of_keys(keys: Keys, grid: float | None) -> Floats:
    """Return the scores that have these keys."""
    if grid is not None:
        return keys.astype(np.float64) * grid
    return (keys ^ ((keys >> 63) & _ALL_BUT_SIGN)).view(np.float64)


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Counts of scores by group and bucket.

    ``sizes`` are those of the groups: scores that nobody needs to place are counted there alone. Buckets stand upward
    within their groups, and groups in the order of ``names``.
    """

    names: tuple[Any, ...]
    sizes: NDArray[np.int64]
    groups: NDArray[np.int32]
    buckets: Keys
    counts: NDArray[np.int64]
    level: int
    most: int | None

    @classmethod
    def of(
        cls,
        keys: Keys,
        groups: NDArray[np.int32],
        names: Sequence[Any],
        sizes: NDArray[np.int64],
        most: int | None = None,
    ) -> ScoreCounts:
        """Count keys, each of a group; more scores than keys may have been seen, as ``sizes`` say."""
        ones = np.ones(len(keys), dtype=np.int64)
        keys = np.sort(keys) if len(names) == 1 else keys  # sooner than to find their order, which is then known
        return cls.joined([cls(tuple(names), sizes, groups, keys, ones, 0, most)])

    @classmethod
    def joined(cls, parts: Iterable[ScoreCounts]) -> ScoreCounts:
        """Return the counts of all scores of several parts, which have the same bound."""
        parts = list(parts)
        names = _in_order({name for part in parts for name in part.names})
        places = [_places(part.names, names) for part in parts]
        sizes = np.zeros(len(names), dtype=np.int64)
        for part, place in zip(parts, places, strict=True):
            np.add.at(sizes, place, part.sizes)
        level = max(part.level for part in parts)
        groups = np.concatenate([place[part.groups] for part, place in zip(parts, places, strict=True)])
        buckets = np.concatenate([part.buckets >> (level - part.level) for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = np.lexsort((buckets, groups)) if len(names) > 1 else np.argsort(buckets, kind="stable")
        found = cls(names, sizes, groups[order], buckets[order], counts[order], level, parts[0].most)
        return found._summed(found._steps_too_fine())

    def _steps_too_fine(self) -> int:
        """Return by how many bits buckets must become coarser to be few enough."""
        if self.most is None:
            return 0
        widths = _first_difference(self.groups, self.buckets)
        # At a step, as many buckets are left as neighbours differ in a higher bit.
        left = len(widths) - np.cumsum(np.bincount(widths, minlength=66))
        enough = np.flatnonzero(left[: TOP_LEVEL - self.level + 1] <= self.most)
        return int(enough[0]) if len(enough) else TOP_LEVEL - self.level

    def _summed(self, step: int) -> ScoreCounts:
        """Return the same with buckets that are coarser by some bits, each of them once."""
        buckets = self.buckets >> step
        is_first = np.ones(len(buckets), dtype=np.bool_)
        is_first[1:] = (buckets[1:] != buckets[:-1]) | (self.groups[1:] != self.groups[:-1])
        first = np.flatnonzero(is_first)
        counts = np.add.reduceat(self.counts, first) if len(first) else self.counts
        rest = (self.groups[first], buckets[first], counts, self.level + step, self.most)
        return ScoreCounts(self.names, self.sizes, *rest)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the buckets of each group start, and after them where the last ones end."""
        return np.searchsorted(self.groups, np.arange(len(self.names) + 1)).astype(np.int64)

    def place(self, group: int, inside: Bucket, rank: int) -> tuple[Bucket, int]:
        """Return the bucket of the score of some rank among those inside a larger bucket, and its rank in there."""
        start, stop = self.starts[group : group + 2].tolist()
        low, high = inside.bounds(self.level)
        first = start + int(np.searchsorted(self.buckets[start:stop], low))
        last = start + int(np.searchsorted(self.buckets[start:stop], high, side="right"))
        running = np.cumsum(self.counts[first:last])
        at = int(np.searchsorted(running, rank))
        before = int(running[at - 1]) if at else 0
        return Bucket(int(self.buckets[first + at]), self.level), rank - before


@dataclass(frozen=True)
class Bucket:
    """All keys that agree in all but their last ``level`` bits."""

    number: int
    level: int

    def bounds(self, level: int) -> tuple[int, int]:
        """Return the first and the last bucket of a lower level that are in this one."""
        if self.level > TOP_LEVEL:
            return -(2**63) >> level, (2**63 - 1) >> level
        step = self.level - level
        return self.number << step, ((self.number + 1) << step) - 1


EVERYTHING = Bucket(0, TOP_LEVEL + 1)


def _in_order(names: Iterable[Any]) -> tuple[Any, ...]:
    """Put names in an order that depends on nothing but them."""
    return tuple(sorted(names, key=lambda name: (type(name).__name__, name if isinstance(name, int) else 0, str(name))))


def _places(names: Sequence[Any], known: Sequence[Any]) -> NDArray[np.int32]:
    numbers = {name: number for number, name in enumerate(known)}
    return np.array([numbers[name] for name in names], dtype=np.int32)


def _first_difference(groups: NDArray[np.int32], buckets: Keys) -> NDArray[np.int64]:
    """Return for each bucket the number of its highest bit, from 1, that is not the last one's; 65 for a new group."""
    different = (buckets[1:] ^ buckets[:-1]).view(np.uint64)
    high, low = different >> np.uint64(32), different & np.uint64(2**32 - 1)  # float64 holds each half exactly
    widths = np.where(high > 0, 32 + np.frexp(high.astype(np.float64))[1], np.frexp(low.astype(np.float64))[1])
    widths[groups[1:] != groups[:-1]] = 65
    return np.concatenate([np.full(min(len(buckets), 1), 65), widths]).astype(np.int64)
