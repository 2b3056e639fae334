"""Models that leave one row out each, by formulas instead of fits: the jackknife+ for the price of one fit.

Removing a row from k nearest neighbours, from sums and from scatter matrices is exact (Cherubin, Chatzikokolakis and
Jaggi 2021, "Exact optimization of conformal predictors via incremental and decremental learning"). What a formula gives
is compared with two models that were fitted without their row; where they differ, or where a setting makes a formula
inexact, every model is fitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import _num_samples, validate_data

from aptset.conformal.aggregation import Tally, chunks, on_mean_grid
from aptset.core.labels import columns_of
from aptset.core.matrix import OF_ESTIMATOR, check_rows
from aptset.core.validate import warn_caller
from aptset.estimator.downdates import (
    BernoulliFormula,
    CountFormula,
    Downdate,
    GaussianFormula,
    InexactError,
    LinearFormula,
    MultinomialFormula,
    Numbers,
    OfModels,
    QuadraticFormula,
)
from aptset.estimator.fitting import Samples, Training, aligned, fresh, steady, take
from aptset.estimator.models import Encoding
from aptset.kernels.formula import Floats

LARGEST_DIFFERENCE = 1e-9  # between a formula and a fit
FEWEST_ROWS = 10  # with fewer rows, nothing is gained
_MOST_TIES = 0.1  # share of rows whose neighbours are undecided from which on all models are fitted


class NeighbourFormula(Downdate):
    """KNeighborsClassifier: without a row, the next one is a neighbour of those that it was a neighbour of.

    Equal distances decide nothing: which of them scikit-learn takes depends on the order of rows, on its tree and on
    the last bits of a matrix product. Where rows of different classes are at the distance of the last neighbour, the
    model without the row is fitted.
    """

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        super().__init__(model, X, y)
        if model.weights not in ("uniform", "distance"):
            raise InexactError("weights are a function")
        if model.effective_metric_ not in ("euclidean", "manhattan", "chebyshev", "minkowski") or model.metric_params:
            raise InexactError("distances are of another kind than Minkowski's")
        self.k, self.n_asked = model.n_neighbors, min(model.n_neighbors + 10, len(y))
        if self.n_asked < self.k + 2:
            raise InexactError("there are hardly more rows than neighbours")
        self.largest = float((X**2).sum(axis=1).max())
        rows = np.arange(len(y))
        own, is_clear = self._own(rows)
        if (~is_clear).mean() > _MOST_TIES:
            raise InexactError("many rows are equally far from others")
        for row in np.flatnonzero(~is_clear).tolist():
            own[row] = self._refitted(row, X[row : row + 1])[0]
        self._of_rows = own

    def own(self, left_out: Numbers) -> Floats:
        """Return the probabilities of each row under the model that leaves it out, (rows, classes)."""
        return self._of_rows[left_out]

    def _neighbours(self, X: Any) -> tuple[Floats, Numbers, Floats]:
        """Return distances and numbers of the nearest rows, and how far distances of a row are from being exact."""
        distances, rows = self.model.kneighbors(X, n_neighbors=self.n_asked)
        scale = (X**2).sum(axis=1) + self.largest  # of what a matrix product rounds: squares of distances
        error = 1e-11 * scale / np.maximum(distances[:, self.k - 1], np.sqrt(1e-11 * scale))
        return distances, rows, error + 1e-11 * distances[:, self.k + 1]

    def _votes(self, distances: Floats, labels: Numbers, error: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the votes of the first k of lists of neighbours, and whether these k are beyond doubt.

        They are if the next one is clearly further away, or if all that are as far as the last one are of one class.
        """
        k, rows = self.k, np.arange(len(labels))
        last, is_last = labels[:, k - 1], np.abs(distances - distances[:, k - 1 : k]) <= error[:, None]
        ends = ~is_last[:, -1] | (self.n_asked == len(self.y))
        is_clear = ~is_last[:, k] | (ends & (~is_last | (labels == last[:, None])).all(axis=1))
        weights = np.ones((len(rows), k))
        if self.model.weights == "distance":
            with np.errstate(divide="ignore"):
                weights = 1 / distances[:, :k]
            touching = np.isinf(weights)
            weights = np.where(touching.any(axis=1, keepdims=True), touching, weights)
        votes = np.zeros((len(rows), len(self.counts)))
        for place in range(k):
            votes[rows, labels[:, place]] += weights[:, place]
        return votes / votes.sum(axis=1, keepdims=True), is_clear

    def _without(
        self, distances: Floats, neighbours: Numbers, error: Floats, place: Numbers
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the votes of neighbours without the one at a place of each list."""
        kept = np.arange(self.n_asked) != place[:, None]
        shape = (len(place), self.n_asked - 1)
        return self._votes(distances[kept].reshape(shape), self.y[neighbours[kept].reshape(shape)], error)

    def _own(self, left_out: Numbers) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the votes about rows without themselves, and whether they are beyond doubt."""
        distances, neighbours, error = self._neighbours(self.X[left_out])
        is_self = neighbours == left_out[:, None]
        votes, is_clear = self._without(distances, neighbours, error, is_self.argmax(axis=1))
        return votes, is_clear & is_self.any(axis=1)

    def about(self, X: Any) -> OfModels:
        """Return what gives the probabilities of rows under models, (models, rows, classes)."""
        distances, neighbours, error = self._neighbours(X)
        base, is_clear = self._votes(distances, self.y[neighbours], error)
        rows, places = np.nonzero(np.ones((len(neighbours), self.k + 1)))

        def of_models(left_out: Numbers) -> Floats:
            numbers = np.full(len(self.y), -1)
            numbers[left_out] = np.arange(len(left_out))
            probabilities = np.repeat(base[None], len(left_out), axis=0)
            clear = np.repeat(is_clear[None], len(left_out), axis=0)
            model = numbers[neighbours[rows, places]]
            row, place, model = rows[model >= 0], places[model >= 0], model[model >= 0]
            if len(row):
                probabilities[model, row], clear[model, row] = self._without(
                    distances[row], neighbours[row], error[row], place
                )
            for number in np.flatnonzero(~clear.all(axis=1)).tolist():
                probabilities[number] = self._refitted(int(left_out[number]), X)
            return probabilities

        return of_models

    def _refitted(self, row: int, X: Any) -> Floats:
        """Return what a model that was fitted without a row says."""
        model = clone(self.model).fit(np.delete(self.X, row, axis=0), np.delete(self.y, row))
        probabilities = np.zeros((len(X), len(self.counts)))
        probabilities[:, model.classes_] = model.predict_proba(X)
        return probabilities


def formulas() -> dict[type, type[Downdate]]:
    """Return the formula of each kind of model; a subclass may do anything, and has none."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier

    return {
        KNeighborsClassifier: NeighbourFormula,
        GaussianNB: GaussianFormula,
        MultinomialNB: MultinomialFormula,
        BernoulliNB: BernoulliFormula,
        LinearDiscriminantAnalysis: LinearFormula,
        QuadraticDiscriminantAnalysis: QuadraticFormula,
    }


class LeaveOneOut(BaseEstimator):  # type: ignore[misc]
    """One fitted model and the rows that trained it, which stand for as many models without one row each.

    Parameters
    ----------
    model : classifier
        Fitted on all rows, with the labels 0, 1, ...
    X : array or sparse matrix
        The rows, in the order in which they trained it.
    y : array of int
        Their labels.
    rows : array of int
        Which row each of the models leaves out.
    """

    def __init__(self, model: Any, X: Any, y: Numbers, rows: Numbers) -> None:
        self.model, self.X, self.y, self.rows = model, X, y, rows

    @classmethod
    def of(cls, model: Any, X: Any, y: Numbers, rows: Numbers) -> LeaveOneOut:
        """Return the models without one row each; refuse what has no exact formula."""
        matrix = _matrix(model, X)
        if matrix.dtype not in (np.dtype(np.float64), np.dtype(np.bool_)) and matrix.dtype.kind not in "iu":
            raise InexactError(f"X is of {matrix.dtype}")
        whole = cls(model, matrix.astype(np.float64), y, rows)
        _ = whole.formula
        return whole

    @cached_property
    def formula(self) -> Downdate:
        """What is worked out from the rows, once."""
        kind = formulas()[type(self.model)]
        if issparse(self.X) and not issubclass(kind, CountFormula):
            raise InexactError("X is sparse")
        return kind(self.model, self.X, self.y)

    def __getstate__(self) -> dict[str, Any]:
        """Return what goes to a file or another process: nothing that can be worked out again."""
        return {name: getattr(self, name) for name in ("model", "X", "y", "rows")}

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of the fitted model."""
        labels: NDArray[Any] = self.model.classes_
        return labels

    def about(self, X: Any) -> OfModels:
        """Return what gives the probabilities of rows under models by their numbers, (models, rows, classes)."""
        of_rows = self.formula.about(_matrix(self.model, X).astype(np.float64))
        return lambda models: of_rows(self.rows[models])

    def own(self) -> Floats:
        """Return the probabilities that each model gives the row that it leaves out, (models, classes)."""
        step = max(1, 2**20 // (self.X.shape[1] * len(self.classes_)))
        starts = range(0, len(self.rows), step)
        return np.concatenate([self.formula.own(self.rows[start : start + step]) for start in starts])


def _matrix(model: Any, X: Any) -> Any:
    """Return X as the model would see it, names of columns checked."""
    return validate_data(model, X, accept_sparse="csr", reset=False)


@dataclass(frozen=True)
class LeftOut:
    """One of the models without one row each, as a classifier of its own."""

    whole: Any  # a LeaveOneOut, or one with labels
    number: int

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels; one whose only row is left out has the probability 0."""
        labels: NDArray[Any] = self.whole.classes_
        return labels

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return int(self._model.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns of X, if they had any."""
        names: NDArray[Any] = self._model.feature_names_in_
        return names

    def predict_proba(self, X: Any) -> Floats:
        """Return what the model says of X."""
        probabilities: Floats = self.whole.about(X)(np.array([self.number]))[0]
        return probabilities

    @property
    def _model(self) -> Any:
        return self.whole.model if isinstance(self.whole, LeaveOneOut) else self.whole.model.model


def fits_quietly(fit: Callable[[], Any]) -> Any:
    """Return what is fitted; what warns or fails is left to fits of every model, which say so."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return fit()
    except InexactError:
        raise
    except Exception as error:
        raise InexactError(f"one fit on all rows says {type(error).__name__}: {str(error)[:100]}") from error


_CELLS = 2**18  # of probabilities that several models give at a time, where one formula stands for them
_CHECKED = 200  # rows about which a formula is compared with a fitted model


def leave_each_out(training: Training) -> tuple[list[LeftOut], list[Any]]:
    """Return a model without each row by one fit, and what is to be remembered; refuse where that is not exact."""
    _check_leaves_one_out(training)
    rows = np.arange(len(training.y)) if training.places is None else np.argsort(training.places)
    positions, X, encoding = np.argsort(rows), take(training.samples.X, rows), Encoding(training.y[rows])
    model, y = fresh(training.estimator), encoding.y.astype(np.intp)
    fits_quietly(lambda: model.fit(X, y))
    left_out = positions[[fold.held_out[0] for fold in training.folds]]
    whole: Any = encoding.decoded(fits_quietly(lambda: LeaveOneOut.of(model, X, y, left_out)))
    own = aligned(whole.own(), whole.classes_, training.classes)
    fits_quietly(lambda: _check_by_fits(training, whole, own))
    return [LeftOut(whole, fold) for fold in range(len(left_out))], training.remember_each(steady(own))


def _check_leaves_one_out(training: Training) -> None:
    """Refuse models and folds that no formula speaks of."""
    leaves_one_out = all(len(fold.held_out) == 1 and fold.train is None for fold in training.folds)
    if not leaves_one_out or len(training.folds) != len(training.y) or training.combine.holds_all_models:
        raise InexactError("folds hold several rows")
    if type(training.estimator) not in formulas():
        raise InexactError(f"no formula is known for {type(training.estimator).__name__}")
    if len(training.y) < FEWEST_ROWS or training.words is not None:
        raise InexactError("there are few rows, or clusters")
    if any(value is not None for value in training.fit_params.values()):
        raise InexactError(f"fit takes {sorted(training.fit_params)}")


def _check_by_fits(training: Training, whole: Any, own: Floats) -> None:
    """Fit two models, of a row of the rarest class and of the row that was expected least, and compare them."""
    held_out, n = np.array([fold.held_out[0] for fold in training.folds]), len(training.y)
    columns = columns_of(training.y[held_out], training.classes)
    rare, least = np.bincount(columns)[columns].argmin(), own[np.arange(n), columns].argmin()
    rows = np.unique(np.concatenate([held_out[[rare, least]], np.linspace(0, n - 1, min(n, _CHECKED)).astype(np.intp)]))
    about = whole.about(take(training.samples.X, rows))
    for fold in {int(rare), int(least)}:
        model = training.fit_model(fold)
        expected = aligned(model.predict_proba(take(training.samples.X, rows)), model.classes_, training.classes)
        given = aligned(about(np.array([fold]))[0], whole.classes_, training.classes)
        difference = max(np.abs(given - expected).max(), np.abs(own[fold] - expected[rows == held_out[fold]]).max())
        if not difference <= LARGEST_DIFFERENCE:
            raise DifferingError(f"a model without one row differs from its formula by {difference:.2g}")


class DifferingError(InexactError):
    """A formula that was thought exact, and is not."""


def warn_differing(error: DifferingError) -> None:
    """Say that a shortcut was tried in vain: sets are right, and took as many fits as there are rows."""
    warn_caller(
        f"models without one row each are fitted one by one: {error}. Sets are as promised; the fit takes longer than "
        "it would. Columns on very different scales are the usual reason: standardize X beforehand."
    )


def tally_left_out(whole: Any, kept: Sequence[Any], new: Samples, classes: NDArray[Any], combine: type[Tally]) -> Tally:
    """Tally new samples under models that one formula stands for, some models at a time."""
    about, tally = whole.about(new.X), combine(len(new), len(classes))
    for models in blocks_of_models(whole, len(kept), len(new)):
        probabilities = steady(aligned(about(models), whole.classes_, classes))
        folds = [kept[model] for model in models]
        rows = new.stacked(len(models)).rows(probabilities.reshape(-1, len(classes)))
        check_rows(rows.probabilities, tally.add_models(folds, rows, new.ids), OF_ESTIMATOR, normalize=False)
    return tally


def blocks_of_models(whole: Any, n_models: int, n_rows: int) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of models that are asked together, so that memory stays bounded."""
    step = max(1, _CELLS // (n_rows * len(whole.classes_) * whole.formula.width))
    for start in range(0, n_models, step):
        yield np.arange(start, min(start + step, n_models))


def mean_of_left_out(whole: Any, n_models: int, X: Any, classes: NDArray[Any]) -> NDArray[np.generic]:
    """Return the mean of the probabilities of models that one formula stands for."""
    n_rows = _num_samples(X)
    total = np.zeros((n_rows, len(classes)))
    for rows in chunks(n_rows, len(classes) * whole.formula.width):
        about = whole.about(take(X, rows))
        for models in blocks_of_models(whole, n_models, rows.stop - rows.start):
            total[rows] += on_mean_grid(steady(aligned(about(models), whole.classes_, classes))).sum(axis=0)
    return total / n_models
