"""Sorted scores of the held-out rows of one fold, by cell: all that a calibration remembers of its data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.clusters import masses_of
from aptset.conformal.importance import Scale
from aptset.core.groups import EVERYONE, Groups, Ids
from aptset.core.matrix import check_rows
from aptset.kernels.blocks import converted
from aptset.kernels.counting import Calibrated, add_counts, index_of
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import in_groups, of_rank, sort_upward
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import Rows, label_scores

_MOST_SELECTED = 3  # order statistics before all scores are put in order


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


@final
class FoldScores:
    """Scores of one fold: those of cell c are ``scores[offsets[c]:offsets[c + 1]]``, upward.

    Scores of a cell are put in order when they are first looked at: calibrating costs one pass, and no sort. With
    ``weights`` each score has a mass, a whole number by ``scale``, and stands in order from the start; ``cumulative``
    holds the running sums of the masses. Without them each has the mass one. ``clusters`` has the cluster of each
    score, where rows belong together. Scores that lie on a device come from there when all of them are asked for.
    """

    _elsewhere: ScoresElsewhere | None = None

    def __init__(
        self,
        scores: Floats,
        offsets: NDArray[np.int64],
        groups: Groups = EVERYONE,
        is_sorted: bool = True,
        weights: Floats | None = None,
        scale: Scale | None = None,
        clusters: Words | None = None,
    ) -> None:
        self._scores, self.offsets, self._is_sorted = scores, offsets, is_sorted
        self.groups, self.weights, self.scale, self.clusters = groups, weights, scale, clusters
        self._calibrated: Calibrated | None = None
        self._n_selected = 0
        self.cumulative: NDArray[np.int64] | None = None
        if weights is not None and scale is not None:
            self.cumulative = np.concatenate([[0], np.cumsum(scale.whole(weights), dtype=np.int64)])

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
            of_columns, n_by_label = self.groups.of_columns, self.groups.n_by_label
            self._calibrated = Calibrated(
                self.scores, self.offsets, index, of_columns=of_columns, n_by_label=n_by_label
            )
        return self._calibrated

    def added(self, rows: Rows, ids: Ids | None, below: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Add to every label the mass of the scores below its own; return the first bad row or -1 as well."""
        if self.weights is None:
            return below, add_counts(rows, self.calibrated, ids, below)
        counts, first_bad = self.counted(rows, ids)
        return below + self.mass_below(counts, ids), first_bad

    def counted(self, rows: Rows, ids: Ids | None) -> tuple[NDArray[np.int32], int]:
        """Return how many scores are below that of each label, and the first bad row or -1."""
        counts = np.zeros(rows.probabilities.shape, dtype=np.int32)
        return counts, add_counts(rows, self.calibrated, ids, counts)

    def mass_below(self, counts: NDArray[np.int32], ids: Ids | None) -> NDArray[np.int64]:
        """Return the mass of so many of the smallest scores of a cell."""
        assert self.cumulative is not None
        start = np.append(self.offsets[:-1], 0)[self.groups.index(ids)]  # in a cell never seen nothing is counted
        below: NDArray[np.int64] = self.cumulative[start + counts] - self.cumulative[start]
        return below

    @property
    def cell_of_score(self) -> NDArray[np.intp]:
        """The number of the cell of each score."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def __len__(self) -> int:
        return int(self.offsets[-1])

    @classmethod
    def sort(cls, scores: Floats, group: NDArray[np.intp] | None, groups: Groups) -> FoldScores:
        """Put scores in the order of their groups; those of one group are kept, and the caller does not change them."""
        n_groups = len(groups.names)
        if n_groups == 1 or group is None:
            return cls(scores, np.array([0, len(scores)]), groups, is_sorted=False)
        return cls(*in_groups(scores, converted(group, np.int32), n_groups), groups, is_sorted=False)

    @classmethod
    def weighted(
        cls,
        scores: Floats,
        weights: Floats | None,
        group: NDArray[np.intp],
        groups: Groups,
        scale: Scale | None,
        clusters: Words | None = None,
    ) -> FoldScores:
        """Put scores, weights and clusters in order; equal scores stand by those, so that no order of rows counts."""
        n_groups = len(groups.names)
        order = np.argsort(scores)
        if (np.diff(scores[order]) == 0).any():
            order = np.lexsort((*(key for key in (clusters, weights) if key is not None), scores))
        if n_groups > 1:
            narrow = group.astype(np.int16) if n_groups < 2**15 else group  # numpy sorts short numbers by digits
            order = order[np.argsort(narrow[order], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups), dtype=np.int64)])
        weights = None if weights is None else weights[order]
        clusters = None if clusters is None else clusters[order]
        return cls(scores[order], offsets, groups, weights=weights, scale=scale, clusters=clusters)


def score_fold(rows: Rows, columns: NDArray[np.int64], ids: Ids | None, groups: Groups, name: str) -> FoldScores:
    """Score the true label of each held-out row."""
    return FoldScores.sort(scores_of(rows, columns, name), groups.ids_of_labels(ids, columns), groups)


def scores_of(rows: Rows, columns: NDArray[np.int64], name: str) -> Floats:
    """Score one label of each row; refuse rows that are no probabilities."""
    scores, first_bad, _, _ = label_scores(rows, columns)
    check_rows(rows.probabilities, first_bad, name, rows.normalize)
    return scores


Part = tuple[FoldScores, Groups]  # scores, and the cells that they knew


def join_folds(parts: Sequence[Part], groups: Groups, scale: Scale | None = None) -> FoldScores:
    """Return the scores of other rows under one model as those of one fold, cell by cell."""
    folds = [fold for fold, _ in parts]
    scores = np.concatenate([fold.unsorted for fold in folds])
    group = None if len(groups.names) == 1 and scale is None else joined_cells(parts, groups)
    if scale is None or group is None:
        return FoldScores.sort(scores, group, groups)
    return FoldScores.weighted(scores, weights_of(folds), group, groups, scale)


def joined_cells(parts: Sequence[Part], groups: Groups) -> NDArray[np.intp]:
    """Return the cell of each score among the cells that any part knew."""
    number_of = {name: number for number, name in enumerate(groups.names)}
    places = [np.array([number_of[name] for name in known.names], dtype=np.intp) for _, known in parts]
    return np.concatenate([place[fold.cell_of_score] for place, (fold, _) in zip(places, parts, strict=True)])


def clustered_folds(
    scores: Sequence[Floats],
    cells: Sequence[NDArray[np.intp]],
    words: Sequence[Words],
    groups: Groups,
    votes: Sequence[Floats] | None = None,
) -> tuple[tuple[FoldScores, ...], float]:
    """Return folds of scores with the masses that their clusters share out, and the mass of a new row."""
    shares = None if votes is None else np.concatenate(votes)
    weights, unit = masses_of(np.concatenate(cells), np.concatenate(words), shares)
    scale, starts = None if weights is None else Scale.of(weights), np.cumsum([len(one) for one in scores])[:-1]
    of_folds: Any = [None] * len(scores) if weights is None else np.split(weights, starts)
    every = zip(scores, of_folds, cells, words, strict=True)
    return tuple(FoldScores.weighted(own, mass, cell, groups, scale, word) for own, mass, cell, word in every), unit


def weights_of(folds: Sequence[FoldScores]) -> Floats:
    """Return the weight of each score, fold by fold."""
    return np.concatenate([fold.weights for fold in folds if fold.weights is not None])


def words_of(folds: Sequence[FoldScores]) -> Words:
    """Return the cluster of each score, fold by fold."""
    return np.concatenate([fold.clusters for fold in folds if fold.clusters is not None])
