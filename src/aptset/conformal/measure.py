"""Sorted scores of held-out samples, by fold and by group: all that a calibration remembers of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.conditional_quantile import OverlappingScores
from aptset.conformal.weight_checks import check_new_weights
from aptset.core.group_values import check_group_values, check_same_kind
from aptset.core.groups import EVERYONE, Groups, Ids, Overlap, of_one_group
from aptset.core.labels import Coded, hashable
from aptset.core.matrix import check_rows
from aptset.core.validate import warn_if_too_few
from aptset.kernels.counting import Calibrated, add_counts, index_of, rank_at
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import in_groups, of_rank, sort_upward
from aptset.kernels.rows import Rows, label_scores

_FEW = 2**12  # rows
_MOST_LEVELS = 256  # whose thresholds are kept
_MOST_SELECTED = 3  # order statistics before all scores are put in order


class ScoresElsewhere(Protocol):
    """Scores of one group that lie on a device."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def of_rank(self, rank: int) -> float:
        """Return the rank-th smallest one."""
        ...

    def upward(self) -> Floats:
        """Return all of them, sorted."""
        ...


class FoldScores:
    """Scores of one fold: those of group g are ``scores[offsets[g]:offsets[g + 1]]``, upward.

    Scores of a group are put in order when they are first looked at: calibrating costs one pass, and no sort. Those
    that lie on a device come from there when all of them are asked for.
    """

    _elsewhere: ScoresElsewhere | None = None

    def __init__(
        self, scores: Floats, offsets: NDArray[np.int64], groups: Groups = EVERYONE, is_sorted: bool = True
    ) -> None:
        self._scores, self.offsets, self._is_sorted = scores, offsets, is_sorted
        self._of_columns = groups.of_columns
        self._calibrated: Calibrated | None = None
        self._n_selected = 0

    @classmethod
    def of_device(cls, scores: ScoresElsewhere, groups: Groups) -> FoldScores:
        """Keep scores of one group where they lie."""
        fold = cls(np.empty(0), np.array([0, len(scores)]), groups)
        fold._elsewhere = scores
        return fold

    def _fetch(self) -> None:
        elsewhere = self._elsewhere
        if elsewhere is not None:
            self._scores = elsewhere.upward()
            self._elsewhere = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to another process, or into a copy: nothing that lies on a device."""
        self._fetch()
        return self.__dict__ | {"_calibrated": None}

    @property
    def scores(self) -> Floats:
        """The scores, by group and upward."""
        self._fetch()
        if not self._is_sorted:  # a copy is sorted: two threads that come at once do the work twice, nothing worse
            parts = [sort_upward(self._scores[start:stop]) for start, stop in pairwise(self.offsets.tolist())]
            ordered = parts[0] if len(parts) == 1 else np.concatenate(parts)
            ordered.flags.writeable = False
            self._scores, self._is_sorted = ordered, True
        return self._scores

    @property
    def unsorted(self) -> Floats:
        """The scores by group, in any order within one: for whoever joins them, and sorts afterwards."""
        self._fetch()
        return self._scores

    def of_rank(self, group: int, rank: int) -> float:
        """Return the rank-th smallest score of a group; infinite if there are fewer.

        The first few are selected, which is quicker than a sort.
        """
        start, stop = self.offsets[group : group + 2].tolist()
        if rank > stop - start:
            return float("inf")
        if self._elsewhere is not None:
            return self._elsewhere.of_rank(rank)
        if self._is_sorted or self._n_selected >= _MOST_SELECTED * (len(self.offsets) - 1):
            return float(self.scores[start + rank - 1])
        self._n_selected += 1
        return of_rank(self._scores[start:stop], rank)

    @property
    def calibrated(self) -> Calibrated:
        """The scores as the loops take them, with an index if there are many."""
        if self._calibrated is None:
            index = index_of(self.scores, self.offsets)
            self._calibrated = Calibrated(self.scores, self.offsets, index, of_columns=self._of_columns)
        return self._calibrated

    def added(self, rows: Rows, ids: Ids | None, counts: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Add to the count of every label the scores below its own; return the first bad row or -1 as well."""
        return counts, add_counts(rows, self.calibrated, ids, counts)

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @classmethod
    def of_one_group(cls, scores: Floats, groups: Groups) -> FoldScores:
        """Keep scores of one group, which the caller does not change."""
        return cls(scores, np.array([0, len(scores)]), groups, is_sorted=False)

    @classmethod
    def sort(cls, scores: Floats, group: NDArray[np.intp], groups: Groups) -> FoldScores:
        """Put scores in the order of their groups; those of one group are kept, and the caller does not change them."""
        n_groups = len(groups.names)
        if n_groups == 1:
            return cls.of_one_group(scores, groups)
        return cls(*in_groups(scores, group.astype(np.int32), n_groups), groups, is_sorted=False)


