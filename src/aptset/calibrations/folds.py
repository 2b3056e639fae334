"""A fold: the rows that a model is calibrated on, and those that train it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Fold(NamedTuple):
    """Rows that a model is calibrated on, and those that train it: by default all others."""

    held_out: NDArray[np.intp]
    train: NDArray[np.intp] | None = None

    def train_rows(self, n: int) -> NDArray[np.intp]:
        """Return the rows that train; n folds would take n^2 memory if each kept its own list."""
        if self.train is not None:
            return self.train
        trains = np.ones(n, dtype=np.bool_)
        trains[self.held_out] = False
        return np.flatnonzero(trains)
