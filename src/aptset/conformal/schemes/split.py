"""One model and a promise of 1 - alpha: split calibration, where one part of the rows trains and the other calibrates,
and full conformal prediction, where every row trains and is scored together with each new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.measure import Fold
from aptset.conformal.scheme import FoldSizes, LinearBound
from aptset.core import validate
from aptset.core.groups import Ids
from aptset.kernels.rows import Rows


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


class Augmented(Tally):
    """Counts of scores that a new row has changed: worked out with the training rows, not with probabilities."""

    holds_all_models = True

    def add(self, fold: Any, rows: Rows, ids: Ids | None) -> int:
        """Refuse probabilities: those of a new row do not say how it changes the scores of the others."""
        raise ValueError(
            "calibration must not be 'full' where probabilities are passed: a new row changes the scores of others, as "
            "only the classifier knows. Ask the classifier itself."
        )


@dataclass(frozen=True)
class Full:
    """Full conformal prediction with nearest neighbours or kernel densities: no split, and coverage 1 - alpha.

    A new row joins the training rows with one label after the other. Every row of this larger set is scored by what the
    others say about it, and the label is in the set unless at least (1 - alpha)(n + 1) rows conform better than the new
    one. All rows train, all calibrate, and the promise is 1 - alpha for any number of rows (Vovk, Gammerman and Shafer
    2005, "Algorithmic Learning in a Random World", section 2.2). Literally that takes n + 1 models for each new row and
    label. For ``KNeighborsClassifier`` with equal weights and :class:`KernelDensityClassifier` a new row changes votes
    and sums, and the answer is exact without any refit (Cherubin, Chatzikokolakis and Jaggi 2021, "Exact optimization
    of conformal predictors via incremental and decremental learning"). Other models are refused.

    Rows at the distance of the last neighbour share the votes that are left, so that no order of rows counts;
    scikit-learn takes some of them.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = aptset.ConformalClassifier(KNeighborsClassifier(10), calibration="full", random_state=0)
    >>> classifier.fit(X[::2], y[::2]).guarantee(0.1)
    0.9
    >>> classifier.predict_set(X[[51, 133]], alpha=0.1)
    PredictionSets: 2 rows, 3 classes, mean size 1.5
      0  {1}
      1  {1, 2}
    """

    name: ClassVar[str] = "full"
    combine: ClassVar[type[Tally]] = Augmented
    caveat: ClassVar[str] = ""
    scores_with_new_row: ClassVar[bool] = True

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return one fold, whose rows train and calibrate."""
        return [Fold(np.arange(len(y)), np.arange(len(y)))]

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """P(miss) <= alpha, as the rows and the new one are exchangeable and scored by one symmetric function."""
        return [LinearBound(Fraction(0), Fraction(1))]
