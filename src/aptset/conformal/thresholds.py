"""What knows thresholds in cells: one interface, whatever makes them, and in words what a maker cannot offer.

A calibration is a measure and a set is a comparison of masses: p = (mass at or above the score + own mass) / (total +
own mass), and a label is in the set iff p > alpha. Behind :class:`Thresholds` stand the measure itself
(:mod:`aptset.conformal.measure`), a histogram and fixed thresholds (:mod:`aptset.conformal.histogram`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.conformal import importance
from aptset.conformal.clusters import Clusters, refuse_with_clusters
from aptset.conformal.importance import Scale, Whole, check_new_weights, refuse_with_weights
from aptset.conformal.linear_programme import Design, Programme, are_addable
from aptset.core.groupings import WITHOUT_P_VALUES, refuse_overlapping
from aptset.core.groups import ONE_CELL, Groups, Ids, of_one_group
from aptset.core.labels import Coded, hashable
from aptset.core.levels import Level, ranks_of, warn_if_too_few
from aptset.core.row_groups import check_group_values, check_same_kind
from aptset.kernels.formula import Floats
from aptset.kernels.p_value_rounding import by_counts
from aptset.kernels.rowhash import Words

_FEW = 2**12  # rows
_MOST_LEVELS = 256  # whose thresholds are kept


# What a maker of thresholds cannot offer, by verb, and why: with overlapping groups, with weights, without scores.
OVERLAPPING = {
    "p_values": ("p-values", WITHOUT_P_VALUES),
    "monitor": ("monitor", "Watch one group with a calibration of its own."),
}
WITH_WEIGHTS = {
    "threshold": "this asks for a threshold for all rows, and with weights every row has its own",
    "rank": "this asks for the rank of a threshold, and with weights there is none",
    "monitor": "a monitor counts misses by a law that does not hold with weights",
}
WITHOUT_SCORES = {"scores": "its scores", "p_values": "p-values", "merge": "what merging takes"}


def refuse_assurance(why: str) -> NoReturn:
    """Say where the coverage of one calibration has no known law."""
    raise ValueError(
        f"assurance must be left out here: {why} no law of the coverage of one calibration is known. Leave it out, or "
        "calibrate one model on rows that weigh alike (aptset.calibrate, or calibration='split')."
    )


def refuse_without_scores(verb: str) -> NoReturn:
    """Say that only thresholds were kept."""
    raise ValueError(
        f"this calibration cannot give {WITHOUT_SCORES[verb]}: it kept the thresholds of its levels, and no scores. "
        "Calibrate with resolution=2**-20 for p-values, every level and merging, or with aptset.calibrate where scores "
        "fit into memory."
    )


def level_of_rank(n: int, rank: int) -> float:
    """Return the level at which n scores have this rank: 1 - rank / (n + 1), rounded as p-values are.

    The nearest float may be below it, and sets at that level would be larger.
    """
    return float(by_counts(n, np.array([rank]))[0])


class ConditionalQuantile:
    """Thresholds of combinations of groups; each is worked out when a row first has it."""

    def __init__(self, groups: Groups, scores: Floats, offsets: NDArray[np.int64]) -> None:
        if not are_addable(scores):
            raise ValueError(
                f"conformity must return scores between -2^500 and 2^500 where groups overlap; got "
                f"{scores[np.abs(scores).argmax()]:.3g}. Thresholds are sums of scores: scale them down."
            )
        self._groups, self._scores, self._offsets = groups, scores, offsets
        self._programmes: dict[Fraction, Programme] = {}
        self._known: dict[tuple[Fraction, int], float] = {}

    def thresholds(self, ids: Ids, alpha: Fraction) -> Floats:
        """Return the threshold of each row from the number of its combination; infinite for groups never seen."""
        present = np.flatnonzero(np.bincount(ids + 1)) - 1
        cells = self._groups.combinations
        by_cell = np.full(len(cells) + 1, np.inf)  # last: of groups never seen
        by_cell[present] = [self._threshold(number, cells, alpha) for number in present.tolist()]
        return by_cell[ids]

    def _threshold(self, number: int, cells: list[Any], alpha: Fraction) -> float:
        if number < 0:
            return float("inf")
        known = self._known.get((alpha, number))  # threads that come at once work it out twice, nothing worse
        if known is None:
            if alpha not in self._programmes:
                self._programmes[alpha] = Programme(self._design, alpha)
            known = self._known[alpha, number] = self._programmes[alpha].threshold(self._flags([cells[number]])[0])
        return known

    def sizes_of(self, names: set[Any]) -> dict[Any, int]:
        """Return how many calibration rows are in each of some groups, and how many there are."""
        sizes = np.diff(self._offsets).tolist()
        pairs = list(zip(self._groups.names, sizes, strict=True))
        of_names = {name: sum(size for cell, size in pairs if name in cell) for name in sorted(names, key=str)}
        return {**of_names, "all rows": sum(sizes)}

    def _flags(self, cells: list[Any]) -> NDArray[np.bool_]:
        names = self._groups.overlap.names if self._groups.overlap else ()
        return np.array([[name in cell for name in names] for cell in map(set, cells)], dtype=np.bool_)

    @cached_property
    def _design(self) -> Design:
        return Design.of(self._flags(list(self._groups.names)), self._scores, self._offsets)


class Thresholds(ABC):
    """What knows thresholds in cells. The classes that make them are final, and override no method that is here.

    ``p_values`` and ``merge`` are None where a maker of thresholds cannot give them.
    """

    groups: Groups
    folds: Any = ()  # the scores of each fold; nothing where none were kept
    model_mask: NDArray[np.bool_] | None = None  # which models' mean scores each fold
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

    def check_level_offered(self, level: Level) -> None:
        """Refuse assurance where the coverage of one calibration has no known law, and levels of other cells."""
        if isinstance(level, Fraction):
            return
        if level.assurance is not None:
            why = "with weights or clusters" if self.is_weighted else ""
            why = "for several models" if len(self.folds) > 1 or self.model_mask is not None else why
            why = "with overlapping groups" if self.groups.overlaps else why
            if why:
                refuse_assurance(why)
        level.alphas(self.groups)

    def check_offers(self, verb: str) -> None:
        """Refuse a verb that a maker of thresholds does not offer, and say why in words."""
        if verb in OVERLAPPING:
            refuse_overlapping(self.groups.overlaps, *OVERLAPPING[verb])
        if verb in WITH_WEIGHTS and self.has_weights:
            refuse_with_weights(WITH_WEIGHTS[verb])
        if verb == "monitor" and self.clusters is not None and (self.is_weighted or not self.clusters.are_votes):
            refuse_with_clusters(self.clusters)
        if verb in WITHOUT_SCORES and getattr(self, verb) is None:
            refuse_without_scores(verb)

    def ranks(self, level: Level) -> list[int]:
        """Return for each cell, and last for one never seen, the count that a label must stay below."""
        self.check_offers("rank")
        self.check_level_offered(level)
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
            return len(np.unique(self.words))
        return sum(map(len, self.folds)) if self.folds else int(self.sizes.sum())

    @property
    def rows(self) -> int:
        """Number of calibration rows."""
        return self.n if self.clusters is None or self.clusters.are_votes else sum(map(len, self.folds))

    @cached_property
    def overlapping(self) -> ConditionalQuantile | None:
        """The scores by combinations of groups, where groups overlap."""
        if self.groups.overlap is None:
            return None
        return ConditionalQuantile(self.groups, self.folds[0].scores, self.folds[0].offsets)

    @property
    def promised_sizes(self) -> NDArray[np.int64]:
        """Number of calibration rows in each fold for each promise: overlapping groups have one together."""
        return self.sizes_of_folds if self.overlapping is None else self.sizes_of_folds.sum(axis=1, keepdims=True)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether calibration rows have masses of their own."""
        return bool(self.folds) and self.folds[0].weights is not None

    @cached_property
    def has_weights(self) -> bool:
        """Whether importance weights were given: promises are about weights that are right, and no rank is known."""
        return self.is_weighted and self.clusters is None

    @property
    def weights(self) -> Floats:
        """The weight of each score, fold by fold."""
        return np.concatenate([fold.weights for fold in self.folds])

    @property
    def words(self) -> Words:
        """The cluster of each score, fold by fold."""
        return np.concatenate([fold.clusters for fold in self.folds])

    @property
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
        if cells is ONE_CELL and len(levels) == 1:  # the usual case: one row must not wait for anything else
            return self.by_cell(levels[0])[None, None, :1].copy()
        if self.overlapping is not None:
            numbers = cells[:, 0]
            return np.array([self.overlapping.thresholds(numbers, self._plain(level)) for level in levels])[:, :, None]
        return np.array([*map(self.by_cell, levels)])[:, cells]

    def _of_mass(self, alpha: Fraction, cells: NDArray[Any], mass: Whole) -> Floats:
        of_level: Floats = importance.thresholds(self.folds[0], self.totals, [alpha], cells, mass)[0]
        return of_level

    def by_alpha(self, level: Level, cells: NDArray[Any], of_alpha: Callable[[Fraction], Any]) -> Any:
        """Return what one alpha for all cells gives, or where cells have their own, what that of each gives there."""
        self.check_level_offered(level)
        if isinstance(level, Fraction):
            return of_alpha(level)
        of_cells = level.alphas(self.groups)
        distinct = list(dict.fromkeys(of_cells))
        number = np.array([distinct.index(alpha) for alpha in of_cells])[cells]
        thresholds = of_alpha(distinct[0])
        for place, alpha in enumerate(distinct[1:], start=1):
            thresholds = np.where(number == place, of_alpha(alpha), thresholds)
        return thresholds

    def _plain(self, level: Level) -> Fraction:
        """Return the one alpha of a level, where there can be no other."""
        self.check_level_offered(level)
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

    def by_label(self, level: Level) -> list[float]:
        """Return the threshold of each label with masses, where labels alone decide it."""
        if self.ratios is None or self.groups.by_row:
            self.check_offers("threshold")
        ids = np.zeros(1, dtype=np.int32) if self.groups.is_one else None
        of_labels = self.thresholds([level], self.groups.index(ids), self.test_mass(None, 1))[0, 0]
        return list(map(float, of_labels))

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
                self.check_level_offered(level)
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
            warn_if_too_few(sizes, levels, self.groups, self.size_of_group, inner, counted)
        return ids, mass

    @property
    def counted(self) -> str:
        """What sizes count, in words."""
        return "samples" if self.clusters is None else self.clusters.nouns

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
