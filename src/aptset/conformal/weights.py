"""Weights as whole numbers: sums are exact, and depend on no order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats

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
            steps = np.maximum(np.rint(weights / self.largest * self.steps), weights > 0)
        fits = steps < _FITS
        if fits.all():
            return steps.astype(np.int64)
        exact = np.where(fits, steps, 0).astype(np.int64).astype(object)  # what fits is what it is without the others
        exact[~fits] = [round(Fraction(w) / Fraction(self.largest) * int(self.steps)) for w in weights[~fits].tolist()]
        return exact


def narrowed(whole: Whole) -> Whole:
    """Return whole numbers as int64 where all of them are small enough: Python's are slow."""
    return whole.astype(np.int64) if whole.dtype == object and (whole < int(_FITS)).all() else whole