def score_fold(rows: Rows, columns: NDArray[np.int64], ids: Ids | None, groups: Groups, name: str) -> FoldScores:
    """Score the true label of each held-out row."""
    return FoldScores.sort(scores_of(rows, columns, name), groups.ids_of_labels(ids, columns), groups)


def scores_of(rows: Rows, columns: NDArray[np.int64], name: str) -> Floats:
    """Score one label of each row; refuse rows that are no probabilities."""
    found = label_scores(rows, columns)
    check_rows(rows.probabilities, found.first_bad, name, rows.normalize)
    return found.scores


def join_groups(several: Sequence[Groups]) -> Groups:
    """Return the groups that are in any of several of one kind, in the order in which they come."""
    names = tuple(dict.fromkeys(name for groups in several for name in groups.names))
    return Groups(several[0].kind, names, several[0].bands, join_overlaps([groups.overlap for groups in several]))


def join_overlaps(several: Sequence[Overlap | None]) -> Overlap | None:
    """Return the groups that overlap in any of several, which come from the same columns."""
    first = several[0]
    every = (name for overlap in several if overlap is not None for name in overlap.names)
    return None if first is None else first._replace(names=tuple(dict.fromkeys(every)))


def join_folds(parts: Sequence[tuple[FoldScores, Groups]], groups: Groups) -> FoldScores:
    """Return the scores of other rows under one model as those of one fold, group by group."""
    if len(groups.names) == 1:
        return FoldScores.of_one_group(np.concatenate([fold.unsorted for fold, _ in parts]), groups)
    number_of = {name: number for number, name in enumerate(groups.names)}
    places = [np.array([number_of[name] for name in of_part.names], dtype=np.int32) for _, of_part in parts]
    group = [np.repeat(place, np.diff(fold.offsets)) for place, (fold, _) in zip(places, parts, strict=True)]
    return FoldScores.sort(np.concatenate([fold.unsorted for fold, _ in parts]), np.concatenate(group), groups)


