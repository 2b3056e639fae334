"""Full conformal prediction without refits: how a new row changes votes of neighbours and sums of kernels.

Every row of the training rows and a new one, with a label that is tried, is scored by what all others say about it:
one function of the augmented set, in which no order counts. The rows that a new one changes are scored again, the
others are not (Cherubin, Chatzikokolakis and Jaggi 2021, "Exact optimization of conformal predictors via incremental
and decremental learning"). Votes are ratios of whole numbers and kernels whole multiples of 2^-44: sums are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from aptset.conformal.measure import FoldScores, Measure, scores_of
from aptset.conformal.schemes.split import Augmented
from aptset.core import validate
from aptset.core.labels import columns_of
from aptset.core.matrix import OF_ESTIMATOR
from aptset.estimator.fitting import Samples, Training, fresh
from aptset.estimator.models import LabelledModel
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import Rows

Whole = NDArray[np.int64]
_CELLS = 2**20  # distances, or probabilities of pairs of rows, that are held at a time
_UNIT = 2**44  # what a kernel at distance 0 counts
_KERNELS: dict[str, Callable[[Floats], Floats]] = {  # of squared distances in bandwidths; 1 at distance 0
    "gaussian": lambda squares: np.exp(-0.5 * squares),
    "exponential": lambda squares: np.exp(-np.sqrt(squares)),
    "tophat": lambda squares: (squares < 1).astype(np.float64),
    "linear": lambda squares: np.maximum(1 - np.sqrt(squares), 0),
    "epanechnikov": lambda squares: np.maximum(1 - squares, 0),
}


def _blocks(n_rows: int, cells: int) -> list[slice]:
    """Return blocks of rows, each of which takes so many cells, that are worked on at a time."""
    step = max(1, _CELLS // max(1, cells))
    return [slice(start, start + step) for start in range(0, n_rows, step)]


def distances(rows: Floats, others: Floats, power: float) -> Floats:
    """Return sums of |difference|^power, or the largest one, (rows, others).

    Columns are added one by one, so that the distance of two rows has the same last bit in every batch.
    """
    total = np.zeros((len(rows), len(others)))
    with np.errstate(over="ignore"):  # said below
        for column in range(rows.shape[1]):
            away = np.abs(rows[:, column, None] - others[None, :, column])
            if power == np.inf:
                np.maximum(total, away, out=total)
            else:
                total += away if power == 1 else away * away if power == 2 else away**power
    if not np.isfinite(total).all():
        raise ValueError("X must be so small that distances of rows are finite; divide its columns by their scale.")
    return total


@dataclass(frozen=True)
class Joined:
    """New rows beside the training rows: their probabilities, and the pairs in which they change a training row."""

    probabilities: Floats  # of the new rows among the training rows
    row: NDArray[np.intp]  # the new row of each pair
    other: NDArray[np.intp]  # and the training row
    changed: Callable[[int], Floats]  # from the new row's label to the probabilities of each pair's training row


class Among(ABC):
    """What the other rows say about each row, and how a new one changes it."""

    def __init__(self, X: Floats, y: Whole, n_classes: int) -> None:
        self.X, self.y, self.n_classes = X, y, n_classes
        all_rows = np.arange(len(y))
        self.probabilities = np.concatenate([self._learn(all_rows[block]) for block in _blocks(len(y), len(y))])

    @abstractmethod
    def _learn(self, rows: NDArray[np.intp]) -> Floats:
        """Remember what others say about training rows, and return their probabilities."""

    @abstractmethod
    def join(self, X: Floats) -> Joined:
        """Return what new rows change, each by itself."""

    def by_class(self, values: NDArray[Any]) -> Whole:
        """Return sums over the training rows of each class, (rows, classes), of whole numbers."""
        sums = np.zeros((len(values), self.n_classes), dtype=np.int64)
        order = np.argsort(self.y, kind="stable")
        classes, starts = np.unique(self.y[order], return_index=True)
        sums[:, classes] = np.add.reduceat(values[:, order].astype(np.int64), starts, axis=1)
        return sums


class Neighbours(Among):
    """Votes of the k nearest others; those at the distance of the k-th share the votes that are left."""

    def __init__(self, X: Floats, y: Whole, n_classes: int, k: int, power: float) -> None:
        self.k, self.power = k, power
        shape = (len(y), n_classes)
        self.last, self.before = np.empty(len(y)), np.empty(len(y))  # distances of the k-th and of the one before it
        self.below, self.level, self.below_before, self.level_before = (np.zeros(shape, np.int64) for _ in range(4))
        super().__init__(X, y, n_classes)

    def _votes(self, below: Whole, level: Whole) -> Floats:
        """Return (votes of nearer ones + their share of what is left for those at one distance) / k."""
        at_level = level.sum(axis=1, keepdims=True)
        left = self.k - below.sum(axis=1, keepdims=True)
        alone = np.where(at_level > 0, self.k, below.sum(axis=1, keepdims=True))  # fewer than k others are there
        at_level = np.maximum(at_level, 1)
        votes: Floats = (below * at_level + left * level) / (alone * at_level)
        return votes

    def _learn(self, rows: NDArray[np.intp]) -> Floats:
        away = distances(self.X[rows], self.X, self.power)
        away[np.arange(len(rows)), rows] = np.inf
        self.last[rows] = last = np.partition(away, self.k - 1, axis=1)[:, self.k - 1]
        before = np.partition(away, self.k - 2, axis=1)[:, self.k - 2] if self.k > 1 else np.full(len(rows), -np.inf)
        self.before[rows] = before
        is_other = np.isfinite(away)
        self.below[rows] = self.by_class((away < last[:, None]) & is_other)
        self.level[rows] = self.by_class((away == last[:, None]) & is_other)
        self.below_before[rows] = self.by_class(away < before[:, None])
        self.level_before[rows] = self.by_class((away == before[:, None]) & is_other)
        return self._votes(self.below[rows], self.level[rows])

    def join(self, X: Floats) -> Joined:
        """Return what new rows change: they are neighbours of rows whose k-th is not nearer than they are."""
        away = distances(X, self.X, self.power)
        last = np.partition(away, self.k - 1, axis=1)[:, self.k - 1 : self.k]
        own = self._votes(self.by_class(away < last), self.by_class(away == last))
        row, other = np.nonzero(away <= self.last)
        away = away[row, other]
        below, level, is_nearer = self._joined(away, other)

        def changed(label: int) -> Floats:
            with_below, with_level = below.copy(), level.copy()
            with_below[:, label] += is_nearer
            with_level[:, label] += ~is_nearer
            return self._votes(with_below, with_level)

        return Joined(own, row, other, changed)

    def _joined(self, away: Floats, other: NDArray[np.intp]) -> tuple[Whole, Whole, NDArray[np.bool_]]:
        """Return votes below and at the distance of the k-th neighbour with the new row, and whether it is below.

        The new row takes the place of the k-th, if that one stands alone behind k - 1 nearer ones; the last neighbour
        is then the one before it, or the new row itself.
        """
        below, level = self.below[other], self.level[other]
        takes_place = (away < self.last[other]) & (below.sum(axis=1) == self.k - 1)
        is_last = takes_place & (away > self.before[other])
        level[is_last] = 0
        stays = takes_place & ~is_last
        below[stays], level[stays] = self.below_before[other[stays]], self.level_before[other[stays]]
        at = np.where(stays, self.before[other], self.last[other])
        return below, level, (away < at) & ~is_last


class Kernels(Among):
    """Sums of a kernel of the distance over the others of each class."""

    def __init__(self, X: Floats, y: Whole, n_classes: int, kernel: str, bandwidth: float) -> None:
        self.kernel, self.bandwidth = kernel, bandwidth
        self.sums = np.zeros((len(y), n_classes), dtype=np.int64)
        super().__init__(X, y, n_classes)

    def _learn(self, rows: NDArray[np.intp]) -> Floats:
        kernels = kernel_units(self.X[rows], self.X, self.kernel, self.bandwidth)
        kernels[np.arange(len(rows)), rows] = 0
        self.sums[rows] = self.by_class(kernels)
        return shares_of(self.sums[rows])

    def join(self, X: Floats) -> Joined:
        """Return what new rows change: the sums of all rows within reach of the kernel."""
        kernels = kernel_units(X, self.X, self.kernel, self.bandwidth)
        row, other = np.nonzero(kernels)
        reached = kernels[row, other]

        def changed(label: int) -> Floats:
            sums = self.sums[other]
            sums[:, label] += reached
            return shares_of(sums)

        return Joined(shares_of(self.by_class(kernels)), row, other, changed)


def kernel_units(rows: Floats, others: Floats, kernel: str, bandwidth: float) -> Whole:
    """Return the kernel between rows and others in whole units."""
    values = _KERNELS[kernel](distances(rows / bandwidth, others / bandwidth, 2))
    return np.rint(values * _UNIT).astype(np.int64)


def shares_of(sums: Whole) -> Floats:
    """Return the share of each class; equal ones where no row is within reach."""
    total = sums.sum(axis=1, keepdims=True)
    shares: Floats = np.where(total > 0, sums / np.maximum(total, 1), 1 / sums.shape[1])
    return shares


class KernelDensityClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Probabilities in proportion to the sum of a kernel over the training rows of each class (Parzen 1962).

    That is Bayes' rule with a kernel density for each class and the shares of the classes as priors. It is made for
    ``calibration="full"``, in which every row trains and every row calibrates, and works with all other calibrations.

    Parameters
    ----------
    kernel : {"gaussian", "exponential", "tophat", "linear", "epanechnikov"}, default="gaussian"
        How much a training row counts at a distance, as in ``sklearn.neighbors.KernelDensity``.
    bandwidth : float, default=1.0
        The distance in units of which the kernel works. It must be chosen before the rows are seen: with a bandwidth
        that depends on the rows nothing is promised. Standardise columns by numbers that are known beforehand.

    Examples
    --------
    >>> import aptset
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> aptset.KernelDensityClassifier(bandwidth=0.5).fit(X, y).predict_proba(X[[0, 70]]).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.  , 0.54, 0.46]])
    >>> model = aptset.KernelDensityClassifier(bandwidth=0.5)
    >>> aptset.ConformalClassifier(model, calibration="full", random_state=0).fit(X, y).guarantee(0.05)
    0.95
    """

    def __init__(self, kernel: str = "gaussian", bandwidth: float = 1.0) -> None:
        self.kernel, self.bandwidth = kernel, bandwidth

    def fit(self, X: Any, y: Any) -> KernelDensityClassifier:
        """Keep the rows.

        Parameters
        ----------
        X : array of shape (rows, columns)
            The training rows.
        y : array
            Their labels.
        """
        validate.one_of(self.kernel, tuple(_KERNELS), "kernel")
        validate.number(self.bandwidth, "bandwidth", "must be a positive number", lambda value: 0 < value < np.inf)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, self.y_ = np.unique(y, return_inverse=True)
        self.X_ = X
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return one probability per class; equal ones for rows that no training row reaches."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        members = np.eye(len(self.classes_), dtype=np.int64)[self.y_]
        units = (kernel_units(X[at], self.X_, self.kernel, self.bandwidth) for at in _blocks(len(X), len(self.X_)))
        return np.concatenate([shares_of(of_block @ members) for of_block in units])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


