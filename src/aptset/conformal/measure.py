"""The measure: sorted scores of held-out rows by fold and cell, with whole-number masses where rows count unalike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from aptset.conformal import importance
from aptset.conformal.clusters import Clusters, check_one_fold_each, count_clusters, masses_of
from aptset.conformal.importance import Scale, Whole
from aptset.conformal.thresholds import Thresholds
from aptset.core.groups import EVERYONE, Groups, Ids
from aptset.core.levels import Level, ranks_of
from aptset.core.matrix import check_rows
from aptset.kernels.counting import Calibrated, add_counts, index_of, p_values_of_rows
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
        if self._is_sorted:
            return float(self._scores[start + rank - 1])
        if self._n_selected >= _MOST_SELECTED * (len(self.offsets) - 1):
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
        return cls(*in_groups(scores, group, n_groups), groups, is_sorted=False)

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
    scale, starts = None if weights is None else Scale.of(weights), np.cumsum([len(part) for part in scores])[:-1]
    of_folds: Any = [None] * len(scores) if weights is None else np.split(weights, starts)
    entries = zip(scores, of_folds, cells, words, strict=True)
    return tuple(FoldScores.weighted(own, mass, cell, groups, scale, word) for own, mass, cell, word in entries), unit


def weights_of(folds: Sequence[FoldScores]) -> Floats:
    """Return the weight of each score, fold by fold."""
    return np.concatenate([fold.weights for fold in folds if fold.weights is not None])


def words_of(folds: Sequence[FoldScores]) -> Words:
    """Return the cluster of each score, fold by fold."""
    return np.concatenate([fold.clusters for fold in folds if fold.clusters is not None])


def join_groups(several: Sequence[Groups]) -> Groups:
    """Return the groups that are in any of several of one kind, in the order in which they come."""

    def union(names_of: Callable[[Groups], Iterable[Any]]) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(name for groups in several for name in names_of(groups)))

    first, names = several[0], union(lambda groups: groups.names)
    rows = None if first.rows is None else union(lambda groups: groups.rows or ())
    overlap = first.overlap
    if overlap is not None:
        overlap = overlap._replace(names=union(lambda groups: groups.overlap.names if groups.overlap else ()))
    return Groups(first.kind, names, first.bands, overlap, rows)


def join_measures(folds: Sequence[Sequence[Part]], groups: Groups, like: Measure) -> Measure:
    """Return scores of other rows, fold by fold, as if all rows had been calibrated at once."""
    if like.clusters is not None:
        return _join_clusters(folds, groups, like.clusters)
    scale = None
    if like.is_weighted:
        scale = Scale.of(weights_of([fold for parts in folds for fold, _ in parts]))
    joined = tuple(join_folds(parts, groups, scale) for parts in folds)
    return Measure(joined, groups, None, like.ratios, like.corrects)


def _join_clusters(folds: Sequence[Sequence[Part]], groups: Groups, like: Clusters) -> Measure:
    """Return the scores of other rows with the masses of all: a cluster may have rows in several parts of a fold."""
    of_folds = [[fold for fold, _ in parts] for parts in folds]
    words, cells = [words_of(several) for several in of_folds], [joined_cells(parts, groups) for parts in folds]
    check_one_fold_each(np.concatenate(words), np.repeat(np.arange(len(words)), [*map(len, words)]), like.noun)
    votes = None
    if like.are_votes:
        votes = [np.concatenate([np.ones(len(f)) if f.weights is None else f.weights for f in fs]) for fs in of_folds]
    scores = [np.concatenate([fold.unsorted for fold in several]) for several in of_folds]
    joined, unit = clustered_folds(scores, cells, words, groups, votes)
    return Measure(joined, groups, clusters=replace(like, unit=unit))


@final
@dataclass(frozen=True)
class Measure(Thresholds):
    """Scores of all folds. A label is in iff less mass than (1 - alpha)(total + own) is below its own score.

    How the folds combine when they are compared with a new row is the scheme's to say. ``model_mask`` says the mean
    of which models scores each fold, (folds, models); None: each fold has a model of its own. With masses,
    ``ratios`` has the weight of each label where labels decide; else rows bring their own. With ``corrects`` the
    probabilities of labels are multiplied by the ratios before anything is scored.
    """

    folds: tuple[FoldScores, ...]
    groups: Groups = EVERYONE
    model_mask: NDArray[np.bool_] | None = None
    ratios: Floats | None = None
    corrects: bool = False
    clusters: Clusters | None = None

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration rows, or of clusters, of each cell in each fold, (folds, cells)."""
        if self.clusters is not None:
            n_cells = len(self.groups.names)
            of_folds = [(fold.cell_of_score, words_of([fold])) for fold in self.folds]
            return np.array([count_clusters(cells, words, n_cells) for cells, words in of_folds])
        return np.array([np.diff(fold.offsets) for fold in self.folds])

    @property
    def of_models(self) -> Sequence[FoldScores | None]:
        """The scores that each model is compared with alone, if there is one model for each fold."""
        return self.folds if self.model_mask is None else [None] * self.model_mask.shape[1]

    @property
    def scores(self) -> Floats:
        """All scores, upward."""
        if len(self.folds) == 1 and self.groups.is_one:
            return self.folds[0].scores
        return np.sort(np.concatenate([fold.scores for fold in self.folds]), kind="stable")  # merges what is sorted

    def merge(self, *others: Measure) -> Measure:
        """Join the scores of one-fold calibrations, cell by cell."""
        parts = (self, *others)
        groups = join_groups([part.groups for part in parts])
        return join_measures([[(part.folds[0], part.groups) for part in parts]], groups, self)

    def pooled(self) -> FoldScores:
        """Return the scores of all folds as if they were one."""
        cell = np.concatenate([fold.cell_of_score for fold in self.folds])
        return FoldScores.sort(np.concatenate([fold.unsorted for fold in self.folds]), cell, self.groups)

    def find_by_cell(self, level: Level) -> Floats:
        """Work out the k-th smallest score of each cell; infinite if k exceeds n, and for a cell never seen."""
        if self.has_weights:
            self.check_offers("threshold")
        if self.groups.overlap is not None and self.overlapping is not None:
            numbers = np.arange(len(self.groups.names), dtype=np.int32)
            return np.append(self.overlapping.thresholds(numbers, self._plain(level)), np.inf)
        if self.clusters is not None and self.is_weighted:
            cells = np.arange(len(self.groups.names))[:, None]
            mass = self.test_mass(None, 1)
            assert mass is not None
            of_cells = self.by_alpha(level, cells, partial(self._of_mass, cells=cells, mass=mass))
            return np.append(of_cells[:, 0], np.inf)
        if not isinstance(level, Fraction):
            self.check_level_offered(level)
        pooled = self.folds[0] if len(self.folds) == 1 else self.pooled()
        *ranks, _ = ranks_of(level, self.groups, self.sizes.tolist())
        return np.array([*(pooled.of_rank(cell, rank) for cell, rank in enumerate(ranks)), np.inf])

    def p_values(self, rows: Rows, ids: Ids | None, mass: Whole | None) -> tuple[Floats, int]:
        """Return the p-value of every label under the only model, and the first bad row or -1."""
        (fold,) = self.folds
        if mass is None:
            return p_values_of_rows(rows, fold.calibrated, ids)
        counts, first_bad = fold.counted(rows.seeded(), ids)
        if first_bad >= 0:
            return np.empty(counts.shape), first_bad
        return importance.p_values(self, counts, ids, mass, fold.mass_below), first_bad
