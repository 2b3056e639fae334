"""The interface of calibrations: which rows train and which calibrate, how folds combine, and what is promised."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import count_clusters
from aptset.conformal.measure import Fold
from aptset.conformal.thresholds import Thresholds, refuse_assurance
from aptset.core.groups import EVERYONE, Groups, Ids
from aptset.core.levels import CellLevel, Level, rank_at
from aptset.core.validate import warn_caller
from aptset.kernels.rowhash import Words


class LinearBound(NamedTuple):
    """An upper bound of the chance of a miss, as a function of the input level."""

    constant: Fraction
    slope: Fraction

    def at(self, alpha: Fraction) -> Fraction:
        """Return the bound at an input level."""
        return self.constant + self.slope * alpha


class FoldSizes(NamedTuple):
    """Rows of one group, fold by fold; folds without a row of it are left out.

    ``alike`` has (rows of the group in a fold, number of folds) for each kind of fold: folds are of one kind if they
    hold the same number of rows of *every* group, since those are what the other models train on.
    """

    held_out: tuple[int, ...]
    alike: tuple[tuple[int, int], ...]

    @property
    def n(self) -> int:
        """Rows of the group."""
        return sum(self.held_out)


def sizes_by_group(sizes: NDArray[np.int64], of_folds: NDArray[np.int64] | None = None) -> list[FoldSizes]:
    """Return the sizes of each group that has a row, from a matrix (folds, groups).

    Clusters may have rows in several groups: ``of_folds`` has how many each fold holds, which folds of one kind share.
    """
    alike = sizes if of_folds is None else np.column_stack([sizes, of_folds])
    kinds, counts = np.unique(alike, axis=0, return_counts=True) if len(sizes) > 1 else (alike, np.ones(1, np.int64))
    kinds = kinds[:, : sizes.shape[1]]
    splits = []
    for column, of_kinds in zip(sizes.T, kinds.T, strict=True):
        has_some = of_kinds > 0
        pairs = zip(of_kinds[has_some].tolist(), counts[has_some].tolist(), strict=True)
        if has_some.any():
            splits.append(FoldSizes(tuple(column[column > 0].tolist()), tuple(pairs)))
    return splits


def cross_lines(sizes: FoldSizes) -> list[LinearBound]:
    """Theorem 2, its second term for one kind of folds after the other; with one kind only it is the paper's.

    The first term holds for folds of any sizes, since the rule is a weighted mean of the folds' p-values, and twice a
    mean of p-values is a p-value.
    """
    n, k = sizes.n, len(sizes.held_out)
    lines = [LinearBound(Fraction(2 * (k - 1), n + k), Fraction(2))]
    for m, folds in sizes.alike:
        others = m * (folds + 1)
        lines.append(LinearBound(Fraction(m - 1, others), Fraction(2 * (n + m), others)))
    return lines


def minimax_lines(sizes: FoldSizes) -> list[LinearBound]:
    """Theorem S1, P(miss) <= alpha for one row per fold, and what its proof gives for larger folds of one kind.

    The set holds the CV+ set, and so keeps the promises of that too.
    """
    n, lines = sizes.n, cross_lines(sizes)
    for m, folds in sizes.alike:
        others = m * (folds + 1)
        lines.append(LinearBound(Fraction(m - 1, others), Fraction(n + 1, others)))
    return lines


def bound(lines: Sequence[LinearBound], alpha: Fraction) -> Fraction:
    """Return the coverage that the best of the lines promises; 0 if there is none."""
    return 1 - min((line.at(alpha) for line in lines), default=Fraction(1))


def input_level(lines: Sequence[LinearBound], alpha: Fraction) -> Fraction:
    """Return the input level at which the promise is 1 - alpha; not positive if there is none."""
    return max(((alpha - line.constant) / line.slope for line in lines), default=Fraction(0))


class Scheme(Protocol):
    """Which rows train and which calibrate, how folds combine, and what the theorem promises.

    One whose models are those inside a fitted ensemble says ``opens_ensemble = True``, one in which every new row is
    scored together with all others ``scores_with_new_row = True``; others need not answer.
    """

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def combine(self) -> type[Tally]:
        """How what the folds say about a new row becomes one count."""
        ...

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return the folds; every row that calibrates is in the held-out part of exactly one."""
        ...

    @property
    def caveat(self) -> str:
        """Why no theorem speaks of these folds, e.g. since they look at the labels; empty if one does."""
        ...

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Return what the theorem says of folds of these sizes: P(miss) <= constant + slope * alpha, all at once."""
        ...


def opens_ensemble(scheme: Scheme) -> bool:
    """Tell whether one ensemble is fitted, and its members are the models."""
    return bool(getattr(scheme, "opens_ensemble", False))


def is_full(scheme: Scheme) -> bool:
    """Tell whether rows are scored anew together with every new one."""
    return bool(getattr(scheme, "scores_with_new_row", False))


FOLDS_WITH_WEIGHTS = "since no theorem is known for folds of several rows with weights"
_BLIND_FOLDS = (
    "CVPlus(n_folds=10), KFold, or, if its folds depend on neither X nor y, PredefinedSplit(fold_of_each_row)"
)


def warn_no_promise(caveat: str) -> None:
    """Say once that a guarantee of 0 means that nothing is proven."""
    if caveat:
        way_out = "a split or the jackknife+" if caveat == FOLDS_WITH_WEIGHTS else _BLIND_FOLDS
        text = f"nothing is promised: {caveat.removeprefix('since ')}. For a promise use {way_out}."
        warn_caller(text)


class Promises:
    """The promises of a scheme for folds whose sizes, by group, are known.

    Parameters
    ----------
    scheme : Scheme
        What the theorem says of one group.
    sizes : array of int, shape (folds, groups)
        Rows that each fold holds out in each group.
    is_weighted : bool
        Whether rows have weights: promises are then about weights that are right.
    cells : Groups
        The groups, by whose names levels may come.
    n_clusters : array of int, shape (folds,), optional
        How many clusters each fold holds out, where rows belong together; ``sizes`` then count clusters, too, and the
        theorems have clusters in the place of rows (Lee, Barber and Willett 2023 for one cluster per fold).
    """

    def __init__(
        self,
        scheme: Scheme,
        sizes: NDArray[np.int64],
        is_weighted: bool = False,
        cells: Groups = EVERYONE,
        n_clusters: NDArray[np.int64] | None = None,
    ) -> None:
        self.scheme, self.is_weighted, self.has_clusters = scheme, is_weighted, n_clusters is not None
        self._is_split, self._leaves_one_out = len(sizes) == 1, bool((sizes.sum(axis=1) == 1).all())
        self.groups: list[FoldSizes] = sizes_by_group(sizes, n_clusters)
        self._cells, self._filled = cells, np.flatnonzero(sizes.any(axis=0)).tolist()

    @classmethod
    def of(cls, scheme: Scheme, held_out: Thresholds) -> Promises:
        """Return what is promised of scores that were held out."""
        n_clusters = None
        if held_out.clusters is not None:
            n_clusters = np.array([len(np.unique(fold.clusters)) for fold in held_out.folds])
        return cls(scheme, held_out.promised_sizes, held_out.has_weights, held_out.groups, n_clusters)

    @classmethod
    def before_fit(
        cls,
        scheme: Scheme,
        folds: list[Fold],
        groups: Groups,
        ids: Ids | None,
        columns: NDArray[np.int64],
        is_weighted: bool = False,
        clusters: Words | None = None,
    ) -> Promises:
        """Return what will be promised once these folds are fitted."""
        group = groups.ids_of_labels(ids, columns)
        if groups.overlaps:  # the promise is one for all combinations
            group, groups = np.zeros_like(group), EVERYONE
        held_out = [fold.held_out for fold in folds]
        if np.bincount(np.concatenate(held_out), minlength=1).max() > 1:  # several judges, one calibration
            held_out = [np.arange(len(columns))]
        if clusters is not None:
            sizes = np.array([count_clusters(group[rows], clusters[rows], len(groups.names)) for rows in held_out])
            return cls(scheme, sizes, False, groups, np.array([len(np.unique(clusters[rows])) for rows in held_out]))
        sizes = np.array([np.bincount(group[rows], minlength=len(groups.names)) for rows in held_out])
        return cls(scheme, sizes, is_weighted, groups)

    @property
    def caveat(self) -> str:
        """Why no theorem speaks of the folds; empty if one does."""
        if self.scheme.caveat or not self.is_weighted or self._is_split or self._leaves_one_out:
            return self.scheme.caveat
        return FOLDS_WITH_WEIGHTS

    @property
    def lines(self) -> list[list[LinearBound]]:
        """What is proven of each group; nothing where no theorem speaks of the folds."""
        if self.is_weighted and not self.caveat:  # a split, or the weighted jackknife+ (Prinster et al., 2022)
            return [[LinearBound(Fraction(0), Fraction(1 if self._is_split else 2))] for _ in self.groups]
        return [[] if self.caveat else self.scheme.lines(sizes) for sizes in self.groups]

    def coverage(self, level: Level) -> Fraction:
        """Return the coverage promised in every group at an input level; groups too small for it get every label."""
        return max(Fraction(0), min(self._bounds(level)))

    def _bounds(self, level: Level) -> list[Fraction]:
        """Return the coverage promised in each group that has a row."""
        if isinstance(level, Fraction):
            alphas = [level] * len(self.groups)
        else:  # the promise of overlapping groups is one for all
            of_cells = level.alphas(self._cells)
            alphas = [of_cells[cell] for cell in self._filled]
        return [
            bound(lines, alpha) if self.is_weighted or rank_at(sizes.n, alpha) <= sizes.n else Fraction(1)
            for alpha, lines, sizes in zip(alphas, self.lines, self.groups, strict=True)
        ]

    def by_name(self, level: Level) -> float | dict[Any, float]:
        """Return the promise at a level; where cells have levels of their own, that to each cell by its name."""
        if isinstance(level, Fraction) or isinstance(level.alpha, Fraction):
            return float(self.coverage(level))
        promises = dict.fromkeys(self._cells.names, 1.0)  # without a row, a label is in every set
        names = [self._cells.names[cell] for cell in self._filled]
        bounds = [float(max(Fraction(0), bounded)) for bounded in self._bounds(level)]
        return promises | dict(zip(names, bounds, strict=True))

    def reason_of_nothing(self, level: Level) -> str:
        """Return why nothing is promised, where that is so because no theorem speaks of the folds; else nothing."""
        return "" if self.coverage(level) else self.caveat

    def check_assurance(self, level: Level) -> None:
        """Refuse assurance before anything is fitted, where no law of the coverage of one calibration is known."""
        if isinstance(level, CellLevel):
            level.alphas(self._cells)
            if level.assurance is not None and (not self._is_split or self.scheme.combine.holds_all_models):
                refuse_assurance("for several models")
            if level.assurance is not None and (self.is_weighted or self.has_clusters):
                refuse_assurance("with weights or clusters")

    def input_level(self, alpha: Fraction) -> Fraction:
        """Return an input level whose promise is 1 - alpha; refuse if there is none.

        It is the decimal of a float, so that p-values compared with that float give the sets to the last label.
        """
        levels = [input_level(lines, alpha) for lines in self.lines]
        best = _decimal_not_above(min((level for level in levels if level > 0), default=Fraction(0)))
        if best > 0 and self.coverage(best) >= 1 - alpha:
            return best
        too_few = f"{self.scheme.name} with so few samples and folds promises less at every input level"
        why = self.scheme.caveat or too_few
        raise ValueError(
            f"level='guaranteed' must be able to promise coverage {float(1 - alpha):g}; {why}. "
            "Use more samples, other folds, calibration='split', or level='nominal'."
        )


def _decimal_not_above(exact: Fraction) -> Fraction:
    """Return the largest decimal of a float that is not above an exact number."""
    value = float(exact)
    decimal = Fraction(repr(value))
    return decimal if decimal <= exact else Fraction(repr(float(np.nextafter(value, 0.0))))
