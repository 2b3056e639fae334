"""Split calibration: one part of the rows trains, the other calibrates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aptset.validation.settings import check_share

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """Train on a random part of the rows, calibrate on the others (Algorithm 1).

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

    def folds(self, n_samples: int, generator: np.random.Generator) -> list[tuple[Indices, Indices]]:
        """Return one pair (rows that train, rows that calibrate)."""
        n_calibrate = min(max(round(n_samples * check_share(self.share)), 1), n_samples - 1)
        order = generator.permutation(n_samples)
        return [(np.sort(order[n_calibrate:]), np.sort(order[:n_calibrate]))]
