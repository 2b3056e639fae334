"""The measure: sorted scores of held-out rows by fold and cell, with whole-number masses where rows do not count alike.

A calibration is a measure and a set is a comparison of masses: p = (mass at or above the score + own mass) / (total +
own mass), and a label is in the set iff p > alpha. Whatever knows thresholds stands behind :class:`Thresholds`: the
measure here, a histogram and fixed thresholds in :mod:`aptset.conformal.histogram`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from aptset.conformal import importance
from aptset.conformal.checks import check_level_offered, check_offers
from aptset.conformal.clusters import Clusters, check_one_fold_each, count_clusters
from aptset.conformal.fold_scores import (
    FoldScores,
    Part,
    clustered_folds,
    join_folds,
    joined_cells,
    weights_of,
    words_of,
)
from aptset.conformal.importance import Scale, Whole, check_new_weights
from aptset.conformal.linear_programme import ConditionalQuantile
from aptset.core.groups import EVERYONE, ONE_CELL, Groups, Ids, Overlap, of_one_group
from aptset.core.labels import Coded, hashable
from aptset.core.levels import Level, ranks_of, warn_if_too_few
from aptset.core.row_groups import check_group_values, check_same_kind
from aptset.kernels.counting import p_values_of_rows
from aptset.kernels.formula import Floats
from aptset.kernels.rows import Rows

_FEW = 2**12  # rows
_MOST_LEVELS = 256  # whose thresholds are kept


def join_groups(several: Sequence[Groups]) -> Groups:
    """Return the groups that are in any of several of one kind, in the order in which they come."""
    names = tuple(dict.fromkeys(name for groups in several for name in groups.names))
    rows = None if several[0].rows is None else tuple(dict.fromkeys(r for groups in several for r in groups.rows or ()))
    overlap = join_overlaps([groups.overlap for groups in several])
    return Groups(several[0].kind, names, several[0].bands, overlap, rows)


def join_overlaps(several: Sequence[Overlap | None]) -> Overlap | None:
    """Return the groups that overlap in any of several, which come from the same columns."""
    first = several[0]
    every = (name for overlap in several if overlap is not None for name in overlap.names)
    return None if first is None else first._replace(names=tuple(dict.fromkeys(every)))


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
    every = [[fold for fold, _ in parts] for parts in folds]
    words, cells = [words_of(several) for several in every], [joined_cells(parts, groups) for parts in folds]
    check_one_fold_each(np.concatenate(words), np.repeat(np.arange(len(words)), [*map(len, words)]), like.noun)
    votes = None
    if like.are_votes:
        votes = [np.concatenate([np.ones(len(f)) if f.weights is None else f.weights for f in fs]) for fs in every]
    scores = [np.concatenate([fold.unsorted for fold in several]) for several in every]
    joined, unit = clustered_folds(scores, cells, words, groups, votes)
    return Measure(joined, groups, clusters=replace(like, unit=unit))


class Thresholds(ABC):
    """What knows thresholds in cells. The classes that make them are final, and override no method that is here.

    ``p_values`` and ``merge`` are None where a maker of thresholds cannot give them.
    """

    groups: Groups
    folds: Any = ()  # the scores of each fold; nothing where none were kept
    ratios: Floats | None = None  # the weight of each label, where labels decide it
    corrects: bool = False  # whether columns of probabilities are multiplied by the ratios
    clusters: Clusters | None = None  # where rows belong together
    p_values: Any = None  # from rows, ids and test mass to the p-value of every label, and the first bad row or -1
    merge: Any = None  # with others of the same kind, of other rows

    @property
    @abstractmethod
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration rows of each cell in each fold, (folds, cells)."""

    @property
    @abstractmethod
    def scores(self) -> Floats:
        """All scores, upward."""

    @abstractmethod
    def find_by_cell(self, level: Level) -> Floats:
        """Work out the threshold of each cell, and last of one never seen."""

    def ranks(self, level: Level) -> list[int]:
        """Return for each cell, and last for one never seen, the count that a label must stay below."""
        check_offers(self, "rank")
        check_level_offered(self, level)
        return ranks_of(level, self.groups, self.sizes.tolist())

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of calibration rows in each cell."""
        total: NDArray[np.int64] = self.sizes_of_folds.sum(axis=0)
        return total

    @cached_property
    def size_of_group(self) -> dict[Any, int]:
        """Number of calibration rows in each cell, by its name."""
        return dict(zip(self.groups.names, self.sizes.tolist(), strict=True))

    @cached_property
    def n(self) -> int:
        """Number of calibration rows; of clusters, where rows belong together."""
        if self.clusters is not None:
            return len(np.unique(words_of(self.folds)))
        return sum(map(len, self.folds)) if self.folds else int(self.sizes.sum())

    @property
    def rows(self) -> int:
        """Number of calibration rows."""
        return self.n if self.clusters is None or self.clusters.are_votes else sum(map(len, self.folds))

    @cached_property
    def overlapping(self) -> ConditionalQuantile | None:
        """The scores by combinations of groups, where groups overlap."""
        return ConditionalQuantile(self.groups, self.folds[0]) if self.groups.overlaps else None

    @property
    def promised_sizes(self) -> NDArray[np.int64]:
        """Number of calibration rows in each fold for each promise: overlapping groups have one together."""
        return self.sizes_of_folds if self.overlapping is None else self.sizes_of_folds.sum(axis=1, keepdims=True)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether calibration rows have masses of their own."""
        return bool(self.folds) and self.folds[0].weights is not None

    @property
    def has_weights(self) -> bool:
        """Whether importance weights were given: promises are about weights that are right, and no rank is known."""
        return self.is_weighted and self.clusters is None

    @property
    def weights(self) -> Floats:
        """The weight of each score, fold by fold."""
        return weights_of(self.folds)

    @cached_property
    def factors(self) -> Floats | None:
        """What columns of probabilities are multiplied by; None: nothing."""
        return self.ratios if self.corrects else None

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The mass of each cell, and 0 for one never seen."""
        sums = [np.diff(fold.cumulative[fold.offsets]) for fold in self.folds if fold.cumulative is not None]
        return np.append(np.sum(sums, axis=0), 0)

    @cached_property
    def effective_sizes(self) -> Floats:
        """So many rows of equal mass would say as much about the coverage, in each cell: W^2 / sum w^2."""
        if not self.has_weights:
            return self.sizes.astype(np.float64)
        weights = self.weights / self._scale.largest
        cell = np.concatenate([fold.cell_of_score for fold in self.folds])
        first, second = (np.bincount(cell, w, minlength=len(self.groups.names)) for w in (weights, weights**2))
        return np.divide(first**2, second, out=np.zeros(len(first)), where=second > 0)

    @property
    def _scale(self) -> Scale:
        scale: Scale = self.folds[0].scale
        return scale

    def test_mass(self, weights: Any, n_rows: int) -> Whole | None:
        """Return the mass that new rows, (rows, 1), or labels, (1, labels), bring; None where each brings one."""
        if not self.has_weights:
            if weights is not None:
                check_new_weights(weights, n_rows, are_wanted=False)
            if self.clusters is None or not self.is_weighted:
                return None
            return self._scale.whole(np.array([[self.clusters.unit]]))
        own = check_new_weights(weights, n_rows, self.ratios is None, "with label_weights, which say it all")
        if own is not None:
            return self._scale.whole(own)[:, None]
        assert self.ratios is not None
        return self._scale.whole(self.ratios)[None, :]

    def thresholds(self, levels: Sequence[Level], cells: NDArray[Any], mass: Whole | None = None) -> Floats:
        """Return the thresholds of cells, an index that broadcasts: (levels, 1 or rows, 1 or labels)."""
        if mass is not None and self.clusters is None:
            of_mass = partial(self._of_mass, cells=cells, mass=mass)
            return np.array([self.by_alpha(level, cells, of_mass) for level in levels])
        if self.overlapping is not None:
            numbers = cells[:, 0]
            return np.array([self.overlapping.thresholds(numbers, self._plain(level)) for level in levels])[:, :, None]
        if cells is ONE_CELL and len(levels) == 1:  # the usual case: one row must not wait for anything else
            return self.by_cell(levels[0])[None, None, :1].copy()
        return np.array([*map(self.by_cell, levels)])[:, cells]

    def _of_mass(self, alpha: Fraction, cells: NDArray[Any], mass: Whole) -> Floats:
        of_level: Floats = importance.thresholds(self.folds[0], self.totals, [alpha], cells, mass)[0]
        return of_level

    def by_alpha(self, level: Level, cells: NDArray[Any], of_alpha: Callable[[Fraction], Any]) -> Any:
        """Return what one alpha for all cells gives, or where cells have their own, what that of each gives there."""
        check_level_offered(self, level)
        if isinstance(level, Fraction):
            return of_alpha(level)
        of_cells = level.alphas(self.groups)
        distinct = list(dict.fromkeys(of_cells))
        number = np.array([distinct.index(alpha) for alpha in of_cells])[cells]
        made = of_alpha(distinct[0])
        for place, alpha in enumerate(distinct[1:], start=1):
            made = np.where(number == place, of_alpha(alpha), made)
        return made

    def _plain(self, level: Level) -> Fraction:
        """Return the one alpha of a level, where there can be no other."""
        check_level_offered(self, level)
        return level if isinstance(level, Fraction) else level.alphas(self.groups)[-1]

    def by_cell(self, level: Level) -> Floats:
        """Return the threshold of each cell, and last of one never seen; infinite where there are too few rows."""
        known = self._by_cell.get(level)
        if known is None:
            known = self.find_by_cell(level)
            known.flags.writeable = False
            if len(self._by_cell) < _MOST_LEVELS:
                self._by_cell[level] = known
        return known

    @cached_property
    def _by_cell(self) -> dict[Level, Floats]:
        """Those that were asked for: a level comes again with every batch."""
        return {}

    def place(
        self, groups: Any, weights: Any, n_rows: int, levels: Sequence[Level], inner: Sequence[Level] | None = None
    ) -> tuple[Ids | None, Whole | None]:
        """Return the group of each new row and the mass that rows bring; say if samples are too few for the levels.

        ``inner`` are the input levels at which calibration runs, where they are not the levels that were asked for.
        """
        for level in levels:
            if not isinstance(level, Fraction):
                check_level_offered(self, level)
        if groups is None and self.groups.is_one:
            few = n_rows < _FEW  # the short way of small calls
            ids: Ids | None = np.zeros(n_rows, dtype=np.int32) if few else of_one_group(n_rows, np.int32)
            sizes = self.size_of_group
        else:
            ids, sizes = self.resolve_groups(groups, n_rows)
        mass = self.test_mass(weights, n_rows) if self.is_weighted or weights is not None else None
        if levels and mass is not None and self.has_weights:
            importance.warn_of_weights(self, sizes, ids, levels, mass)
        elif levels:
            counted = "samples" if self.clusters is None else self.counted
            warn_if_too_few(sizes, levels, self.groups, inner, self.n_filled, counted)
        return ids, mass

    @property
    def counted(self) -> str:
        """What sizes count, in words."""
        return "samples" if self.clusters is None else self.clusters.nouns

    @cached_property
    def n_filled(self) -> int:
        """Number of cells that have calibration rows."""
        return int(np.count_nonzero(self.sizes))

    def index(self, ids: Ids | None) -> NDArray[np.integer[Any]]:
        """Return the cell of every label of every row, as :meth:`Groups.index` does."""
        return ONE_CELL if self.groups.is_one else self.groups.index(ids)

    def resolve_groups(self, values: Any, n_rows: int) -> tuple[Ids | None, dict[Any, int]]:
        """Return the group of each new row, and the number of calibration rows of each group that they can be in."""
        if values is None and self.groups.is_one:
            return of_one_group(n_rows, np.int32), self.size_of_group
        checked = None if values is None else check_group_values(None, values, None, n_rows, self.groups)
        check_same_kind(self.groups.by_row, checked)
        ids, sizes = self.groups.ids(checked, n_rows), self.sizes.tolist()
        if checked is None or ids is None:
            return ids, self.size_of_group
        if self.overlapping is not None:
            assert isinstance(checked, Coded)
            return ids, self.overlapping.sizes_of({name for cell in checked.distinct() for name in cell})
        seen = {self.groups.names[number]: sizes[number] for number in self.groups.present(ids)}
        unknown = np.flatnonzero(ids < 0)
        others = checked.some(unknown).distinct() if isinstance(checked, Coded) else (checked[r] for r in unknown)
        never = {hashable(other.item() if isinstance(other, np.generic) else other): 0 for other in others}
        return ids, seen | never


@final
@dataclass(frozen=True)
class Measure(Thresholds):
    """Scores of all folds. A label is in iff less mass than (1 - alpha)(total + own) is below its own score.

    How the folds combine when they are compared with a new row is the scheme's to say. ``judges`` says which models'
    mean judges each fold, (folds, models); None: each fold has a model of its own. With masses, ``ratios`` has the
    weight of each label where labels decide; else rows bring their own. With ``corrects`` the probabilities of labels
    are multiplied by the ratios before anything is scored.
    """

    folds: tuple[FoldScores, ...]
    groups: Groups = EVERYONE
    judges: NDArray[np.bool_] | None = None
    ratios: Floats | None = None
    corrects: bool = False
    clusters: Clusters | None = None

    @property
    def sizes_of_folds(self) -> NDArray[np.int64]:
        """Number of calibration rows, or of clusters, of each cell in each fold, (folds, cells)."""
        if self.clusters is not None:
            n_cells = len(self.groups.names)
            return np.array([count_clusters(fold.cell_of_score, words_of([fold]), n_cells) for fold in self.folds])
        return np.array([np.diff(fold.offsets) for fold in self.folds])

    @property
    def of_models(self) -> Sequence[FoldScores | None]:
        """The scores that each model judges alone, if models do."""
        return self.folds if self.judges is None else [None] * self.judges.shape[1]

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
        if len(self.folds) == 1:
            return self.folds[0]
        cell = np.concatenate([fold.cell_of_score for fold in self.folds])
        return FoldScores.sort(np.concatenate([fold.unsorted for fold in self.folds]), cell, self.groups)

    def find_by_cell(self, level: Level) -> Floats:
        """Work out the k-th smallest score of each cell; infinite if k exceeds n, and for a cell never seen."""
        check_offers(self, "threshold")
        if self.overlapping is not None:
            numbers = np.arange(len(self.groups.names), dtype=np.int32)
            return np.append(self.overlapping.thresholds(numbers, self._plain(level)), np.inf)
        if self.clusters is not None and self.is_weighted:
            cells = np.arange(len(self.groups.names))[:, None]
            mass = self.test_mass(None, 1)
            assert mass is not None
            of_cells = self.by_alpha(level, cells, partial(self._of_mass, cells=cells, mass=mass))
            return np.append(of_cells[:, 0], np.inf)
        pooled = self.pooled()
        *ranks, _ = self.ranks(level)
        return np.array([*(pooled.of_rank(cell, rank) for cell, rank in enumerate(ranks)), np.inf])

    def by_label(self, level: Level) -> list[float]:
        """Return the threshold of each label with masses, where labels alone decide it."""
        if self.ratios is None or self.groups.by_row:
            check_offers(self, "threshold")
        ids = np.zeros(1, dtype=np.int32) if self.groups.is_one else None
        of_labels: list[float] = self.thresholds([level], self.groups.index(ids), self.test_mass(None, 1))[
            0, 0
        ].tolist()
        return of_labels

    def p_values(self, rows: Rows, ids: Ids | None, mass: Whole | None) -> tuple[Floats, int]:
        """Return the p-value of every label under the only model, and the first bad row or -1."""
        (fold,) = self.folds
        if mass is None:
            return p_values_of_rows(rows, fold.calibrated, ids)
        counts, first_bad = fold.counted(rows.seeded(), ids)
        if first_bad >= 0:
            return np.empty(counts.shape), first_bad
        return importance.p_values(self, counts, ids, mass, fold.mass_below), first_bad
