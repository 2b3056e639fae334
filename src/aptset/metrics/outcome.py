"""What sets did with the true labels: all that a metric looks at, worked out once for all metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core.labels import as_labels, as_objects, check_length, coded_array, columns_of, distinct, with_one_missing
from aptset.core.overlapping import Overlapping
from aptset.core.tables import is_table, plain_list
from aptset.metrics.estimates import Estimate, check_confidence, mean_of_sizes, mean_of_sums, share_of_count
from aptset.sets import PredictionSets

Chosen = NDArray[np.bool_] | NDArray[np.intp]  # some rows: a flag for each, or their numbers


class Stratum(NamedTuple):
    """The rows of one label or group, by number."""

    name: Any
    rows: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Sizes, and whether sets hold the true label; row by row, or for each kind of row with its number of rows.

    A metric that only asks for shares and mean sizes works for both, so it needs no second version for files that are
    read in pieces.

    Attributes
    ----------
    sizes : array of int
        The number of labels in each set.
    most : int
        The number of labels that a set can hold.
    sets, labels
        The sets and the true labels themselves. Where rows have gone by, there are no sets, and a label for each entry.
    times : array of int or None
        How many rows each entry stands for; None for one each.
    """

    sizes: NDArray[np.int64]
    holds: NDArray[np.bool_] | None
    most: int
    sets: PredictionSets | None = None
    labels: Any = None
    times: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, sets: Any, labels: ArrayLike | None = None, classes: ArrayLike | None = None) -> Outcome:
        """Return what sets did with the true labels, if there are any; an outcome as it is."""
        if isinstance(sets, Outcome):
            return sets
        checked = PredictionSets.of(sets, classes)
        holds = None if labels is None else checked.covers(labels)
        return cls(checked.sizes, holds, len(checked.classes), checked, labels)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.sizes) if self.times is None else int(self.times.sum())

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Which sets hold the true label."""
        assert self.holds is not None, "a metric that asks which sets cover takes the labels"
        return self.holds

    def sizes_met(self) -> list[int]:
        """Return the sizes that sets have, upward."""
        return np.flatnonzero(np.bincount(self.sizes)).tolist()

    def share(self, hits: NDArray[np.bool_], confidence: float, among: Chosen | None = None) -> Estimate:
        """Return the share of rows with a property, among some or all, with the exact (Clopper-Pearson) interval."""
        return share_of_count(*self._count(hits, among), check_confidence(confidence))

    def mean_size(self, confidence: float, among: Chosen | None = None, least: int = 0) -> Estimate:
        """Return the mean size of some or all sets, which hold at least so many labels."""
        times = self._times(among)
        sizes = (self.sizes if among is None else self.sizes[among]).astype(np.int64)
        ends, sure = (least, max(least, self.most)), check_confidence(confidence)
        if times is None:
            return mean_of_sizes(sizes, *ends, sure)
        return mean_of_sums(int(times.sum()), int(times @ sizes), int(times @ np.square(sizes)), *ends, sure)

    def parts(self, by: Any = "label") -> list[Stratum]:
        """Return the rows of each true label, or of each value of an array; each array is looked at once."""
        if isinstance(by, Overlapping):
            check_length(by, len(self.sizes), "by")
            return [Stratum(name, by.members(name)) for name in by.names]
        if isinstance(by, str) and by == "label":
            return self._parts_of_labels
        if id(by) not in self._parts_of_arrays:
            self._parts_of_arrays[id(by)] = by, _parts(by, self.labels)  # with the array, so that its id stays its own
        return self._parts_of_arrays[id(by)][1]

    def counts(self, by: Any = "label") -> list[tuple[int, int]]:
        """Return for each part how many of how many rows are covered."""
        return [self._count(self.covered, part.rows) for part in self.parts(by)]

    @cached_property
    def _parts_of_arrays(self) -> dict[int, tuple[Any, list[Stratum]]]:
        return {}

    @cached_property
    def _parts_of_labels(self) -> list[Stratum]:
        return _parts("label", self.labels)

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
    values = check_by(by, labels)
    several = coded_array(values) if values.dtype.kind == "U" else None
    looked_at = values if several is None else as_objects(several.values)
    names = distinct(looked_at)
    number = columns_of(looked_at, names)
    number = number if several is None else number[several.codes]
    if len(names) < 2**15:
        number = number.astype(np.int16)  # which numpy sorts by digits
    order = np.argsort(number, kind="stable")
    rows = np.split(order, np.searchsorted(number[order], np.arange(1, max(len(names), 1))))
    return [Stratum(name, of_name) for name, of_name in zip(names.tolist(), rows, strict=False)]