@dataclass(frozen=True)
class HeldOut:
    """Scores of all folds. A label is in iff fewer than (1 - alpha)(n + 1) scores of its group are below its own.

    How the folds combine when they are compared with a new row is the scheme's to say. ``judges`` says which models'
    mean judges each fold, (folds, models); None: each fold has a model of its own.
    """

    folds: tuple[FoldScores, ...]
    groups: Groups = EVERYONE
    judges: NDArray[np.bool_] | None = None

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of calibration samples in each group."""
        total: NDArray[np.int64] = self.sizes_of_folds.sum(axis=0)
        return total

    @cached_property
    def size_of_group(self) -> dict[Any, int]:
        """Number of calibration samples in each group, by its name."""
        return dict(zip(self.groups.names, self.sizes.tolist(), strict=True))

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration samples of each group in each fold, (folds, groups)."""
        return np.array([np.diff(fold.offsets) for fold in self.folds])

    @property
    def promised_sizes(self) -> NDArray[np.int64]:
        """Number of calibration samples in each fold for each promise: overlapping groups have one together."""
        return self.sizes_of_folds if self.overlapping is None else self.sizes_of_folds.sum(axis=1, keepdims=True)

    @property
    def of_models(self) -> Sequence[FoldScores | None]:
        """The scores that each model judges alone, if models do."""
        return self.folds if self.judges is None else [None] * self.judges.shape[1]

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return sum(len(fold) for fold in self.folds)

    @property
    def scores(self) -> Floats:
        """All scores, upward."""
        if len(self.folds) == 1 and self.groups.kind == "all":
            return self.folds[0].scores
        return np.sort(np.concatenate([fold.scores for fold in self.folds]), kind="stable")  # merges what is sorted

    def merge(self, *others: HeldOut) -> HeldOut:
        """Join the scores of one-fold calibrations, group by group."""
        parts = (self, *others)
        groups = join_groups([part.groups for part in parts])
        return HeldOut((join_folds([(part.folds[0], part.groups) for part in parts], groups),), groups)

    def pooled(self) -> FoldScores:
        """Return the scores of all folds as if they were one."""
        if len(self.folds) == 1:
            return self.folds[0]
        group = np.concatenate(
            [np.repeat(np.arange(len(fold.offsets) - 1), np.diff(fold.offsets)) for fold in self.folds]
        )
        return FoldScores.sort(np.concatenate([fold.unsorted for fold in self.folds]), group, self.groups)

    def meet(self, values: Any, n_rows: int) -> tuple[Ids | None, dict[Any, int]]:
        """Return the group ids of new rows, and the calibration sample size of each group that they can meet."""
        if values is None and self.groups.kind == "all":
            few = n_rows < _FEW  # the short way of small calls
            return np.zeros(n_rows, dtype=np.int32) if few else of_one_group(n_rows, np.int32), self.size_of_group
        found = None if values is None else check_group_values(None, values, None, n_rows, self.groups)
        check_same_kind(self.groups.kind, found)
        ids, sizes = self.groups.ids(found, n_rows), self.sizes.tolist()
        if found is None or ids is None:
            return ids, self.size_of_group
        if self.overlapping is not None:
            assert isinstance(found, Coded)
            return ids, self.overlapping.sizes_of({name for cell in found.distinct() for name in cell})
        met = np.flatnonzero(np.bincount(ids + 1, minlength=len(sizes) + 1)[1:]).tolist()
        seen = {self.groups.names[number]: sizes[number] for number in met}
        unknown = np.flatnonzero(ids < 0)
        others = (
            found.some(unknown).distinct() if isinstance(found, Coded) else (found[row] for row in unknown.tolist())
        )
        never = {hashable(other.item() if isinstance(other, np.generic) else other): 0 for other in others}
        return ids, seen | never

    def facing(self, weights: Any, n_rows: int) -> HeldOut:
        """Return the scores as new rows of some weights meet them: here all weigh the same."""
        if weights is not None:
            check_new_weights(weights, n_rows, are_wanted=False)
        return self

    @cached_property
    def effective_sizes(self) -> Floats:
        """How many samples of equal weight each group stands for: here as many as it has."""
        return self.sizes.astype(np.float64)

    def warn(self, met: dict[Any, int], ids: Ids | None, alphas: list[Fraction], stacklevel: int = 3) -> None:
        """Say once if calibration samples, or those of some groups that rows met, are too few for a level."""
        warn_if_too_few(met, alphas, self.groups.kind, stacklevel + 1)

    def ranks(self, alpha: Fraction) -> NDArray[np.int64]:
        """Return for each group, and last for a group never seen, the count that a label must stay below."""
        return np.array([rank_at(int(n), alpha) for n in [*self.sizes, 0]])

    def thresholds(self, alpha: Fraction) -> Floats:
        """Return for each group, and last for a group never seen, the k-th smallest score; infinite if k exceeds n."""
        found = self._thresholds.get(alpha)
        if found is None:
            found = self._find_thresholds(alpha)
            if len(self._thresholds) < _MOST_LEVELS:
                self._thresholds[alpha] = found
        return found

    def thresholds_by_row(self, ids: Ids, alpha: Fraction) -> Floats:
        """Return the threshold of each row from the number of its group, or of its combination of groups."""
        return self.thresholds(alpha)[ids] if self.overlapping is None else self.overlapping.thresholds(ids, alpha)

    @cached_property
    def overlapping(self) -> OverlappingScores | None:
        """The scores by combinations of groups, where groups overlap."""
        return OverlappingScores(self.groups, self.folds[0]) if self.groups.kind == "overlap" else None

    @cached_property
    def _thresholds(self) -> dict[Fraction, Floats]:
        """Those that were asked for: a level comes again with every batch."""
        return {}

    def _find_thresholds(self, alpha: Fraction) -> Floats:
        if self.overlapping is not None:
            numbers = np.arange(len(self.groups.names), dtype=np.int32)
            return np.append(self.overlapping.thresholds(numbers, alpha), np.inf)
        pooled = self.pooled()
        *ranks, _ = self.ranks(alpha).tolist()
        found = np.array([*(pooled.of_rank(group, rank) for group, rank in enumerate(ranks)), np.inf])
        found.flags.writeable = False
        return found


class Fold(NamedTuple):
    """Rows that a model is calibrated on, and those that train it: by default all others."""

    held_out: NDArray[np.intp]
    train: NDArray[np.intp] | None = None

    def train_rows(self, n: int) -> NDArray[np.intp]:
        """Return the rows that train; n folds would take n^2 memory if each kept its own list."""
        if self.train is not None:
            return self.train
        trains = np.ones(n, dtype=np.bool_)
        trains[self.held_out] = False
        return np.flatnonzero(trains)
