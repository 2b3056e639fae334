"""Weights as whole numbers, and the scores that carry them: sums are exact, and depend on no order."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.measure import FoldScores
from aptset.core.groups import Groups, Ids
from aptset.kernels.counting import add_counts
from aptset.kernels.formula import Floats
from aptset.kernels.rows import Rows

Whole = NDArray[Any]  # int64, or Python's whole numbers where a weight exceeds all others by far

_MOST_WHOLE = 2.0**32
# What the largest weight becomes: more than 2^32, and divided by every number up to 24, so that small whole numbers
# times any constant keep their ratios exactly.
_LARGEST = 5_354_228_880.0
_FITS = 2.0**61


class Scale(NamedTuple):
    """From weights to whole numbers, for calibration and new rows alike."""

    largest: float
    steps: float

    @classmethod
    def of(cls, weights: Floats) -> Scale:
        """Return the scale of all calibration weights: whole ones stay what they are, times a power of two."""
        largest = float(weights.max()) or 1.0  # of a part of all rows, none of which has weight
        if largest <= _MOST_WHOLE and bool((weights == np.rint(weights)).all()):
            return cls(2.0 ** np.ceil(np.log2(largest)), _MOST_WHOLE)
        return cls(largest, _LARGEST)

    def whole(self, weights: Floats) -> Whole:
        """Return weights as whole numbers; one that is not 0 stays so, or a row would not count itself and p be 0."""
        with np.errstate(over="ignore"):
            found = np.maximum(np.rint(weights / self.largest * self.steps), weights > 0)
        fits = found < _FITS
        if fits.all():
            return found.astype(np.int64)
        exact = np.where(fits, found, 0).astype(np.int64).astype(object)  # what fits is what it is without the others
        exact[~fits] = [round(Fraction(w) / Fraction(self.largest) * int(self.steps)) for w in weights[~fits].tolist()]
        return exact


def narrowed(whole: Whole) -> Whole:
    """Return whole numbers as int64 where all of them are small enough: Python's are slow."""
    return whole.astype(np.int64) if whole.dtype == object and (whole < int(_FITS)).all() else whole


class WeightedScores(FoldScores):
    """Scores of one fold with the weight of each, by group and upward; equal scores by weight: no order counts."""

    def __init__(
        self, scores: Floats, weights: Floats, offsets: NDArray[np.int64], groups: Groups, scale: Scale
    ) -> None:
        super().__init__(scores, offsets, groups)
        self.weights, self.groups, self.scale = weights, groups, scale
        self.cumulative = np.concatenate([[0], np.cumsum(scale.whole(weights), dtype=np.int64)])

    @classmethod
    def of(
        cls, scores: Floats, weights: Floats, group: NDArray[np.intp], groups: Groups, scale: Scale
    ) -> WeightedScores:
        """Put scores and their weights in order."""
        n_groups = len(groups.names)
        order = np.argsort(scores)
        if (np.diff(scores[order]) == 0).any():
            order = np.lexsort((weights, scores))
        if n_groups > 1:
            narrow = group.astype(np.int16) if n_groups < 2**15 else group  # numpy sorts short numbers by digits
            order = order[np.argsort(narrow[order], kind="stable")]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups), dtype=np.int64)])
        return cls(scores[order], weights[order], offsets, groups, scale)

    @property
    def group_of_score(self) -> NDArray[np.intp]:
        """The number of the group of each score."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def added(self, rows: Rows, ids: Ids | None, sums: NDArray[Any]) -> tuple[NDArray[Any], int]:
        """Add to every label the weight of the scores below its own; return the first bad row or -1 as well."""
        counts, first_bad = self.counted(rows, ids)
        return sums + self.below(counts, ids), first_bad

    def counted(self, rows: Rows, ids: Ids | None) -> tuple[NDArray[np.int32], int]:
        """Return how many scores are below that of each label, and the first bad row or -1."""
        counts = np.zeros(rows.probabilities.shape, dtype=np.int32)
        return counts, add_counts(rows, self.calibrated, ids, counts)

    def below(self, counts: NDArray[np.int32], ids: Ids | None) -> NDArray[np.int64]:
        """Return the weight of so many of the smallest scores of a group."""
        starts = np.append(self.offsets[:-1], 0)  # of a group never seen nothing is counted
        start = self.groups.by_column(starts)[None, :] if ids is None else starts[ids][:, None]
        found: NDArray[np.int64] = self.cumulative[start + counts] - self.cumulative[start]
        return found


def join_weighted(parts: Sequence[tuple[WeightedScores, Groups]], groups: Groups, scale: Scale) -> WeightedScores:
    """Return the scores of other rows under one model as those of one fold."""
    number_of = {name: number for number, name in enumerate(groups.names)}
    weights = np.concatenate([fold.weights for fold, _ in parts])
    places = [np.array([number_of[name] for name in known.names], dtype=np.intp) for _, known in parts]
    group = np.concatenate([place[fold.group_of_score] for place, (fold, _) in zip(places, parts, strict=True)])
    scores = np.concatenate([fold.scores for fold, _ in parts])
    return WeightedScores.of(scores, weights, group, groups, scale)
