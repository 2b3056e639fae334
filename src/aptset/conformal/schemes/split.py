"""Split calibration: one part of the rows trains, the other calibrates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.fold_scores import Fold
from aptset.conformal.scheme import FoldSizes, LinearBound
from aptset.core import validate


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
        of_rows = validate.share(self.share, "share", "the share of rows that calibrates")
        n_calibrate = min(max(round(n * of_rows), 1), n - 1)
        calibrates = np.zeros(n, dtype=np.bool_)
        calibrates[generator.permutation(n)[:n_calibrate]] = True
        return [Fold(np.flatnonzero(calibrates))]

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Theorem 1: P(miss) <= alpha."""
        return [LinearBound(Fraction(0), Fraction(1))]
