"""What is left of scores that nobody kept: the thresholds of some levels, or how many stand on each point of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.importance import Whole
from aptset.conformal.thresholds import Thresholds, refuse_without_scores
from aptset.core.groups import Groups, Ids
from aptset.core.levels import CellLevel, Level, rank_at
from aptset.kernels.formula import Floats
from aptset.kernels.p_value_rounding import by_counts
from aptset.kernels.rows import Rows, first_bad_row

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
        merged = cls(names, sizes, groups[order], buckets[order], counts[order], level, parts[0].most)
        return merged._summed(merged._steps_too_fine())

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


def _refuse_other_level(alpha: Level, levels: Sequence[Fraction]) -> NoReturn:
    """Say which levels there are."""
    known = ", ".join(f"{float(level):g}" for level in levels)
    shown = str(alpha) if isinstance(alpha, CellLevel) else f"{float(alpha):g}"
    raise ValueError(
        f"alpha must be a level that was calibrated, one of {known}; got {shown}. Pass it to "
        "calibrate_batches, too, or calibrate with resolution=2**-20, which answers every level."
    )


@final
@dataclass(frozen=True, kw_only=True)
class FixedThresholds(Thresholds):
    """Thresholds of a few levels, (levels, cells), to the last bit what the scores themselves would give.

    It cannot be merged: order statistics of parts say nothing about those of the whole.
    """

    groups: Groups
    group_sizes: NDArray[np.int64]
    levels: tuple[Fraction, ...]
    values: Floats

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration rows of each cell, of the one model."""
        return self.group_sizes[None, :]

    @property
    def scores(self) -> Floats:
        """Not there."""
        refuse_without_scores("scores")

    def find_by_cell(self, level: Level) -> Floats:
        """Look up the threshold of each cell at one of the levels that were calibrated."""
        self.check_level_offered(level)
        if isinstance(level, CellLevel) and level.assurance is not None:
            _refuse_other_level(level, self.levels)
        *alphas, _ = [level] * (len(self.values[0]) + 1) if isinstance(level, Fraction) else level.alphas(self.groups)
        for alpha in alphas:
            if alpha not in self.levels:
                _refuse_other_level(alpha, self.levels)
        return np.array([*(self.values[self.levels.index(alpha), cell] for cell, alpha in enumerate(alphas)), np.inf])


NARROW: dict[str, Any] = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "I64": np.int64}  # in a file


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """Return counts in the smallest type that holds them."""
    most = int(values.max(initial=0))
    return values.astype(next(kind for kind in NARROW.values() if most <= np.iinfo(kind).max))


class _Table(NamedTuple):
    """The points of the grid where scores of a group stand, how many are below each, and p-values worked out so far."""

    points: Floats
    below: NDArray[np.int64]
    p_values: Floats


