"""An evaluation of rows that go by: a count for each label, or group, with each size, however many rows there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import as_objects
from aptset.metrics import BREAKDOWNS, METRICS
from aptset.metrics.estimates import check_confidence
from aptset.metrics.evaluation import Evaluation, about_unknown, check_judged, rows_of_labels
from aptset.metrics.outcome import Outcome


class Codes(NamedTuple):
    """Values of rows as positions in a short list of them."""

    of_rows: NDArray[np.intp]
    names: list[Any]


class RowCounts:
    """How many rows each (value, size, covered) has, however many rows have gone by."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}  # of the values, in order of first appearance
        self._keys, self._times = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    @property
    def values(self) -> list[Any]:
        """The values that came, in order of first appearance."""
        return list(self._places)

    def add(self, codes: Codes, sizes: NDArray[np.int64], covered: NDArray[np.bool_]) -> None:
        """Count more rows: the value of each, the size of its set, and whether the set holds the true label."""
        if not len(sizes):
            return
        kinds = 2 * (int(sizes.max()) + 1)
        keys, times = _counted(codes.of_rows * kinds + (2 * sizes + covered), kinds * len(codes.names))
        first_row = np.full(len(codes.names), len(sizes))
        first_row[codes.of_rows[::-1]] = np.arange(len(sizes))[::-1]  # of several numbers the last one stays
        places = np.zeros(len(codes.names), dtype=np.int64)
        for code in np.argsort(first_row, kind="stable")[: np.count_nonzero(first_row < len(sizes))].tolist():
            places[code] = self._places.setdefault(codes.names[code], len(self._places))
        self._waiting.append((places[keys // kinds] * _KINDS + keys % kinds, times))
        if sum(len(keys) for keys, _ in self._waiting) > _LONG + len(self._keys):
            self._join()

    def outcome(self, most: int) -> tuple[Outcome, NDArray[Any]]:
        """Return what metrics look at, an entry for each (value, size, covered), and the value of each entry."""
        self._join()
        kinds = self._keys % _KINDS
        values = as_objects(self.values)[self._keys // _KINDS]
        return Outcome(kinds // 2, kinds % 2 == 1, most, labels=values, times=self._times), values

    def _join(self) -> None:
        """Make one entry of those that are alike."""
        pieces = [(self._keys, self._times), *self._waiting]
        keys, times = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        self._keys, number = np.unique(keys, return_inverse=True)
        self._times, self._waiting = np.zeros(len(self._keys), dtype=np.int64), []
        np.add.at(self._times, number, times)


_KINDS = 2**32  # more than any size has, covered or not
_LONG = 2**20  # entries that may wait to be joined


def _counted(keys: NDArray[np.int64], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys that come, upward, and how often each does; all are below the end."""
    if end > 16 * len(keys):
        return np.unique(keys, return_counts=True)
    times = np.bincount(keys)
    present = np.flatnonzero(times)
    return present, times[present]


@dataclass
class RunningSums:
    """What an evaluation needs to know of all rows that have gone by: counts, which the table of metrics reads."""

    by_label: RowCounts = field(default_factory=RowCounts)
    by_group: RowCounts | None = None
    members: set[Any] = field(default_factory=set)

    def add(
        self,
        sizes: NDArray[np.int64],
        covered: NDArray[np.bool_],
        members: set[Any],
        labels: Codes,
        groups: Codes | None,
    ) -> None:
        """Take in some rows: their sets' sizes, whether they cover, what they hold, true labels, and groups if any."""
        self.members |= members
        self.by_label.add(labels, sizes, covered)
        if groups is not None:
            self.by_group = self.by_group or RowCounts()
            self.by_group.add(groups, sizes, covered)

    def evaluation(
        self, alpha: Any = None, confidence: float = 0.95, classes: Iterable[Any] | None = None
    ) -> Evaluation:
        """Return what :func:`aptset.evaluate` says of the same rows at once; ``classes`` are those of the model."""
        sure = check_confidence(confidence)
        most = len(self.members.union(self.by_label.values))  # every label that came, in a set or as the truth
        outcome, _ = self.by_label.outcome(most)
        within, groups = (outcome, None) if self.by_group is None else self.by_group.outcome(most)
        level, alpha = check_judged(alpha, outcome.labels, groups, None)
        parts = {
            name: one.measure(within if one.by == "group" else outcome, groups, sure)
            for name, one in BREAKDOWNS.items()
        }
        return Evaluation(
            overall={name: one.measure(outcome, alpha=alpha, confidence=sure) for name, one in METRICS.items()},
            parts=parts,
            alpha=level,
            n=outcome.n,
            confidence=sure,
            remarks=() if classes is None else about_unknown(rows_of_labels(parts["by_label"]), classes),
        )
