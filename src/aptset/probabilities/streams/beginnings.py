"""The scores that a stream begins with: those of its calibration, whose order of arrival nobody kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import seeds_of
from aptset.probabilities.calibration import Calibration


def first_scores(calibration: Calibration, window: int | None) -> list[Floats]:
    """Return the scores of each group, in an order that the key decides; of more than a window the last ones."""
    (fold,) = calibration.held_out.folds
    of_groups = [fold.scores[start:stop] for start, stop in pairwise(fold.offsets.tolist())]
    if window is None:
        return of_groups
    return [scores[_shuffled(len(scores), calibration.key)][-window:] for scores in of_groups]


def _shuffled(n: int, key: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.argsort(seeds_of(np.arange(n, dtype=np.uint64), key), kind="stable")