@final
@dataclass(frozen=True)
class Histogram(Thresholds):
    """How many scores stand on each point of a grid: every level and every p-value, whatever n is."""

    counts: ScoreCounts
    groups: Groups
    resolution: float

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration rows of each cell, of the one model."""
        return self.counts.sizes[None, :]

    @property
    def scores(self) -> Floats:
        """Not there."""
        refuse_without_scores("scores")

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the points of the grid as gaps from one to the next, and the counts, as narrow as they go."""
        counts, starts, filled = self.counts, self.counts.starts[:-1], np.diff(self.counts.starts) > 0
        gaps, lowest = np.diff(counts.buckets, prepend=np.int64(0)), np.zeros(len(starts), dtype=np.int64)
        gaps[starts[filled]], lowest[filled] = 0, counts.buckets[starts[filled]]
        return {"lowest": lowest, "offsets": counts.starts, "gaps": _narrow(gaps), "counts": _narrow(counts.counts)}

    @classmethod
    def of_tensors(cls, tensors: dict[str, NDArray[Any]], groups: Groups, resolution: float) -> Histogram:
        """Return the counts that such gaps stand for."""
        offsets, counts = tensors["offsets"], tensors["counts"].astype(np.int64)
        group = np.repeat(np.arange(len(groups.names), dtype=np.int32), np.diff(offsets))
        running = np.cumsum(tensors["gaps"].astype(np.int64))
        buckets = tensors["lowest"][group] + (running - running[offsets[:-1][group]])
        sizes = np.zeros(len(groups.names), dtype=np.int64)
        np.add.at(sizes, group, counts)
        names = tuple(range(len(groups.names))) if groups.by_label_alone else groups.names  # labels go by number
        return cls(ScoreCounts(names, sizes, group, buckets, counts, 0, None), groups, resolution)

    def merge(self, *others: Histogram) -> Histogram:
        """Join the counts of other rows."""
        counts = ScoreCounts.joined([self.counts, *(other.counts for other in others)])
        names = counts.names if self.groups.by_row else self.groups.names
        return Histogram(counts, replace(self.groups, names=names), self.resolution)

    def find_by_cell(self, level: Level) -> Floats:
        """Work out the point of the grid on which the k-th smallest score of each cell stands."""
        points = np.full(len(self.sizes) + 1, np.inf)
        for cell, (n, rank) in enumerate(zip(self.sizes.tolist(), self.ranks(level)[:-1], strict=True)):
            if rank <= n:
                bucket, _ = self.counts.place(cell, EVERYTHING, rank)
                points[cell] = bucket.number * self.resolution
        return points

    def p_values(self, rows: Rows, ids: Ids | None, mass: Whole | None) -> tuple[Floats, int]:
        """Return the p-value of every label by looking it up, and the first bad row or -1."""
        rows, p_values = rows.seeded(), np.ones(rows.probabilities.shape)

        def work(block: Rows, start: int, stop: int) -> int:
            scores = np.empty(block.probabilities.shape)
            bad = block.engine.all_scores(block, scores)
            if bad < 0:
                self._look_up(scores, None if ids is None else ids[start:stop], p_values[start:stop])
            return start + bad if bad >= 0 else -1

        return p_values, first_bad_row(rows.over_blocks(work))

    def _look_up(self, scores: Floats, ids: Ids | None, out: Floats) -> None:
        """Write the p-values of rows; those of a group never seen stay 1."""
        for group in self.groups.present(ids):
            inside = self.groups.where(group, ids)
            points, below, p_values = self._table(group)
            place = np.searchsorted(points, scores[inside])  # points below a score are below it on the grid as well
            present = np.unique(place)
            new = present[np.isnan(p_values[present])]
            p_values[new] = by_counts(int(self.sizes[group]), below[new])
            out[inside] = p_values[place]

    def _table(self, group: int) -> _Table:
        table = self._tables.get(group)
        if table is None:
            start, stop = self.counts.starts[group : group + 2].tolist()
            points = scores_of_keys(self.counts.buckets[start:stop], self.resolution)
            below = np.concatenate([[0], np.cumsum(self.counts.counts[start:stop])])
            table = self._tables[group] = _Table(points, below, np.full(len(below), np.nan))
        return table

    @cached_property
    def _tables(self) -> dict[int, _Table]:
        """Those of groups that rows were in. Threads that come at once write the same numbers."""
        return {}


class WantedRanks(NamedTuple):
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
    values: Floats  # (levels, groups); infinite where k exceeds n
    wanted: tuple[WantedRanks, ...]

    @classmethod
    def of(cls, counts: ScoreCounts, levels: Sequence[Fraction]) -> OrderStatistics:
        """Look into the counts of all scores."""
        thresholds, wanted = np.full((len(levels), len(counts.names)), np.inf), []
        for number, alpha in enumerate(levels):
            for group, n in enumerate(counts.sizes.tolist()):
                if (rank := rank_at(n, alpha)) <= n:
                    wanted.append(WantedRanks(number, group, EVERYTHING, rank))
        return cls(counts.names, counts.sizes, thresholds, tuple(wanted)).narrowed(counts)

    def narrowed(self, counts: ScoreCounts) -> OrderStatistics:
        """Look into counts of the scores in the buckets that are wanted, which are finer now."""
        thresholds, wanted = self.values.copy(), []
        for target in self.wanted:
            bucket, rank = counts.place(target.group, target.inside, target.rank)
            if bucket.level == 0:
                thresholds[target.level, target.group] = scores_of_keys(np.array([bucket.number]), None)[0]
            else:
                wanted.append(WantedRanks(target.level, target.group, bucket, rank))
        return OrderStatistics(self.names, self.sizes, thresholds, tuple(wanted))

    @cached_property
    def _looked(self) -> _Looked:
        numbers = np.unique(np.array([target.inside.number for target in self.wanted], dtype=np.int64))
        places = np.searchsorted(numbers, [target.inside.number for target in self.wanted])
        groups = np.array([target.group for target in self.wanted], dtype=np.int64)
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
