"""What a stream must be told, and what a file of its state must hold: it is untrusted input."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from aptset.calibrations.held_out import HeldOut
from aptset.probabilities.calibration import Calibration

MOST = 2**53
_OF_GROUPS = ("all", "label", "band", "row")  # kinds whose rows or labels have the threshold of their group


def check_streamable(calibration: Any) -> Calibration:
    """Return a calibration whose scores are all there, under one model."""
    if not isinstance(calibration, Calibration):
        raise TypeError(
            f"calibration must be what aptset.calibrate returns, or calibration_ of a classifier with "
            f"calibration='split'; got {type(calibration).__name__}. Sets of several folds have no single threshold "
            "that could move."
        )
    if type(calibration.held_out) is not HeldOut or calibration.held_out.groups.kind not in _OF_GROUPS:
        raise ValueError(
            "calibration must have kept its scores, one threshold for each group; got one of another kind. Calibrate "
            "with aptset.calibrate, without weights or overlapping groups."
        )
    return calibration


def check_step(step: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    is_number = isinstance(step, Real | Decimal) and not isinstance(step, bool | np.bool_)
    is_signal = isinstance(step, Decimal) and step.is_snan()  # every use of it would raise
    if not is_number or is_signal or not 0 <= step < MOST:
        raise ValueError(
            f"step must be a number from 0 to 2^53: how far one miss moves the level; got {step!r}. 0.01 is usual."
        )
    return Fraction(step) if isinstance(step, Fraction | Decimal) else Fraction(str(step))


def check_window(window: Any) -> int | None:
    """Return how many scores are kept; None if those of the calibration stay."""
    return (
        None if window is None else check_count(window, "window", "500 is usual; None keeps those of the calibration")
    )


def check_count(value: Any, name: str, way_out: str) -> int:
    """Return a whole number from 1 on."""
    is_number = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not is_number or not 1 <= value < MOST:
        raise ValueError(f"{name} must be a whole number of rows, from 1 to 2^53; got {value!r}. {way_out}.")
    return int(value)


def warn_of_forgotten_rows(most: int) -> None:
    """Say once that labels of old sets can no longer be judged by what was told."""
    warnings.warn(
        f"more than {most:,} sets wait for their labels, and the oldest are forgotten: should their labels come, they "
        "are judged by the level of that moment. Pass waiting=... for more.",
        stacklevel=5,
    )
