"""The seam of calibrations: which rows train and which calibrate, how folds combine, and what is promised."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.bounds import FoldSizes, Line
from aptset.calibrations.folds import Fold
from aptset.calibrations.tally import Tally


class Scheme(Protocol):
    """Which rows train and which calibrate, how folds combine, and what the theorem promises.

    One whose models are those inside a fitted ensemble says ``opens_ensemble = True``; others need not answer.
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

    def lines(self, sizes: FoldSizes) -> list[Line]:
        """Return what the theorem says of folds of these sizes: P(miss) <= constant + slope * alpha, all at once."""
        ...


def opens_ensemble(scheme: Scheme) -> bool:
    """Tell whether one ensemble is fitted, and its members are the models."""
    return bool(getattr(scheme, "opens_ensemble", False))