POWERS = {"euclidean": 2.0, "l2": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0, "chebyshev": np.inf}


class FullModel(BaseEstimator):  # type: ignore[misc]
    """The training rows of full conformal prediction, with all that their scores depend on.

    Parameters
    ----------
    model : classifier
        The fitted estimator, for its settings and the columns of X.
    X, y : arrays
        The rows, and the number of the label of each among ``n_classes`` that may come.
    n_classes : int
        Number of labels.
    seeds, u, cells : arrays
        Where the uniform of each row comes from, or that itself, and the cell of its score.
    """

    def __init__(self, model: Any, X: Floats, y: Whole, n_classes: int, seeds: Words, u: Any, cells: Whole) -> None:
        self.model, self.X, self.y, self.n_classes = model, X, y, n_classes
        self.seeds, self.u, self.cells = seeds, u, cells

    @property
    def classes_(self) -> NDArray[np.intp]:
        """The numbers of the labels."""
        return np.arange(self.n_classes)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return int(self.model.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if they had any."""
        names: NDArray[Any] = self.model.feature_names_in_
        return names

    @cached_property
    def among(self) -> Among:
        """What the rows say about one another, worked out once."""
        rows, model = (self.X, self.y, self.n_classes), self.model
        if isinstance(model, KernelDensityClassifier):
            return Kernels(*rows, model.kernel, float(model.bandwidth))
        power = float(model.p) if model.metric == "minkowski" else POWERS[model.metric]
        return Neighbours(*rows, int(model.n_neighbors), power)

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to a file or another process: nothing that can be worked out again."""
        return {name: value for name, value in vars(self).items() if name != "among"}

    def rows_of(self, X: Any) -> Floats:
        """Return X as the model would see it, names of columns checked."""
        rows: Floats = validate_data(self.model, X, dtype=np.float64, reset=False)
        return rows

    def predict_proba(self, X: Any) -> Floats:
        """Return what the training rows say about new ones."""
        rows = self.rows_of(X)
        blocks = _blocks(len(rows), len(self.y) * self.n_classes)
        return np.concatenate([self.among.join(rows[block]).probabilities for block in blocks])

    def training_rows(self, like: Samples, rows: NDArray[np.intp], probabilities: Floats) -> Floats:
        """Return the scores of training rows with these probabilities."""
        u = None if self.u is None else self.u[rows]
        samples = Samples(None, self.seeds[rows], u, None, like.formula, like.key)
        return scores_of(samples.rows(probabilities), self.y[rows], OF_ESTIMATOR)

    def tally(self, new: Samples, held_out: Measure) -> Augmented:
        """Return how many rows score lower than each label of new rows, all of them together with that row."""
        tally, X = Augmented(len(new), self.n_classes), self.rows_of(new.X)
        base = self.training_rows(new, np.arange(len(self.y)), self.among.probabilities)
        of_cells = FoldScores.sort(base, self.cells, held_out.groups)
        for part in _blocks(len(new), len(self.y) * self.n_classes):
            joined, chosen = self.among.join(X[part]), new.some(part)
            rows = chosen.rows(joined.probabilities)
            tally.counts[part], _ = of_cells.added(rows, chosen.ids, tally.counts[part])
            tally.mass[part] = joined.probabilities
            cells = np.broadcast_to(held_out.groups.index(chosen.ids), joined.probabilities.shape)
            for label in range(self.n_classes):
                tally.counts[part, label] += self._change(new, joined, rows, label, base, cells[:, label])
        return tally

    def _change(
        self, new: Samples, joined: Joined, rows: Rows, label: int, base: Floats, cells: NDArray[Any]
    ) -> NDArray[np.int32]:
        """Return how many more training rows score lower than a label once the new row is among them."""
        own = scores_of(rows, np.full(len(cells), label), OF_ESTIMATOR)[joined.row]
        becomes = self.training_rows(new, joined.other, joined.changed(label))
        change = (becomes < own).astype(np.int64) - (base[joined.other] < own)
        change[self.cells[joined.other] != cells[joined.row]] = 0
        return np.bincount(joined.row, change, minlength=len(cells)).astype(np.int32)


def fit_full(training: Training) -> tuple[LabelledModel, Measure]:
    """Return the training rows as one model, and their scores among one another."""
    samples, columns = training.samples, columns_of(training.y, training.classes)
    model = fresh(training.estimator).fit(samples.X, columns)
    X = validate_data(model, samples.X, dtype=np.float64, reset=False)
    cells = training.groups.ids_of_labels(samples.ids, columns).astype(np.int64)
    whole = FullModel(model, X, columns, len(training.classes), samples.seeds, samples.u, cells)
    scores = whole.training_rows(samples, np.arange(len(X)), whole.among.probabilities)
    folds = tuple(FoldScores.sort(scores[[row]], cells[[row]], training.groups) for row in range(len(X)))
    measure = Measure(folds, training.groups, model_mask=np.ones((len(X), 1), dtype=np.bool_))
    return LabelledModel(whole, training.classes), measure
