"""Turn the probabilities of new rows, fold by fold, into counts, sets and p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from aptset.conformal import importance
from aptset.conformal.importance import Whole
from aptset.conformal.measure import Fold, FoldScores, Measure
from aptset.conformal.thresholds import Thresholds
from aptset.core.groups import Groups, Ids
from aptset.core.levels import Level
from aptset.kernels.counting import Calibrated, add_counts, p_values_of
from aptset.kernels.formula import Floats
from aptset.kernels.membership import Set
from aptset.kernels.rows import Rows

# Adding and subtracting this rounds a probability to 2^-36: sums over a hundred thousand folds are then exact, so the
# mean does not depend on the order in which workers deliver.
_MEAN_GRID = 2.0**16

CHUNK_CELLS = 2**22  # labels of new rows that are counted at a time


def on_mean_grid(probabilities: NDArray[np.generic]) -> Floats:
    """Round probabilities so that their sums over folds are exact."""
    return (probabilities.astype(np.float64) + _MEAN_GRID) - _MEAN_GRID


def plain_mass(rows: Rows) -> Floats:
    """Return the probabilities of rows so that sums over models are exact, before a score raises them."""
    plain = replace(rows, formula=replace(rows.formula, power=1.0))
    return on_mean_grid(plain.block(0, len(rows)).probabilities)


# From probabilities of all calibration rows to the scores of their labels, and the group of each row.
ScoreAll = Callable[[Floats], tuple[Floats, NDArray[np.intp]]]


class Tally:
    """What the folds seen so far say about every label of some new rows: here the sum of their counts.

    A scheme names the tally that combines its folds. One that combines them otherwise overrides ``count``, ``merge``
    and ``finish``, for new rows, and where models do not judge alone ``remember`` and ``assemble`` as well, for
    calibration rows.
    """

    holds_all_models: ClassVar[bool] = False  # whether nothing is counted before every model has spoken

    def __init__(self, n_rows: int, n_classes: int) -> None:
        self.counts: NDArray[Any] = np.zeros((n_rows, n_classes), dtype=np.int32)
        self.mass = np.zeros((n_rows, n_classes))  # the sum of the models' probabilities: it orders the labels of a set

    def add(self, fold: Any, rows: Rows, ids: Ids | None) -> int:
        """Take in the probabilities that the model of one fold gives the new rows; return the first bad row or -1."""
        first_bad = self.count(fold, rows, ids)
        if first_bad < 0:
            self.mass += plain_mass(rows)
        return first_bad

    def count(self, fold: FoldScores, rows: Rows, ids: Ids | None) -> int:
        """Count the fold's scores below those of the new rows under its model; return the first bad row or -1."""
        self.counts, first_bad = fold.added(rows, ids, self.counts)
        return first_bad

    def add_models(self, folds: Sequence[FoldScores], rows: Rows, ids: Ids | None) -> int:
        """Take in several models at once, whose rows follow one another; return the first bad row or -1.

        Each model is a group of rows of its own, so that one pass counts for all of them.
        """
        shape = (len(folds), *self.mass.shape)
        if type(self) is not Tally or not folds[0].groups.is_one or folds[0].weights is not None:
            pieces = [rows.block(start, start + shape[1]) for start in range(0, len(rows), shape[1])]
            bads = [self.add(fold, piece, ids) for fold, piece in zip(folds, pieces, strict=True)]
            return next((model * shape[1] + bad for model, bad in enumerate(bads) if bad >= 0), -1)
        counts, numbers = np.zeros(rows.probabilities.shape, np.int32), np.arange(len(folds), dtype=np.int32)
        offsets = np.concatenate([[0], np.cumsum([len(fold) for fold in folds], dtype=np.int64)])
        scores = Calibrated(np.concatenate([fold.scores for fold in folds]), offsets)
        first_bad = add_counts(rows, scores, np.repeat(numbers, shape[1]), counts)
        if first_bad < 0:
            self.counts += counts.reshape(shape).sum(axis=0, dtype=np.int32)
            self.mass += plain_mass(rows).reshape(shape).sum(axis=0)
        return first_bad

    def merge(self, other: Self) -> None:
        """Take in what another tally saw of the same rows in other folds, which come later."""
        self.counts = self.counts + other.counts  # which are wider where they are weights
        self.mass += other.mass

    def finish(self, held_out: Measure, ids: Ids | None) -> NDArray[Any]:
        """Return the counts over all folds."""
        return self.counts

    @staticmethod
    def remember(scores: FoldScores, rows: Rows) -> Any:
        """Return what must be remembered of a fold's calibration rows: their scores under its model."""
        return scores

    @staticmethod
    def assemble(kept: Sequence[Any], folds: Sequence[Fold], n_rows: int, score: ScoreAll, groups: Groups) -> Measure:
        """Put together what was remembered of all folds."""
        return Measure(tuple(kept), groups)

    def p_values(self, held_out: Measure, ids: Ids | None, mass: Whole | None = None) -> Floats:
        """Return the share of n + 1 scores, the label's own among them, that are at least as large as the label's."""
        counts = self.finish(held_out, ids)
        if mass is None:
            return _by_group(counts, held_out, ids)
        return importance.p_values(held_out, counts, ids, mass, lambda below, _: below)

    def masks(
        self,
        held_out: Measure,
        ids: Ids | None,
        alphas: Sequence[Level],
        allow_empty: bool,
        mass: Whole | None = None,
    ) -> Iterator[NDArray[np.bool_]]:
        """Yield which labels are in the set at each level."""
        counts = self.finish(held_out, ids)
        for alpha in alphas:
            mask = _inside(counts, held_out, ids, mass, alpha)
            if not allow_empty:
                empty = np.flatnonzero(~mask.any(axis=1))
                mask[empty, self.mass[empty].argmax(axis=1)] = True
            yield mask

    def sets(
        self,
        held_out: Measure,
        ids: Ids | None,
        alphas: Sequence[Level],
        allow_empty: bool,
        mass: Whole | None = None,
    ) -> list[Set]:
        """Return row pointers and members of the sets at each level, labels by their mean probability downward."""
        sets: list[Set] = []
        for mask in self.masks(held_out, ids, alphas, allow_empty, mass):
            row, column = np.nonzero(mask)
            order = np.lexsort((-self.mass[row, column], row))
            indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1), dtype=np.int64)])
            sets.append((indptr, column[order].astype(np.int32)))
        return sets


