"""What sets did with the true labels: all that a metric looks at, worked out once for all metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.core.groupings import Overlapping
from aptset.core.labels import as_labels, as_objects, check_length, numbered, with_one_missing
from aptset.core.tables import is_table, plain_list
from aptset.kernels.blocks import least_and_most, over_numbers
from aptset.kernels.long_arrays import group_sizes, in_groups
from aptset.metrics.estimates import (
    Estimate,
    ManyIntervals,
    check_confidence,
    intervals_of_counts,
    mean_of_sizes,
    mean_of_sums,
    mean_over_clusters,
    means_of_sums,
    share_of_count,
    shares_of_counts,
)

_ROWS_OF_A_KIND, _MOST_KINDS = 16, 2**16  # rows on average, for kinds to be worth counting
Made = TypeVar("Made")
Chosen = NDArray[np.bool_] | NDArray[np.intp]  # some rows: a flag for each, or their numbers


class Stratum(NamedTuple):
    """The rows of one label or group, by number."""

    name: Any
    rows: NDArray[np.intp]


class PartSums(NamedTuple):
    """Counts and sums of sizes within each of several parts, over all their rows and over those that are covered."""

    names: list[Any]
    rows: NDArray[np.int64]
    covered: NDArray[np.int64]
    size: NDArray[np.int64]
    squares: NDArray[np.int64]
    covering_size: NDArray[np.int64]
    covering_squares: NDArray[np.int64]


class Kinds(NamedTuple):
    """Kinds of rows: the number of their part, the size of their sets, whether these cover, and how many there are."""

    part: NDArray[Any]
    sizes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    times: NDArray[np.int64]

    def sums(self, names: list[Any]) -> PartSums:
        """Add them up; sums of whole numbers below 2^53 are exact in the floats of a bincount."""
        size = self.times * self.sizes
        every = [self.times, self.times * self.covered, size, size * self.sizes, size * self.covered]
        every.append(every[3] * self.covered)
        sums = (np.bincount(self.part, weight, minlength=len(names)).astype(np.int64) for weight in every)
        return PartSums(names, *sums)


class RowClusters(NamedTuple):
    """The number of each row's cluster, and how much a row counts in it; None: all of its rows alike."""

    of_row: NDArray[np.intp]
    weights: NDArray[np.float64] | None = None
    nouns: str = "clusters"

    def means(self, values: NDArray[Any], among: Chosen | None) -> NDArray[np.float64]:
        """Return the mean of values within each cluster that has a row, among some rows or all."""
        chosen = slice(None) if among is None else among
        number, own = self.of_row[chosen], np.asarray(values[chosen], dtype=np.float64)
        weights = np.ones(len(own)) if self.weights is None else self.weights[chosen]
        total, times = np.bincount(number, own * weights), np.bincount(number, weights)
        means: NDArray[np.float64] = total[times > 0] / times[times > 0]
        return means


