"""Probabilities and labels that ratios are estimated from: what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.labels import some
from aptset.data.matrix_checks import check_rows, tolerance_of
from aptset.kernels.formula import Floats

_WORST = 1e8  # a condition from here on leaves nothing of what was measured


def check_plain_rows(matrix: NDArray[np.generic], given: Any, name: str) -> Floats:
    """Return rows that are probabilities; refuse others. ``given`` is what the matrix came as."""
    wide, tolerance = matrix.astype(np.float64, order="C"), tolerance_of(matrix, given)
    with np.errstate(invalid="ignore", over="ignore"):
        is_good = (np.abs(wide.sum(axis=1) - 1) <= tolerance) & (wide >= 0).all(axis=1)
    check_rows(matrix, -1 if is_good.all() else int(np.argmin(is_good)), name, False, tolerance)
    return wide


def check_every_class(counts: NDArray[np.int64], classes: NDArray[Any]) -> None:
    """Refuse classes without a row: nothing is known of how they look."""
    if not counts.all():
        missing = classes[counts == 0]
        raise ValueError(
            f"labels must hold every class, so that its ratio can be told; got no row of {some(missing)}. Calibrate on "
            "rows of every class, or use groups='label', which needs no ratios."
        )


def check_condition(confusion: Floats) -> float:
    """Return the condition number of a matrix of guesses; refuse one that cannot be solved."""
    found = float(np.linalg.cond(confusion))
    if not found < _WORST:
        raise ValueError(
            f"method='bbse' must have guesses that tell labels apart; the condition of their matrix is {found:.3g}. "
            "Some label is never guessed, or two are guessed alike. Use method='em'."
        )
    return found
