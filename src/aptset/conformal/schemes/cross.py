"""CV+ and the jackknife+: every row trains and calibrates, never the same model."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.checks import (
    check_fold_count,
    check_partition,
    check_splitter,
    reason_of_no_promise,
    split_by,
)
from aptset.conformal.fold_scores import Fold
from aptset.conformal.scheme import FoldSizes, LinearBound, cross_lines


def random_folds(n: int, n_folds: int, generator: np.random.Generator) -> list[Fold]:
    """Cut a random order of the rows into folds whose sizes differ by one at most."""
    return [Fold(np.sort(part)) for part in np.array_split(generator.permutation(n), n_folds)]


def folds_of_splitter(
    splitter: Any, X: Any, y: NDArray[Any], generator: np.random.Generator, clusters: NDArray[np.intp] | None = None
) -> list[Fold]:
    """Ask a scikit-learn splitter, with a seed of ours if it would otherwise draw from the global state."""
    check_splitter(splitter)
    if getattr(splitter, "random_state", 0) is None and getattr(splitter, "shuffle", True):
        splitter = copy.copy(splitter)
        splitter.random_state = int(generator.integers(2**31))
    pairs = check_partition(split_by(splitter, X, y, clusters), len(y))
    # Most splitters train on all other rows: then there is nothing to remember, nor to send to a worker.
    return [Fold(held_out, None if len(train) + len(held_out) == len(y) else train) for train, held_out in pairs]


@dataclass(frozen=True)
class CVPlus:
    """Cross-validation+ (Algorithm 2 of the paper): smaller sets than a split where data are few.

    Coverage is at least 1 - 2 alpha - a little (Theorem 2), and near 1 - alpha in practice. The promise is best
    where the folds have one size; ``guarantee`` says what is proven for others.

    Parameters
    ----------
    n_folds : int, default=10
        Number of random folds; their sizes differ by one at most.
    splitter : scikit-learn splitter, optional
        Makes the folds instead. Each row must be in exactly one test part. Theorem 2 speaks of folds that were made
        without a look at the data: of KFold, LeaveOneOut and PredefinedSplit (if you made its folds so). Others, such
        as StratifiedKFold, work as well, but nothing is promised: ``guarantee`` is 0 and says why.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.naive_bayes import GaussianNB
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.CVPlus(n_folds=5))
    """

    n_folds: int = 10
    splitter: Any = None

    name: ClassVar[str] = "CV+"
    combine: ClassVar[type[Tally]] = Tally

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return the folds."""
        if self.splitter is not None:
            return folds_of_splitter(self.splitter, X, y, generator)
        return random_folds(len(y), check_fold_count(self.n_folds, len(y)), generator)

    @property
    def caveat(self) -> str:
        """Why no theorem speaks of these folds; empty if one does."""
        return reason_of_no_promise(self.splitter)

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Theorem 2."""
        return cross_lines(sizes)


@dataclass(frozen=True)
class JackknifePlus:
    """The jackknife+: CV+ with one row per fold, so as many models as rows. Coverage is at least 1 - 2 alpha.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.naive_bayes import GaussianNB
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), calibration="jackknife+")
    """

    name: ClassVar[str] = "jackknife+"
    combine: ClassVar[type[Tally]] = Tally
    caveat: ClassVar[str] = ""

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Return one fold per row."""
        return [Fold(np.array([row])) for row in range(len(y))]

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Theorem 2 with as many folds as rows: P(miss) <= 2 alpha."""
        return cross_lines(sizes)
