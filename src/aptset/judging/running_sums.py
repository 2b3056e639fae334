"""An evaluation of rows that go by: a few whole numbers for each label, group and size, however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.judging.estimates import Estimate, mean_of_sums, share_of_count
from aptset.judging.evaluation import Evaluation
from aptset.judging.metrics import gap_of_counts
from aptset.validation.outcomes import as_objects, check_confidence, distinct
from aptset.validation.settings import check_alpha


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
        different, of_rows = np.unique(sizes, return_inverse=True)
        _add_to(self.by_size, Codes(of_rows, different.tolist()), sizes, covered)
        _add_to(self.by_label, labels, sizes, covered)
        if groups is not None:
            self.by_group = {} if self.by_group is None else self.by_group
            _add_to(self.by_group, groups, sizes, covered)

    def evaluation(self, alpha: float | None = None, confidence: float = 0.95) -> Evaluation:
        """Return what :func:`aptset.evaluate` says of the same rows at once."""
        level, sure = None if alpha is None else float(check_alpha(alpha)), check_confidence(confidence)
        labels, sizes = _in_order(self.by_label), _in_order(self.by_size)
        groups = None if self.by_group is None else _in_order(self.by_group)
        whole, most = Sums(), len(self.members | set(self.by_label))  # every label that came, in a set or as the truth
        for part in sizes.values():
            whole.add([part.n, part.covered, part.size, part.squares, part.covering_size, part.covering_squares])
        empty, single = sizes.get(0, Sums()), sizes.get(1, Sums())
        counts = [(part.covered, part.n) for part in labels.values()]
        return Evaluation(
            coverage=whole.coverage(sure),
            mean_size=whole.mean_size(most, sure),
            size_given_coverage=whole.covering_mean_size(most, sure),
            empty_rate=share_of_count(empty.n, whole.n, sure),
            singleton_rate=share_of_count(single.n, whole.n, sure),
            singleton_accuracy=single.coverage(sure),
            coverage_gap=gap_of_counts(counts, None if alpha is None else float(1 - check_alpha(alpha)), sure),
            sizes={size: share_of_count(part.n, whole.n, sure) for size, part in sizes.items()},
            by_size={size: part.coverage(sure) for size, part in sizes.items()},
            by_label={name: part.coverage(sure) for name, part in labels.items()},
            size_by_label={name: part.mean_size(most, sure) for name, part in labels.items()},
            by_group=None if groups is None else {name: part.coverage(sure) for name, part in groups.items()},
            size_by_group=None
            if groups is None
            else {name: part.mean_size(most, sure) for name, part in groups.items()},
            covering_size_by_label={name: part.covering_mean_size(most, sure) for name, part in labels.items()},
            covering_size_by_group=None
            if groups is None
            else {name: part.covering_mean_size(most, sure) for name, part in groups.items()},
            worst_slice=None,
            alpha=level,
            n=whole.n,
        )


def _add_to(table: dict[Any, Sums], codes: Codes, sizes: NDArray[np.int64], covered: NDArray[np.bool_]) -> None:
    """Add the numbers of each value; sums of whole numbers below 2^53 are exact in the floats of a bincount."""
    weights = [None, covered, sizes, sizes**2, sizes * covered, sizes**2 * covered]
    sums = [np.bincount(codes.of_rows, weight, minlength=len(codes.names)).astype(np.int64) for weight in weights]
    met, first_row = np.unique(codes.of_rows, return_index=True)
    for code in met[np.argsort(first_row)].tolist():  # in order of appearance, as where all rows are there at once
        table.setdefault(codes.names[code], Sums()).add([int(column[code]) for column in sums])


def _in_order(table: dict[Any, Sums]) -> dict[Any, Sums]:
    """Return values in the order in which an evaluation lists them."""
    return {name: table[name] for name in distinct(as_objects(list(table))).tolist()}
