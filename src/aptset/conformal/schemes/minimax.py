"""The minimax variant (supplement S1.1): a label is judged by the lowest score that any model gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.fold_scores import Fold, FoldScores
from aptset.conformal.measure import Measure
from aptset.conformal.scheme import FoldSizes, LinearBound, minimax_lines
from aptset.conformal.schemes.cross import (
    JackknifePlus,
    check_fold_count,
    folds_of_splitter,
    random_folds,
    reason_of_no_promise,
)
from aptset.core.groups import Ids
from aptset.kernels.counting import count_below, lower
from aptset.kernels.rows import Rows


class LowestScores(Tally):
    """The lowest score that any model gives each label; compared with the scores of all folds at the end."""

    def __init__(self, n_rows: int, n_classes: int) -> None:
        super().__init__(n_rows, n_classes)
        self.lowest = np.full((n_rows, n_classes), np.inf)

    def count(self, fold: FoldScores, rows: Rows, ids: Ids | None) -> int:
        """Keep the scores that are lower than all before."""
        return lower(rows, self.lowest)

    def merge(self, other: Self) -> None:
        """Take in what another tally saw of the same rows in other folds."""
        super().merge(other)
        np.minimum(self.lowest, other.lowest, out=self.lowest)

    def finish(self, held_out: Measure, ids: Ids | None) -> NDArray[np.int32]:
        """Return how many scores of all folds are below the lowest."""
        return count_below(self.lowest, held_out.pooled().calibrated, ids)


@dataclass(frozen=True)
class Minimax:
    """The conservative variant of the jackknife+: coverage is at least 1 - alpha, sets are larger.

    Parameters
    ----------
    n_folds : int, optional
        By default one fold per row, which promises 1 - alpha (Theorem S1). With fewer folds the proven coverage is
        lower, and lower still where their sizes differ; ``guarantee`` says how much.
    splitter : scikit-learn splitter, optional
        Makes the folds instead, as in :class:`CVPlus`.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.naive_bayes import GaussianNB
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.Minimax(n_folds=20))
    """

    n_folds: int | None = None
    splitter: Any = None

    name: ClassVar[str] = "minimax"
    combine: ClassVar[type[Tally]] = LowestScores

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return the folds."""
        if self.splitter is not None:
            return folds_of_splitter(self.splitter, X, y, generator)
        if self.n_folds is None:
            return JackknifePlus().folds(X, y, generator)
        return random_folds(len(y), check_fold_count(self.n_folds, len(y)), generator)

    @property
    def caveat(self) -> str:
        """Why no theorem speaks of these folds; empty if one does."""
        return reason_of_no_promise(self.splitter)

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Theorem S1, and its weaker form for fewer folds than rows."""
        return minimax_lines(sizes)
