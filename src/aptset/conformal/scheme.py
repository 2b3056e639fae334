"""The seam of calibrations: which rows train and which calibrate, how folds combine, and what is promised."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.fold_scores import Fold


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
