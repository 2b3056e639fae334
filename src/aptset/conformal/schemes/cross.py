"""CV+, the jackknife+ and minimax: every row trains and calibrates, never the same model; and what folds must be.

The minimax variant (supplement S1.1 of the paper) judges a label by the lowest score that any model gives it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.aggregation import Tally
from aptset.conformal.measure import Fold, FoldScores, Measure
from aptset.conformal.scheme import FoldSizes, LinearBound, cross_lines, minimax_lines
from aptset.core.groups import Ids
from aptset.core.labels import as_labels, check_hashable, check_length, columns_of, distinct, hashable, some
from aptset.kernels.counting import count_below, lower
from aptset.kernels.rows import Rows


def check_fold_ids(folds: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the names of the folds, sorted, and the number of the fold of each row."""
    values = as_labels(folds, "folds").copy()  # looked at more than once: another thread may go on to change them
    check_length(values, n_rows, "folds")
    check_hashable(values, "folds")
    names = distinct(values)
    if any(hashable(name) is None for name in names.tolist()):
        row = next(row for row, fold in enumerate(values.tolist()) if hashable(fold) is None)
        raise ValueError(
            f"folds must name the fold of every row; that of row {row} is missing. Leave out rows that every model was "
            "trained on: none of them held such a row out."
        )
    numbers = columns_of(values, names)
    if len(names) < 2:
        raise ValueError(f"folds must name at least 2 folds; got {names.tolist()}. For one model use aptset.calibrate.")
    return names, numbers


def folds_in_order(fold_probabilities: Any, names: NDArray[Any]) -> Iterator[Any]:
    """Yield the matrix of each fold in the order of the names, from an iterable or a mapping; exactly one for each."""
    if isinstance(fold_probabilities, Mapping):
        missing = [name for name in names.tolist() if name not in fold_probabilities]
        if missing or len(fold_probabilities) != len(names):
            raise ValueError(f"fold_probabilities must have one matrix for each of the folds {some(names)}.")
        fold_probabilities = [fold_probabilities[name] for name in names.tolist()]
    _check_several(fold_probabilities)
    number = 0
    for matrix in fold_probabilities:
        if number < len(names):
            yield matrix
        number += 1
    if number != len(names):
        raise ValueError(f"fold_probabilities must have one matrix per fold: {len(names)} folds, but {number} came.")


def _check_several(fold_probabilities: Any) -> None:
    """Refuse what cannot be one matrix for each fold."""
    what = type(fold_probabilities).__name__
    if isinstance(fold_probabilities, np.ndarray):
        what = "" if fold_probabilities.ndim == 3 else f"an array of shape {fold_probabilities.shape}"
    elif hasattr(fold_probabilities, "columns"):
        what = f"a table of shape {fold_probabilities.shape}"
    elif isinstance(fold_probabilities, Iterable) and not isinstance(fold_probabilities, str | bytes):
        what = ""
    if what:
        raise (ValueError if "shape" in what else TypeError)(
            f"fold_probabilities must be one matrix per fold; got {what}. Pass a list of matrices, in the order of "
            "the folds."
        )


def check_same_shape(matrix: NDArray[Any], first: NDArray[Any], fold: int) -> None:
    """Refuse folds that speak about different rows."""
    if matrix.shape != first.shape:
        raise ValueError(
            f"fold_probabilities must be about the same rows: the first fold has shape {first.shape}, matrix "
            f"{fold} has shape {matrix.shape}."
        )


def check_fold_count(n_folds: Any, n_rows: int) -> int:
    """Return the number of folds."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer):
        raise TypeError(
            f"n_folds must be a whole number; got {n_folds!r}. Pass splitter=... for a scikit-learn splitter."
        )
    if not 2 <= n_folds <= n_rows:
        raise ValueError(
            f"n_folds must be between 2 and the number of rows; got n_folds={n_folds} with n_samples={n_rows}. "
            "Pass calibration='jackknife+' for one fold per row."
        )
    return int(n_folds)


_BLIND = ("KFold", "LeaveOneOut", "PredefinedSplit")  # splitters of scikit-learn that look at neither X nor y


def reason_of_no_promise(splitter: Any) -> str:
    """Return why the theorems do not speak of a splitter's folds; empty if they do, or if there is no splitter."""
    kind = type(splitter)  # by its name: probabilities alone must not cost the import of scikit-learn
    if splitter is None or (kind.__module__.startswith("sklearn.model_selection.") and kind.__name__ in _BLIND):
        return ""
    return f"{kind.__name__} may look at the data when it makes the folds, and no theorem speaks of such folds"


def split_by(splitter: Any, X: Any, y: NDArray[Any], clusters: NDArray[np.intp] | None = None) -> list[tuple[Any, Any]]:
    """Return the pairs (train, held out) of a splitter that needs X and y only, or the cluster of each row, too."""
    try:
        return list(splitter.split(X, y))
    except (TypeError, ValueError) as error:
        if "group" not in str(error):
            raise
        if clusters is not None:
            return list(splitter.split(X, y, clusters))
        raise ValueError(
            f"splitter must work without groups; {type(splitter).__name__} does not ({error}). Turn its folds into a "
            "PredefinedSplit: splitter=PredefinedSplit(fold_of_each_row)."
        ) from error


def check_partition(pairs: list[tuple[Any, Any]], n_rows: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Refuse folds that leave a row out, hold it out twice, or train on rows that they hold out."""
    splits = [(_row_numbers(train, n_rows), _row_numbers(held_out, n_rows)) for train, held_out in pairs]
    times = np.bincount(np.concatenate([held_out for _, held_out in splits] or [np.arange(0)]), minlength=n_rows)
    if (times != 1).any():
        row = int(np.argmax(times != 1))
        raise ValueError(
            f"splitter must put each row into exactly one test part; row {row} is in {int(times[row])}. "
            "Pass a KFold-like splitter, not a shuffled or repeated one."
        )
    for number, (train, held_out) in enumerate(splits):
        both = np.intersect1d(train, held_out)
        if len(both):
            raise ValueError(
                f"splitter must not train on rows that it holds out; fold {number + 1} does so with row "
                f"{both[0]}. Scores of training rows are too low, and the coverage guarantee would be lost."
            )
    return splits


def _row_numbers(rows: Any, n_rows: int) -> NDArray[np.intp]:
    numbers = np.asarray(rows)
    if numbers.dtype == np.bool_:
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise TypeError(f"splitter must give row numbers; got dtype {numbers.dtype}, shape {numbers.shape}.")
    numbers = numbers.copy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= n_rows):
        raise ValueError(
            f"splitter must give row numbers from 0 to {n_rows - 1}; got {numbers.min()} to {numbers.max()}."
        )
    return numbers.astype(np.intp)


def random_folds(n: int, n_folds: int, generator: np.random.Generator) -> list[Fold]:
    """Cut a random order of the rows into folds whose sizes differ by one at most."""
    return [Fold(np.sort(part)) for part in np.array_split(generator.permutation(n), n_folds)]


def folds_of_splitter(
    splitter: Any, X: Any, y: NDArray[Any], generator: np.random.Generator, clusters: NDArray[np.intp] | None = None
) -> list[Fold]:
    """Ask a scikit-learn splitter, with a seed of ours if it would otherwise draw from the global state."""
    if isinstance(splitter, type) or not callable(getattr(splitter, "split", None)):
        raise TypeError(f"splitter must be a scikit-learn splitter, e.g. StratifiedKFold(10); got {splitter!r}.")
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
