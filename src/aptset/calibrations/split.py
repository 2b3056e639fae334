"""Split calibration: one part of the rows trains, the other calibrates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.bounds import FoldSizes, Line
from aptset.calibrations.tally import Tally
from aptset.validation.settings import check_share


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


class Scheme(Protocol):
    """Which rows train and which calibrate, how folds combine, and what the theorem promises."""

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


@dataclass(frozen=True)
class Split:
    """Train on a random part of the rows, calibrate on the others (Algorithm 1 of the paper).

    Parameters
    ----------
    share : float, default=0.5
        The share of the rows that calibrates; at least one row stays on each side.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.naive_bayes import GaussianNB
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.Split(share=0.3))
    """

    share: float = 0.5

    name: ClassVar[str] = "split"
    combine: ClassVar[type[Tally]] = Tally
    caveat: ClassVar[str] = ""

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return the one fold."""
        n = len(y)
        n_calibrate = min(max(round(n * check_share(self.share)), 1), n - 1)
        calibrates = np.zeros(n, dtype=np.bool_)
        calibrates[generator.permutation(n)[:n_calibrate]] = True
        return [Fold(np.flatnonzero(calibrates))]

    def lines(self, sizes: FoldSizes) -> list[Line]:
        """Theorem 1: P(miss) <= alpha."""
        return [Line(Fraction(0), Fraction(1))]
