"""Exact conformal ranks, and how many calibration scores lie below a score."""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, all_scores_of_block


def rank_at(n: int, alpha: Fraction) -> int:
    """Return ceil((1 - alpha)(n + 1)): which smallest score of n is the threshold; above n, every label is in."""
    return ceil((1 - alpha) * (n + 1))


def size_needed(alpha: Fraction) -> int:
    """Return the smallest n whose rank at ``alpha`` is at most n."""
    return ceil((1 - alpha) / alpha)


def count_below_block(rows: Rows, start: int, stop: int, sorted_scores: Floats) -> tuple[NDArray[np.int64], int]:
    """How many calibration scores are strictly below the score of each label, and the first bad row or -1."""
    scores, bad = all_scores_of_block(rows, start, stop)
    return np.searchsorted(sorted_scores, scores, side="left").astype(np.int64), bad
