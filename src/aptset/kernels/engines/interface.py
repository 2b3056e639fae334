"""The interface of the engines: what each of them does with a block of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words

if TYPE_CHECKING:
    from aptset.kernels.rows import Rows


Columns = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]
Groups = NDArray[np.int32] | None
Members = tuple[NDArray[np.int32], NDArray[np.int32]]  # sizes of the sets, and their labels one row after the other

BLOCK_ROWS = 4096  # of copies; COPY_BITS in c/copies.h


class Copies(NamedTuple):
    """The rows that are copies, upward, and a seed of its own for each."""

    rows: NDArray[np.int64]
    seeds: Words

    def row_of(self, number: int) -> int:
        """Return which row a copy is; -1 for none."""
        return int(self.rows[number]) if number >= 0 else -1


class Index(NamedTuple):
    """Where to look first among the scores of each group. Twin of the one in C.

    Bucket b of a score is ``(score - low) * scale`` rounded down. The scores of bucket b of group g stand from
    ``starts[firsts[g] + b]`` on, counted from the first of the group; a small group has no buckets.
    """

    starts: NDArray[np.int32] | None = None
    firsts: NDArray[np.int64] | None = None
    low: Floats | None = None
    scale: Floats | None = None

    def of_groups(self, start: int, stop: int) -> Index:
        """Return the index of some groups that stand side by side."""
        if self.starts is None or self.firsts is None or self.low is None or self.scale is None:
            return NO_INDEX
        first, last = self.firsts[[start, stop]].tolist()
        if first == last:
            return NO_INDEX
        firsts = self.firsts[start : stop + 1] - first
        return Index(self.starts[first:last], firsts, self.low[start:stop], self.scale[start:stop])

    def with_more_buckets(self, scores: Floats, offsets: NDArray[np.int64], times: int) -> Index:
        """Return the index with so many buckets, a power of two, in the place of each."""
        if self.starts is None or self.firsts is None or self.low is None or self.scale is None:
            return NO_INDEX
        scale, lists = self.scale * times, [self.starts[:0]]
        if not np.isfinite(scale).all():
            return self
        for group, (first, last) in enumerate(pairwise(self.firsts.tolist())):
            several = self.starts[:0]
            if last > first:
                of_group, n_buckets = scores[offsets[group] : offsets[group + 1]], (last - first - 1) * times
                numbers = np.clip((of_group - self.low[group]) * scale[group], 0, n_buckets - 1).astype(np.int64)
                several = np.searchsorted(numbers, np.arange(n_buckets + 1)).astype(np.int32)
            lists.append(several)
        firsts = np.cumsum([len(starts) for starts in lists], dtype=np.int64)
        return Index(np.concatenate(lists), firsts, self.low, scale)


NO_INDEX = Index()


@dataclass(frozen=True, eq=False)
class Calibrated:
    """Calibration scores: those of group g are ``scores[offsets[g]:offsets[g + 1]]``, upward.

    The group of a label is that of its row, or what ``of_columns`` says of its column, or its own column. An index
    makes counting faster and changes nothing.
    Where rows and labels decide together, ``n_by_label`` groups of each group of rows stand side by side; engines get
    those of one group of rows, and never see this.
    Engines may keep what they worked out from the scores in ``kept``, under their name (and their device).
    """

    scores: Floats
    offsets: NDArray[np.int64]
    index: Index = NO_INDEX
    kept: dict[Any, Any] = field(default_factory=dict)
    of_columns: NDArray[np.intp] | None = None
    n_by_label: int = 0

    def of_row_group(self, group: int) -> Calibrated:
        """Return the scores of the labels in one group of rows; the label alone decides there."""
        start, stop = group * self.n_by_label, (group + 1) * self.n_by_label
        first, last = self.offsets[[start, stop]].tolist()
        scores, offsets = self.scores[first:last], self.offsets[start : stop + 1] - first
        return Calibrated(scores, offsets, self.index.of_groups(start, stop), of_columns=self.of_columns)


def columns_in(group: int, of_columns: NDArray[np.intp] | None) -> slice | NDArray[np.intp]:
    """Return the columns of the labels of a group, where the label decides: its own, or those that share it."""
    return slice(group, group + 1) if of_columns is None else np.flatnonzero(of_columns == group)


class UnorderedMembers(Protocol):
    """Members of a block whose order within their rows is worked out when somebody asks."""

    @property
    def columns(self) -> Columns:
        """The members in any order within their rows, one row after the other."""
        ...

    def in_order(self) -> NDArray[np.int32]:
        """Return the members, most likely first."""
        ...


class Engine(Protocol):
    """The loops over blocks of rows. Every engine gives the same bits.

    A block is a :class:`~aptset.kernels.rows.Rows` in C order, float32 or float64, neither to be divided nor raised
    any more. Results go into arrays that the caller made, in numpy's memory. Methods return the first bad row of the
    block, or -1; what they wrote is then worth nothing. ``noted``, where it is there, takes the seeds that were hashed
    (nothing is hashed where the rows have seeds): the caller finds copies among them and runs those rows again.
    Several blocks may run at once, on threads.
    """

    @property
    def name(self) -> str:
        """What ``APTSET_KERNELS`` calls it."""
        ...

    @property
    def loops(self) -> Any:
        """The compiled module, whose functions of plain arrays others call as well; None where there is none."""
        ...

    @property
    def for_functions(self) -> Engine:
        """The engine of scores without a linear form, which are functions of places."""
        ...

    def step(self, rows: Rows) -> int:
        """Return how many of the rows the engine takes at a time."""
        ...

    def label_scores(self, rows: Rows, labels: NDArray[np.int64], scores: Floats, noted: Words | None) -> int:
        """Score one label (a column number) of each row."""
        ...

    def all_scores(self, rows: Rows, scores: Floats) -> int:
        """Score every label, (rows, labels)."""
        ...

    def cut(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns | UnorderedMembers]:
        """Return the members at the largest threshold of each row, most likely first, one row after the other.

        An engine may leave their order for later where there is one threshold.

        Thresholds are (rows, thresholds), or (1, thresholds) for all rows alike; ``sizes`` are (thresholds, rows).
        Sets hold ``min_size`` labels (0 or 1). Columns come in any type that holds them.
        """
        ...

    def mask(self, rows: Rows, thresholds: Floats, min_size: int, flags: NDArray[np.bool_], noted: Words | None) -> int:
        """Flag the members at one level, (rows, labels); thresholds are (1 or rows, 1) or (1, labels)."""
        ...

    def cut_by_label(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members, most likely first, where each column has a threshold of its own: (labels,)."""
        ...

    def cut_by_cell(self, rows: Rows, of_levels: Floats, min_size: int) -> tuple[int, list[Members]]:
        """Return the members at each level, most likely first, where every label of every row may have a threshold.

        Thresholds are (levels, 1 or rows, 1 or labels). Rows have seeds.
        """
        ...

    def add_counts(self, rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
        """Add to the count of every label the calibration scores of its group that are strictly below its score.

        The group of a row may be -1 (none): it adds nothing. Without ``row_groups`` the column of a label decides.
        """
        ...

    def p_values(
        self, rows: Rows, calibrated: Calibrated, row_groups: Groups, p_values: Floats, noted: Words | None
    ) -> int:
        """Write the p-value of every label from its count; 1 where the group of a row is -1."""
        ...

    def hash_rows(self, values: NDArray[np.generic], key: int, seeds: Words) -> None:
        """Seed every row of a matrix of any numbers."""
        ...

    def copies(self, seeds: Words, side: int, first_row: int) -> Copies:
        """Find the rows whose seed came before in their block of 4096, the first of which starts at ``first_row``."""
        ...

    def softmax(self, logits: NDArray[np.generic], probabilities: Floats) -> None:
        """Write the probabilities of a block of logits, float32 or float64, as :mod:`aptset.kernels.softmax` says."""
        ...

    def p_value_table(self, n: int, counts: NDArray[Any]) -> Floats:
        """Return a table of the p-values of counts 0 .. n among n scores that is right at these counts at least.

        :mod:`aptset.kernels.p_value_rounding` says how they are rounded.
        """
        ...