def _inside(
    counts: NDArray[Any], held_out: Measure, ids: Ids | None, mass: Whole | None, level: Level
) -> NDArray[np.bool_]:
    """Return which counts are small enough for their labels to be in the set."""
    is_in: NDArray[np.bool_]
    if mass is not None:
        of_alpha = partial(importance.inside, held_out, counts, ids, mass)
        is_in = held_out.by_alpha(level, held_out.groups.index(ids), of_alpha)
    else:
        is_in = counts < np.array(held_out.ranks(level))[held_out.groups.index(ids)]
    return is_in


def _by_group(counts: NDArray[np.int32], held_out: Measure, ids: Ids | None) -> Floats:
    """Return the p-value of every count among the scores of its group."""
    sizes = held_out.sizes.tolist()
    if held_out.groups.is_one:
        return p_values_of(counts, sizes[0])
    p_values = np.ones(counts.shape)  # of a group never seen
    for cell in held_out.groups.present(ids):
        own = held_out.groups.where(cell, ids)
        p_values[own] = p_values_of(counts[own], sizes[cell])
    return p_values


def chunks(n_rows: int, n_classes: int) -> list[slice]:
    """Return pieces of rows small enough for a matrix or two of their labels (one empty piece if there are none)."""
    step = max(1, CHUNK_CELLS // n_classes)
    return [slice(start, min(start + step, n_rows)) for start in range(0, max(n_rows, 1), step)]


def thresholds_of(held_out: Thresholds, ids: Ids, alphas: Sequence[Level]) -> Floats:
    """Return the thresholds of each row, or one row for all: count < k is the same as score <= k-th smallest score."""
    return held_out.thresholds(alphas, held_out.groups.index(ids))[:, :, 0].T


def by_label_thresholds(held_out: Thresholds, alphas: Sequence[Level]) -> Floats:
    """Return the thresholds of each label, (levels, labels)."""
    return held_out.thresholds(alphas, held_out.groups.index(None))[:, 0]