@dataclass(frozen=True, eq=False)
class Outcome:
    """Sizes, and whether sets hold the true label; row by row, or for each kind of row with its number of rows.

    A metric that only asks for shares and mean sizes works for both, so it needs no second version for files that are
    read in pieces.

    Attributes
    ----------
    given_sizes : array of int or None
        The number of labels in each set; None for those of ``sets``, which are worked out if somebody asks.
    most : int
        The number of labels that a set can hold.
    sets, labels
        The sets and the true labels themselves. Where rows have gone by, there are no sets, and a label for each entry.
    times : array of int or None
        How many rows each entry stands for; None for one each.
    counts_of_kinds : array of int, shape (labels, sizes, 2), or None
        Rows of each label of the sets, of each size, that miss and that cover; rows of other labels are in none.
    clusters : RowClusters or None
        Which rows belong together: shares and means are then those of clusters, each of which counts once.
    """

    given_sizes: NDArray[np.int64] | None
    holds: NDArray[np.bool_] | None
    most: int
    sets: PredictionSets | None = None
    labels: Any = None
    times: NDArray[np.int64] | None = None
    counts_of_kinds: NDArray[np.int64] | None = None
    clusters: RowClusters | None = None

    @classmethod
    def of(cls, sets: Any, labels: ArrayLike | None = None, classes: ArrayLike | None = None) -> Outcome:
        """Return what sets did with the true labels, if there are any; an outcome as it is."""
        if isinstance(sets, Outcome):
            return sets
        checked = PredictionSets.of(sets, classes)
        n_classes = len(checked.classes)
        if labels is None:
            return cls(None, None, n_classes, checked)
        judged = checked.judged(labels, min(_MOST_KINDS, len(checked) // _ROWS_OF_A_KIND))
        return cls(None, judged.holds, n_classes, checked, labels, counts_of_kinds=judged.counts)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of labels in each set."""
        if self.given_sizes is None:
            assert self.sets is not None  # one of the two is there
            return self.sets.sizes
        return self.given_sizes

    def __len__(self) -> int:
        """Return the number of entries: rows, or kinds of rows."""
        return len(self.sets) if self.given_sizes is None and self.sets is not None else len(self.sizes)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self) if self.times is None else int(self.times.sum())

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which sets hold the true label."""
        if self.holds is None:
            raise ValueError("labels must be the true label of each row, since coverage is measured by them; got None.")
        return self.holds

    @cached_property
    def counts_of_sizes(self) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64]]:
        """The sizes that sets have, upward, how many have each, and how many of those cover."""
        covered = np.zeros(len(self.sizes)) if self.holds is None else self.holds
        weights = (self.times, covered if self.times is None else covered * self.times)
        rows, hits = (np.bincount(self.sizes, weight).astype(np.int64) for weight in weights)
        sizes = np.flatnonzero(rows)
        return sizes.tolist(), rows[sizes], hits[sizes]

    def share(self, hits: NDArray[np.bool_], confidence: float, among: Chosen | None = None) -> Estimate:
        """Return the share of rows with a property, among some or all, with the exact (Clopper-Pearson) interval."""
        sure = check_confidence(confidence)
        if self.clusters is not None:
            return mean_over_clusters(self.clusters.means(hits, among), 0, 1, sure, self.clusters.nouns)
        return share_of_count(*self._count(hits, among), sure)

    def mean_size(self, confidence: float, among: Chosen | None = None, least: int = 0) -> Estimate:
        """Return the mean size of some or all sets, which hold at least so many labels."""
        times = self._times(among)
        sizes = (self.sizes if among is None else self.sizes[among]).astype(np.int64)
        ends, sure = (least, max(least, self.most)), check_confidence(confidence)
        if self.clusters is not None:
            return mean_over_clusters(self.clusters.means(self.sizes, among), *ends, sure, self.clusters.nouns)
        if times is None:
            return mean_of_sizes(sizes, *ends, sure)
        return mean_of_sums(int(times.sum()), int(times @ sizes), int(times @ np.square(sizes)), *ends, sure)

    def parts(self, by: Any = "label") -> list[Stratum]:
        """Return the rows of each true label, or of each value of an array; each array is looked at once."""
        if isinstance(by, Overlapping):
            check_length(by, len(self.sizes), "by")
            return [Stratum(name, by.members(name)) for name in by.names]
        return self._once("parts", by, lambda: _parts(by, self.labels))

    def sums(self, by: Any = "label") -> PartSums:
        """Return counts and sums of sizes within each true label, or each value of an array."""
        if isinstance(by, Overlapping):
            return self._sums_of_parts(self.parts(by))

        def add_up() -> PartSums:
            names, number = numbered(check_by(by, self.labels))
            return self._kinds(number, len(names)).sums(names.tolist())

        return self._once("sums", by, add_up)

    def shares_covered(self, by: Any, confidence: float) -> dict[Any, Estimate]:
        """Return the coverage of each part."""
        if self.clusters is not None:
            return {name: self.share(self.covered, confidence, rows) for name, rows in self.parts(by)}
        sums, sure = self.sums(by), check_confidence(confidence)
        return dict(zip(sums.names, shares_of_counts(sums.covered, sums.rows, sure), strict=True))

    def mean_sizes(self, by: Any, confidence: float, covering: bool = False) -> dict[Any, Estimate]:
        """Return the mean size of the sets of each part, of all or of those that cover."""
        least = int(covering)
        if self.clusters is not None:
            chosen = {name: rows[self.covered[rows]] if covering else rows for name, rows in self.parts(by)}
            return {name: self.mean_size(confidence, rows, least) for name, rows in chosen.items()}
        sums, ends = self.sums(by), (least, max(least, self.most), check_confidence(confidence))
        every, covered = (sums.rows, sums.size, sums.squares), (sums.covered, sums.covering_size, sums.covering_squares)
        return dict(zip(sums.names, means_of_sums(*(covered if covering else every), *ends), strict=True))

    def intervals_at_once(self, by: Any, confidence: float) -> ManyIntervals:
        """Return the coverages of all parts, with intervals that hold at once with the confidence (Bonferroni)."""
        sure, sums = check_confidence(confidence), self.sums(by)
        each = 1 - (1 - sure) / max(1, len(sums.names))
        if self.clusters is not None:
            shares = list(self.shares_covered(by, each).values())
            low, high = ([getattr(one, end) for one in shares] for end in ("low", "high"))
            numbers = np.array([one.n for one in shares], dtype=np.int64)
            return ManyIntervals(np.array(shares, dtype=np.float64), np.array(low), np.array(high), numbers)
        return self._once(f"at {sure}", by, lambda: intervals_of_counts(sums.covered, sums.rows, each))

    def _once(self, what: str, by: Any, make: Callable[[], Made]) -> Made:
        """Return what was made of labels or of an array before, or make it."""
        key = what, by if isinstance(by, str) else id(by)
        if key not in self._made:
            self._made[key] = by, make()  # with the array, so that its id stays its own
        made: Made = self._made[key][1]
        return made

    @cached_property
    def _made(self) -> dict[tuple[str, Any], tuple[Any, Any]]:
        return {}

    def by_kind(self) -> Outcome:
        """Return one entry for all rows of one label and size that cover or miss; the same where those are not few."""
        if self.times is not None or self.clusters is not None or not len(self):
            return self
        if self.sets is not None and self.counts_of_kinds is not None and self._are_classes(self.sets.classes):
            label, size, covers = np.nonzero(self.counts_of_kinds)
            times = self.counts_of_kinds[label, size, covers]
            return Outcome(size, covers == 1, self.most, labels=self.sets.classes[label], times=times)
        names, number = numbered(check_by("label", self.labels))
        kinds = self._kinds(number, len(names), _ROWS_OF_A_KIND)
        if len(kinds.part) == len(self.sizes):
            return self
        return Outcome(kinds.sizes, kinds.covered, self.most, labels=names[kinds.part], times=kinds.times)

    def _are_classes(self, classes: NDArray[Any]) -> bool:
        """Tell whether every row was counted, and by the name that its label has."""
        kind = np.asarray(self.labels).dtype.kind
        is_counted = self.counts_of_kinds is not None and self.counts_of_kinds.sum() == len(self)
        return bool(is_counted and kind == classes.dtype.kind and kind in "iuU")

    def _kinds(self, number: NDArray[np.int32], n_parts: int, rows_of_a_kind: int = 1) -> Kinds:
        """Return the kinds of rows, where they are in parts of these numbers; all rows where kinds have fewer rows."""
        n_rows = len(self.sizes)
        n_sizes = int(least_and_most(self.sizes)[1]) + 1 if n_rows else 1
        if self.times is not None or rows_of_a_kind * 2 * n_sizes * n_parts > n_rows:
            times = np.ones(n_rows, dtype=np.int64) if self.times is None else self.times
            return Kinds(number, self.sizes, self.covered, times)
        kinds = np.empty(n_rows, dtype=np.int32)

        def work(start: int, stop: int) -> None:
            kinds[start:stop] = (number[start:stop] * n_sizes + self.sizes[start:stop]) * 2 + self.covered[start:stop]

        over_numbers(n_rows, work)
        times = group_sizes(kinds, 2 * n_sizes * n_parts)
        kind = np.flatnonzero(times)
        return Kinds(kind // (2 * n_sizes), kind // 2 % n_sizes, kind % 2 == 1, times[kind])

    def _sums_of_parts(self, parts: list[Stratum]) -> PartSums:
        """Return the sums of parts that may overlap."""
        times = np.ones(len(self.sizes), dtype=np.int64) if self.times is None else self.times
        several = []
        for name, rows in parts:
            of_part = (self.sizes[rows], self.covered[rows], times[rows])
            several.append(Kinds(np.zeros(len(of_part[0]), dtype=np.intp), *of_part).sums([name])[1:])
        return PartSums([part.name for part in parts], *np.array(several).reshape(-1, 6).T.astype(np.int64))

    def _count(self, hits: NDArray[np.bool_], among: Chosen | None) -> tuple[int, int]:
        """Return how many of how many rows have a property."""
        times = self._times(among)
        hit = hits if among is None else hits[among]
        if times is None:
            return int(np.count_nonzero(hit)), len(hit)
        return int(times[hit].sum()), int(times.sum())

    def _times(self, among: Chosen | None) -> NDArray[np.int64] | None:
        return self.times if among is None or self.times is None else self.times[among]


def check_by(by: Any, labels: Any) -> NDArray[Any]:
    """Return the group of each row: its true label, or what was passed."""
    truth = as_labels(labels, "labels")
    if isinstance(by, str):
        if by != "label":
            raise ValueError(f"by must be 'label' or an array with one value per row; got {by!r}.")
        return _without_missing(truth)
    if np.ndim(by) == 0 or getattr(by, "ndim", 1) != 1 or is_table(by):
        raise ValueError("by must be 'label' or 1-D, with one value per row.")
    if isinstance(by, np.ndarray) and by.dtype.kind in _NEVER_MISSING:
        check_length(by, len(truth), "by")
        return _without_missing(by)
    groups = with_one_missing(plain_list(by))
    check_length(groups, len(truth), "by")
    if any(issubclass(kind, list | tuple | dict | set | np.ndarray) for kind in set(map(type, groups))):
        raise TypeError("by must hold one plain value per row, no lists or tuples.")
    return as_objects(groups)


_NEVER_MISSING = "biuU"  # kinds of arrays


def _without_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Return values among which every missing one is the same: numbers and texts as they are, others as objects."""
    return values if values.dtype.kind in _NEVER_MISSING else as_objects(with_one_missing(values.tolist()))


def _parts(by: Any, labels: ArrayLike) -> list[Stratum]:
    names, number = numbered(check_by(by, labels))
    order, offsets = in_groups(np.arange(len(number)), number, len(names))
    return [
        Stratum(name, order[start:stop]) for name, (start, stop) in zip(names.tolist(), pairwise(offsets), strict=True)
    ]
