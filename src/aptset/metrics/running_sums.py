"""An evaluation of rows that go by: a few whole numbers for each label, group and size, however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import as_objects, distinct
from aptset.core.validate import check_alpha
from aptset.metrics import METRICS
from aptset.metrics.checks import check_confidence
from aptset.metrics.estimates import Estimate, mean_of_sums, share_of_count
from aptset.metrics.evaluation import Evaluation
from aptset.metrics.outcome import Outcome


class Codes(NamedTuple):
    """Values of rows as positions in a short list of them."""

    of_rows: NDArray[np.intp]
    names: list[Any]


@dataclass
class Sums:
    """Counts and sums of sizes over some rows, and over those of them whose set holds the true label."""

    n: int = 0
    covered: int = 0
    size: int = 0
    squares: int = 0
    covering_size: int = 0
    covering_squares: int = 0

    def add(self, more: list[int]) -> None:
        """Take in the six numbers of more rows."""
        names = ("n", "covered", "size", "squares", "covering_size", "covering_squares")
        for name, value in zip(names, more, strict=True):
            setattr(self, name, getattr(self, name) + value)

    def coverage(self, confidence: float) -> Estimate:
        """Return the share of covered rows."""
        return share_of_count(self.covered, self.n, confidence)

    def mean_size(self, most: int, confidence: float) -> Estimate:
        """Return the mean size, where sets hold so many labels at the most."""
        return mean_of_sums(self.n, self.size, self.squares, 0, most, confidence)

    def covering_mean_size(self, most: int, confidence: float) -> Estimate:
        """Return the mean size of the sets that cover."""
        sums = (self.covered, self.covering_size, self.covering_squares)
        return mean_of_sums(*sums, 1, max(1, most), confidence)


@dataclass
class RunningSums:
    """What an evaluation needs to know of all rows that have gone by."""

    by_size: dict[int, Sums] = field(default_factory=dict)
    by_label: dict[Any, Sums] = field(default_factory=dict)
    by_group: dict[Any, Sums] | None = None
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
        most = int(sizes.max(initial=0))
        _add_to(self.by_size, Codes(sizes.astype(np.intp, copy=False), list(range(most + 1))), sizes, covered)
        _add_to(self.by_label, labels, sizes, covered)
        if groups is not None:
            self.by_group = {} if self.by_group is None else self.by_group
            _add_to(self.by_group, groups, sizes, covered)

    def evaluation(self, alpha: float | None = None, confidence: float = 0.95) -> Evaluation:
        """Return what :func:`aptset.evaluate` says of the same rows at once."""
        level, sure = None if alpha is None else float(check_alpha(alpha)), check_confidence(confidence)
        labels, sizes = _in_order(self.by_label), _in_order(self.by_size)
        groups = None if self.by_group is None else _in_order(self.by_group)
        most = len(self.members | set(self.by_label))  # every label that came, in a set or as the truth
        outcome = _outcome(sizes, [(part.covered, part.n) for part in labels.values()], most)
        n = sum(part.n for part in sizes.values())
        by_label, by_group = _broken_down(labels, most, sure), _broken_down(groups, most, sure)
        return Evaluation(
            overall={name: one.measure(outcome, alpha=alpha, confidence=sure) for name, one in METRICS.items()},
            parts={
                "sizes": {size: share_of_count(part.n, n, sure) for size, part in sizes.items()},
                "by_size": {size: part.coverage(sure) for size, part in sizes.items()},
                **dict(zip(("by_label", "size_by_label", "covering_size_by_label"), by_label, strict=True)),
                **dict(zip(("by_group", "size_by_group", "covering_size_by_group"), by_group, strict=True)),
            },
            alpha=level,
            n=n,
            confidence=sure,
        )


Numbers = dict[Any, Estimate] | None


def _broken_down(parts: dict[Any, Sums] | None, most: int, sure: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return coverage, mean size and the mean size of covering sets of each part."""
    if parts is None:
        return None, None, None
    return (
        {name: part.coverage(sure) for name, part in parts.items()},
        {name: part.mean_size(most, sure) for name, part in parts.items()},
        {name: part.covering_mean_size(most, sure) for name, part in parts.items()},
    )


def _outcome(sizes: dict[int, Sums], counts_of_labels: list[tuple[int, int]], most: int) -> Outcome:
    """Return what metrics look at: each size twice, for sets that cover and sets that miss, with their number."""
    values, parts = np.array(list(sizes), dtype=np.int64), list(sizes.values())
    times = np.array([part.covered for part in parts] + [part.n - part.covered for part in parts], dtype=np.int64)
    holds = np.repeat([True, False], len(parts))
    return Outcome(np.tile(values, 2), holds, most, times=times, counts_of_labels=counts_of_labels)


def _add_to(table: dict[Any, Sums], codes: Codes, sizes: NDArray[np.int64], covered: NDArray[np.bool_]) -> None:
    """Add the numbers of each value; sums of whole numbers below 2^53 are exact in the floats of a bincount."""
    weights = [None, covered, sizes, sizes**2, sizes * covered, sizes**2 * covered]
    sums = [np.bincount(codes.of_rows, weight, minlength=len(codes.names)).astype(np.int64) for weight in weights]
    first_row = np.full(len(codes.names), len(sizes))
    first_row[codes.of_rows[::-1]] = np.arange(len(sizes))[::-1]  # of several numbers the last one stays
    met = np.flatnonzero(sums[0])
    for code in met[np.argsort(first_row[met])].tolist():  # in order of appearance, as where all rows are there at once
        table.setdefault(codes.names[code], Sums()).add([int(column[code]) for column in sums])


def _in_order(table: dict[Any, Sums]) -> dict[Any, Sums]:
    """Return values in the order in which an evaluation lists them."""
    return {name: table[name] for name in distinct(as_objects(list(table))).tolist()}
