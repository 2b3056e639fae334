"""Models that leave one row out each, by formulas instead of fits: the jackknife+ for the price of one fit.

Removing a row from k nearest neighbours, from sums and from scatter matrices is exact (Cherubin, Chatzikokolakis and
Jaggi 2021, "Exact optimization of conformal predictors via incremental and decremental learning"). What a formula gives
is compared with two models that were fitted without their row; where they differ, or where a setting makes a formula
inexact, every model is fitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import validate_data

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
            said = np.repeat(base[None], len(left_out), axis=0)
            clear = np.repeat(is_clear[None], len(left_out), axis=0)
            model = numbers[neighbours[rows, places]]
            row, place, model = rows[model >= 0], places[model >= 0], model[model >= 0]
            if len(row):
                said[model, row], clear[model, row] = self._without(distances[row], neighbours[row], error[row], place)
            for number in np.flatnonzero(~clear.all(axis=1)).tolist():
                said[number] = self._refitted(int(left_out[number]), X)
            return said

        return of_models

    def _refitted(self, row: int, X: Any) -> Floats:
        """Return what a model that was fitted without a row says."""
        model = clone(self.model).fit(np.delete(self.X, row, axis=0), np.delete(self.y, row))
        said = np.zeros((len(X), len(self.counts)))
        said[:, model.classes_] = model.predict_proba(X)
        return said


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

    @property
    def formula(self) -> Downdate:
        """What is worked out from the rows, once."""
        known: Downdate | None = self.__dict__.get("_formula")
        if known is None:
            kind = formulas()[type(self.model)]
            if issparse(self.X) and not issubclass(kind, CountFormula):
                raise InexactError("X is sparse")
            known = self.__dict__["_formula"] = kind(self.model, self.X, self.y)
        return known

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


def is_consistent(whole: LeaveOneOut, n_models: int) -> bool:
    """Tell whether rows, labels and models of something that was read from a file go together."""
    n, y, rows = n_models, np.asarray(whole.y), np.asarray(whole.rows)
    are_numbers = y.shape == rows.shape == (n,) and y.dtype.kind == rows.dtype.kind == "i"
    is_matrix = getattr(whole.X, "shape", None) == (n, getattr(whole.model, "n_features_in_", None))
    labels = np.asarray(getattr(whole.model, "classes_", []))
    return bool(
        are_numbers
        and is_matrix
        and whole.X.dtype == np.float64
        and np.array_equal(np.sort(rows), np.arange(n))
        and np.array_equal(np.unique(y), labels)
        and np.array_equal(labels, np.arange(len(labels)))
    )


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
        said: Floats = self.whole.about(X)(np.array([self.number]))[0]
        return said

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
