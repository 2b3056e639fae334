"""Full conformal prediction without refits: how a new row changes votes of neighbours and sums of kernels.

Every row of the training rows and a new one, with a label that is tried, is scored by what all others say about it:
one function of the augmented set, in which no order counts. The rows that a new one changes are scored again, the
others are not (Cherubin, Chatzikokolakis and Jaggi 2021, "Exact optimization of conformal predictors via incremental
and decremental learning"). Votes are ratios of whole numbers and kernels whole multiples of 2^-44: sums are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from aptset.conformal.fold_scores import FoldScores, scores_of
from aptset.conformal.measure import Measure
from aptset.conformal.schemes.full import Augmented
from aptset.core import validate
from aptset.core.labels import columns_of
from aptset.core.matrix import OF_ESTIMATOR
from aptset.estimator.fitting import Samples, Training, fresh
from aptset.estimator.models import LabelledModel
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words

Whole = NDArray[np.int64]
_CELLS = 2**20  # distances, or probabilities of pairs of rows, that are held at a time
_UNIT = 2**44  # what a kernel at distance 0 counts
_KERNELS = ("gaussian", "exponential", "tophat", "linear", "epanechnikov")


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

    changed: Any  # from a label that the new row has to the probabilities of the training row of each pair


class Among(ABC):
    """What the other rows say about each row, and how a new one changes it."""

    def __init__(self, X: Floats, y: Whole, n_classes: int) -> None:
        self.X, self.y, self.n_classes = X, y, n_classes
        step = max(1, _CELLS // max(len(y), 1))
        blocks = [np.arange(start, min(start + step, len(y))) for start in range(0, len(y), step)]
        self.probabilities = np.concatenate([self._learn(rows) for rows in blocks])

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
        before = np.full(len(rows), -np.inf)
        if self.k > 1:
            before = np.partition(away, self.k - 2, axis=1)[:, self.k - 2]
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

    def of(self, rows: Floats) -> Whole:
        """Return the kernel between rows and training rows in whole units."""
        return kernel_units(distances(rows / self.bandwidth, self.X / self.bandwidth, 2), self.kernel)

    def _learn(self, rows: NDArray[np.intp]) -> Floats:
        kernels = self.of(self.X[rows])
        kernels[np.arange(len(rows)), rows] = 0
        self.sums[rows] = self.by_class(kernels)
        return shares_of(self.sums[rows])

    def join(self, X: Floats) -> Joined:
        """Return what new rows change: the sums of all rows within reach of the kernel."""
        kernels = self.of(X)
        row, other = np.nonzero(kernels)
        reached = kernels[row, other]

        def changed(label: int) -> Floats:
            sums = self.sums[other]
            sums[:, label] += reached
            return shares_of(sums)

        return Joined(shares_of(self.by_class(kernels)), row, other, changed)


def kernel_units(squares: Floats, kernel: str) -> Whole:
    """Return a kernel of squared distances in bandwidths, in whole units; 1 at distance 0."""
    if kernel == "gaussian":
        values = np.exp(-0.5 * squares)
    elif kernel == "exponential":
        values = np.exp(-np.sqrt(squares))
    elif kernel == "tophat":
        values = (squares < 1).astype(np.float64)
    else:
        values = np.maximum(1 - (squares if kernel == "epanechnikov" else np.sqrt(squares)), 0)
    units: Whole = np.rint(values * _UNIT).astype(np.int64)
    return units


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
        validate.one_of(self.kernel, _KERNELS, "kernel")
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
        said, step = np.empty((len(X), len(self.classes_))), max(1, _CELLS // len(self.X_))
        members = np.eye(len(self.classes_), dtype=np.int64)[self.y_]
        for start in range(0, len(X), step):
            away = distances(X[start : start + step] / self.bandwidth, self.X_ / self.bandwidth, 2)
            said[start : start + step] = shares_of(kernel_units(away, self.kernel) @ members)
        return said

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


def check_full_model(estimator: Any, n_rows: int, fit_params: dict[str, Any]) -> None:
    """Refuse models for which a new row and label would need fits of their own."""
    if type(estimator) not in (KNeighborsClassifier, KernelDensityClassifier):
        raise TypeError(
            "estimator must be a KNeighborsClassifier or aptset.KernelDensityClassifier itself for calibration='full'; "
            f"got {type(estimator).__name__}. Every other model would be fitted again for each new row, label and "
            "training row: pass calibration='jackknife+' or 'split'."
        )
    if any(value is not None for value in fit_params.values()):
        raise TypeError(f"fit takes no {sorted(fit_params)} for calibration='full': all rows count alike.")
    if isinstance(estimator, KNeighborsClassifier):
        _check_neighbours(estimator, n_rows)


def _check_neighbours(estimator: KNeighborsClassifier, n_rows: int) -> None:
    if estimator.weights != "uniform":
        raise ValueError(
            f"weights of the estimator must be 'uniform' for calibration='full', where votes are exact ratios; got "
            f"{estimator.weights!r}. For votes that fall with the distance take aptset.KernelDensityClassifier."
        )
    if estimator.metric not in (*_POWERS, "minkowski") or estimator.metric_params:
        raise ValueError(
            f"metric of the estimator must be one of {sorted(_POWERS)} or 'minkowski' for calibration='full'; got "
            f"{estimator.metric!r}."
        )
    if estimator.n_neighbors > n_rows:
        raise ValueError(
            f"n_neighbors of the estimator must be at most the number of rows, {n_rows}; got {estimator.n_neighbors}."
        )


_POWERS = {"euclidean": 2.0, "l2": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0, "chebyshev": np.inf}


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

    @property
    def among(self) -> Among:
        """What the rows say about one another, worked out once."""
        known: Among | None = self.__dict__.get("_among")
        if known is None:
            rows, model = (self.X, self.y, self.n_classes), self.model
            if isinstance(model, KernelDensityClassifier):
                known = Kernels(*rows, model.kernel, float(model.bandwidth))
            else:
                power = float(model.p) if model.metric == "minkowski" else _POWERS[model.metric]
                known = Neighbours(*rows, int(model.n_neighbors), power)
            self.__dict__["_among"] = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to a file or another process: nothing that can be worked out again."""
        return {name: value for name, value in self.__dict__.items() if name != "_among"}

    def rows_of(self, X: Any) -> Floats:
        """Return X as the model would see it, names of columns checked."""
        rows: Floats = validate_data(self.model, X, dtype=np.float64, reset=False)
        return rows

    def predict_proba(self, X: Any) -> Floats:
        """Return what the training rows say about new ones."""
        rows = self.rows_of(X)
        step = max(1, _CELLS // (len(self.y) * self.n_classes))
        starts = range(0, len(rows), step)
        return np.concatenate([self.among.join(rows[start : start + step]).probabilities for start in starts])

    def training_rows(self, like: Samples, rows: NDArray[np.intp], probabilities: Floats) -> Floats:
        """Return the scores of training rows with these probabilities."""
        u = None if self.u is None else self.u[rows]
        samples = Samples(None, self.seeds[rows], u, None, like.formula, like.key)
        return scores_of(samples.rows(probabilities), self.y[rows], OF_ESTIMATOR)

    def tally(self, new: Samples, held_out: Measure) -> Augmented:
        """Return how many rows score lower than each label of new rows, all of them together with that row."""
        tally, X = Augmented(len(new), self.n_classes), self.rows_of(new.X)
        every = np.arange(len(self.y))
        base = self.training_rows(new, every, self.among.probabilities)
        sorted_scores = FoldScores.sort(base, self.cells, held_out.groups)
        step = max(1, _CELLS // (len(self.y) * self.n_classes))
        for start in range(0, len(new), step):
            part = slice(start, start + step)
            self._count(tally, part, new.some(part), X[part], base, sorted_scores, held_out)
        return tally

    def _count(
        self,
        tally: Augmented,
        part: slice,
        new: Samples,
        X: Floats,
        base: Floats,
        of_cells: FoldScores,
        measure: Measure,
    ) -> None:
        """Count for some new rows: all scores as they were, and those that the new row changes as they become."""
        joined = self.among.join(X)
        rows = new.rows(joined.probabilities)
        tally.counts[part], _ = of_cells.added(rows, new.ids, tally.counts[part])
        tally.mass[part] = joined.probabilities
        cells = np.broadcast_to(measure.groups.index(new.ids), joined.probabilities.shape)
        for label in range(self.n_classes):
            own = scores_of(rows, np.full(len(X), label), OF_ESTIMATOR)[joined.row]
            becomes = self.training_rows(new, joined.other, joined.changed(label))
            change = (becomes < own).astype(np.int64) - (base[joined.other] < own)
            change[self.cells[joined.other] != cells[joined.row, label]] = 0
            tally.counts[part, label] += np.bincount(joined.row, change, minlength=len(X)).astype(np.int32)


def fit_full(training: Training) -> tuple[LabelledModel, Measure]:
    """Return the training rows as one model, and their scores among one another."""
    check_full_model(training.estimator, len(training.y), training.fit_params)
    samples, columns = training.samples, columns_of(training.y, training.classes)
    model = fresh(training.estimator).fit(samples.X, columns)
    X = validate_data(model, samples.X, dtype=np.float64, reset=False)
    cells = training.groups.ids_of_labels(samples.ids, columns).astype(np.int64)
    whole = FullModel(model, X, columns, len(training.classes), samples.seeds, samples.u, cells)
    scores = whole.training_rows(samples, np.arange(len(X)), whole.among.probabilities)
    folds = tuple(FoldScores.sort(scores[[row]], cells[[row]], training.groups) for row in range(len(X)))
    measure = Measure(folds, training.groups, judges=np.ones((len(X), 1), dtype=np.bool_))
    return LabelledModel(whole, training.classes), measure


def is_consistent(whole: Any, n_rows: int, n_classes: int, n_cells: int) -> bool:
    """Tell whether rows, labels and cells of something that was read from a file go together."""
    if not isinstance(whole, FullModel) or type(whole.model) not in (KNeighborsClassifier, KernelDensityClassifier):
        return False
    try:
        check_full_model(whole.model, n_rows, {})
    except (TypeError, ValueError):
        return False
    X, u = np.asarray(whole.X), whole.u
    whole_numbers = [np.asarray(values) for values in (whole.y, whole.cells)]
    return bool(
        X.shape == (n_rows, getattr(whole.model, "n_features_in_", None))
        and X.dtype == np.float64
        and all(values.shape == (n_rows,) and values.dtype == np.int64 for values in whole_numbers)
        and whole.n_classes == n_classes
        and all(
            ((values >= 0) & (values < most)).all()
            for values, most in zip(whole_numbers, (n_classes, n_cells), strict=True)
        )
        and np.asarray(whole.seeds).shape == (n_rows,)
        and np.asarray(whole.seeds).dtype == np.uint64
        and (u is None or (np.asarray(u).shape == (n_rows,) and np.asarray(u).dtype == np.float64))
    )
