"""What a model says once a row is taken out of its sums: naive Bayes and discriminants without one row each.

Removing a row from sums and from scatter matrices is exact (Sherman and Morrison 1950; Cherubin, Chatzikokolakis and
Jaggi 2021, "Exact optimization of conformal predictors via incremental and decremental learning").
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import issparse

from aptset.kernels.formula import Floats

Numbers = NDArray[np.intp]
OfModels = Callable[[Numbers], Floats]  # from numbers of rows that are left out to (models, rows, classes)

_CANCELLED = 1e-3  # of a sum of squares: what is left of it after a row is taken away is worked out anew below this


class InexactError(Exception):
    """A setting, or the data, for which a formula is not exact; the reason goes on as a sentence."""


def softmax(joint: Floats) -> Floats:
    """Return probabilities of logarithms, the last axis summing to 1; a class without rows has minus infinity."""
    shares: Floats = np.exp(joint - joint.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


class Downdate(ABC):
    """What the models without one row each say, from one fitted model and the rows that trained it.

    ``width`` is how many numbers are held for each model, row and class while they are worked out.
    """

    width = 1

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        self.model, self.X, self.y = model, X, y
        self.counts = np.bincount(y)
        if len(self.counts) - (self.counts == 1).any() < 2:
            raise InexactError("one class alone is left without a row")

    @abstractmethod
    def about(self, X: Any) -> OfModels:
        """Return what gives the probabilities of rows under models, (models, rows, classes)."""

    @abstractmethod
    def own(self, left_out: Numbers) -> Floats:
        """Return the probabilities of each row under the model that leaves it out, (rows, classes)."""

    def log_priors(self, left_out: Numbers) -> Floats:
        """Return the logarithm of the share of each class without a row, (models, 1, classes)."""
        counts = np.repeat(self.counts[None, :], len(left_out), axis=0)
        counts[np.arange(len(left_out)), self.y[left_out]] -= 1
        with np.errstate(divide="ignore"):
            return np.log(counts / (len(self.y) - 1))[:, None, :]


class JointFormula(Downdate):
    """A formula for the logarithm of the joint density of rows and classes."""

    def about(self, X: Any) -> OfModels:
        """Return what gives the probabilities of rows under models, (models, rows, classes)."""
        prepared = self.prepare(X)
        return lambda left_out: softmax(self.joint(left_out, prepared, paired=False))

    def own(self, left_out: Numbers) -> Floats:
        """Return the probabilities of each row under the model that leaves it out, (rows, classes)."""
        return softmax(self.joint(left_out, self.prepare(self.X[left_out]), paired=True))[:, 0]

    @abstractmethod
    def prepare(self, X: Any) -> Any:
        """Return what all models need to know of rows."""

    @abstractmethod
    def joint(self, left_out: Numbers, prepared: Any, paired: bool) -> Floats:
        """Return the logarithms, up to a constant of a row; if ``paired``, of row number b under model b alone."""


def moments_without_each(rows: Floats) -> tuple[Floats, Floats]:
    """Return means and variances of the columns without each row, (rows, columns).

    What is left of a sum of squares is a difference. Where little is left, the other rows are summed up anew.
    """
    n, center = len(rows), rows.mean(axis=0)
    away = rows - center
    squares = (away**2).sum(axis=0)
    means, left = center - away / (n - 1), squares - away**2 * (n / (n - 1))
    for row in np.flatnonzero((left < _CANCELLED * squares).any(axis=1)):
        others = np.delete(rows, row, axis=0)
        means[row], left[row] = others.mean(axis=0), others.var(axis=0) * (n - 1)
    return means, left / (n - 1)


class GaussianFormula(JointFormula):
    """GaussianNB: mean and variance of the row's class, and the smoothing by the largest variance of all rows."""

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        super().__init__(model, X, y)
        if model.priors is not None:
            raise InexactError("priors are given")
        self.width = X.shape[1]
        self.means, self.variances = (np.zeros((len(self.counts), X.shape[1])) for _ in range(2))
        self.mean_without, self.variance_without = np.zeros(X.shape), np.ones(X.shape)
        for label in range(len(self.counts)):
            rows = np.flatnonzero(y == label)
            self.means[label], self.variances[label] = X[rows].mean(axis=0), X[rows].var(axis=0)
            if len(rows) > 1:  # a class that is gone has the share 0
                self.mean_without[rows], self.variance_without[rows] = moments_without_each(X[rows])
        self.smoothing = model.var_smoothing * moments_without_each(X)[1].max(axis=1)
        if not self.smoothing.min() > 0:
            raise InexactError("nothing is added to variances, which may be 0")

    def prepare(self, X: Any) -> Any:
        """Return the rows."""
        return X

    def joint(self, left_out: Numbers, prepared: Any, paired: bool) -> Floats:
        """Return the logarithms of prior and densities."""
        models, label = np.arange(len(left_out)), self.y[left_out]
        means, variances = (np.repeat(part[None], len(left_out), axis=0) for part in (self.means, self.variances))
        means[models, label], variances[models, label] = self.mean_without[left_out], self.variance_without[left_out]
        variances += self.smoothing[left_out][:, None, None]
        rows = prepared[:, None, None, :] if paired else prepared[None, :, None, :]
        squares = ((rows - means[:, None]) ** 2 / variances[:, None]).sum(axis=-1)
        joint: Floats = self.log_priors(left_out) - 0.5 * (squares + np.log(variances).sum(axis=-1)[:, None])
        return joint


class CountFormula(JointFormula):
    """MultinomialNB and BernoulliNB: counts of the row's class less those of the row."""

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        super().__init__(model, X, y)
        self.alpha = np.asarray(model.alpha, dtype=np.float64)
        if model.class_prior is not None:
            raise InexactError("priors are given")
        if self.alpha.min() < 1e-10:
            raise InexactError("alpha is 0 or nearly so")
        self.counted, self.is_sparse = self.prepared_rows(X), issparse(X)
        values = self.counted.data if self.is_sparse else self.counted
        if (values != np.rint(values)).any() and model.feature_count_.max() > 1e4 * self.alpha.min():
            raise InexactError("counts are fractions, and alpha is small beside them")
        base = [self.weights(model.feature_count_[k], self.counts[k]) for k in range(len(self.counts))]
        self.base, self.constants = (np.array(part) for part in zip(*base, strict=True))

    @abstractmethod
    def weights(self, feature_counts: Floats, rows: Any) -> tuple[Floats, Floats]:
        """Return the weight of each column and a constant, given counts of a class, (..., columns), and its rows."""

    def prepared_rows(self, X: Any) -> Any:
        """Return the rows as they are counted."""
        return X

    def log_priors(self, left_out: Numbers) -> Floats:
        """Return the logarithm of the share of each class without a row, or of equal shares."""
        priors = super().log_priors(left_out)
        return priors if self.model.fit_prior else np.where(np.isfinite(priors), 0.0, priors)

    def prepare(self, X: Any) -> Any:
        """Return the rows as they are counted, and the logarithms of densities under the one fitted model."""
        rows = self.prepared_rows(X)
        return rows, np.asarray(rows @ self.base.T) + self.constants

    def joint(self, left_out: Numbers, prepared: Any, paired: bool) -> Floats:
        """Return the logarithms of prior and densities: those of one class differ from those of the fitted model."""
        (rows, base), label = prepared, self.y[left_out]
        own = self.counted[left_out]
        own = own.toarray() if self.is_sparse else own
        weights, constants = self.weights(self.model.feature_count_[label] - own, (self.counts[label] - 1)[:, None])
        joint = base[:, None, :].copy() if paired else np.repeat(base[None], len(left_out), axis=0)
        if paired:
            of_class = (rows.multiply(weights) if issparse(rows) else rows * weights).sum(axis=1)
            of_class = np.asarray(of_class).reshape(-1, 1)
        else:
            of_class = np.asarray(rows @ weights.T).T
        joint[np.arange(len(left_out)), :, label] = of_class + constants[:, None]
        return joint + self.log_priors(left_out)


class MultinomialFormula(CountFormula):
    """MultinomialNB."""

    def weights(self, feature_counts: Floats, rows: Any) -> tuple[Floats, Floats]:
        """Return the logarithm of each column's share, smoothed."""
        smoothed = feature_counts + self.alpha
        shares: Floats = np.log(smoothed) - np.log(smoothed.sum(axis=-1, keepdims=True))
        return shares, np.zeros(smoothed.shape[:-1])


class BernoulliFormula(CountFormula):
    """BernoulliNB."""

    def prepared_rows(self, X: Any) -> Any:
        """Return the rows as 0 and 1."""
        from sklearn.preprocessing import binarize

        return X if self.model.binarize is None else binarize(X, threshold=self.model.binarize)

    def weights(self, feature_counts: Floats, rows: Any) -> tuple[Floats, Floats]:
        """Return the logarithm of each column's odds, and what a row of zeros has."""
        present: Floats = np.log(feature_counts + self.alpha) - np.log(rows + 2 * self.alpha)
        absent = np.log(1 - np.exp(present))
        return present - absent, absent.sum(axis=-1)


def whitening(scatter: Floats, columns: Floats) -> tuple[Floats, float]:
    """Return W with W.T @ scatter @ W = 1, and the smallest eigenvalue after columns are divided by their scales."""
    if not columns.min() > 0:
        raise InexactError("a column is constant within classes")
    scaled = scatter / np.outer(columns, columns)
    try:
        lower = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError as error:
        raise InexactError("columns are collinear within classes") from error
    return solve_triangular(lower, np.diag(1 / columns), lower=True).T, float(np.linalg.eigvalsh(scaled)[0])


def check_leverage(leverage: Floats, smallest: float, least: float) -> None:
    """Refuse a scatter that is nearly singular without a row.

    A row takes at most the share of its leverage from any direction, which bounds what is left of the smallest one.
    """
    left = 1 - leverage.max()
    if not left > 1e-4:
        raise InexactError("a row by itself spans a direction within its class")
    if not smallest * left > least:
        raise InexactError("columns are nearly collinear within classes")


class LinearFormula(JointFormula):
    """LinearDiscriminantAnalysis: the scatter within classes less the row's part, by Sherman and Morrison."""

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        super().__init__(model, X, y)
        for name in ("priors", "shrinkage", "covariance_estimator"):
            if getattr(model, name) is not None:
                raise InexactError(f"{name} is given")
        means = np.array([X[y == label].mean(axis=0) for label in range(len(self.counts))])
        away = X - means[y]
        tolerance = model.tol if model.solver == "svd" else 1e-4  # below which svd drops a direction
        least = (2 * max(tolerance, 1e-4)) ** 2 * len(X)
        self.white, smallest = whitening(away.T @ away, away.std(axis=0))
        self.center = X.mean(axis=0)
        self.means, self.away = (means - self.center) @ self.white, away @ self.white
        self.lost = self.counts[y] / np.maximum(self.counts[y] - 1, 1)  # of a row's square, with its class's mean
        self.leverage = self.lost * (self.away**2).sum(axis=1)
        check_leverage(self.leverage, smallest, least)
        self.degrees = self._degrees()
        if model.solver == "svd":
            self._check_rank(model.tol)

    def _degrees(self) -> int:
        """Return how many degrees the fitted model takes off n where it divides the scatter: 0, or one for a class."""
        probabilities = self.model.predict_proba(self.X)
        for degrees in (0, len(self.counts)):
            joint = self._discriminants(self.means, np.zeros(self.X.shape[1]), 0.0, len(self.X) - degrees)
            priors = np.log(self.counts / len(self.y))
            if np.abs(softmax((self.prepare(self.X) @ joint[0].T) + joint[1] + priors) - probabilities).max() < 1e-10:
                return degrees
        raise InexactError("the fitted model is not reproduced")

    @staticmethod
    def _discriminants(means: Floats, along: Floats, gain: Any, divisor: Any) -> tuple[Floats, Floats]:
        """Return coefficients and constants of the classes for the inverse divisor * (1 + gain * along along.T)."""
        on = (means * along[..., None, :]).sum(axis=-1)  # (..., classes)
        gain, divisor = np.asarray(gain)[..., None], np.asarray(divisor)[..., None]
        coefficients = divisor[..., None] * (means + (gain * on)[..., None] * along[..., None, :])
        return coefficients, -0.5 * divisor * ((means**2).sum(axis=-1) + gain * on**2)

    def _without(self, left_out: Numbers) -> tuple[Floats, Floats, Floats]:
        """Return the means, the vector that leaves the scatter, and its gain, of each model."""
        label, away = self.y[left_out], self.away[left_out]
        means = np.repeat(self.means[None], len(left_out), axis=0)
        means[np.arange(len(left_out)), label] -= away / np.maximum(self.counts[label] - 1, 1)[:, None]
        along = np.sqrt(self.lost[left_out])[:, None] * away
        return means, along, 1 / (1 - self.leverage[left_out])

    def _check_rank(self, tolerance: float) -> None:
        """Refuse data of which svd drops a direction between classes without some row, in blocks of rows."""
        n_directions = min(len(self.counts) - 1, self.X.shape[1])
        for rows in np.array_split(np.arange(len(self.y)), -(-len(self.y) // 256)):
            means, along, gain = self._without(rows)
            shares = np.exp(self.log_priors(rows)[:, 0])
            between = np.sqrt(shares)[..., None] * (means - np.einsum("bk,bkd->bd", shares, means)[:, None])
            on = np.einsum("bkd,bd->bk", between, along)
            squares = between @ between.transpose(0, 2, 1) + gain[:, None, None] * on[:, :, None] * on[:, None, :]
            spread = np.linalg.eigvalsh(squares)[:, ::-1]
            n_left = n_directions - (self.counts[self.y[rows]] == 1) * (n_directions == len(self.counts) - 1)
            smallest = spread[np.arange(len(rows)), n_left - 1]
            if not (smallest > (2 * max(tolerance, 1e-6)) ** 2 * spread[:, 0]).all():
                raise InexactError("means of classes are nearly collinear")

    def prepare(self, X: Any) -> Any:
        """Return the rows in coordinates in which the scatter within classes is 1."""
        return (X - self.center) @ self.white

    def joint(self, left_out: Numbers, prepared: Any, paired: bool) -> Floats:
        """Return the discriminants of rows."""
        means, along, gain = self._without(left_out)
        n_classes = len(self.counts) - (self.counts[self.y[left_out]] == 1)
        divisor = len(self.y) - 1 - (n_classes if self.degrees else 0)
        coefficients, constants = self._discriminants(means, along, gain, np.broadcast_to(divisor, len(left_out)))
        rows = prepared[:, None, :] if paired else prepared[None]
        joint: Floats = rows @ coefficients.transpose(0, 2, 1) + constants[:, None] + self.log_priors(left_out)
        return joint


class QuadraticFormula(JointFormula):
    """QuadraticDiscriminantAnalysis: the scatter of the row's class less its part, and the determinant lemma."""

    def __init__(self, model: Any, X: Any, y: Numbers) -> None:
        super().__init__(model, X, y)
        for name in ("priors", "shrinkage", "covariance_estimator"):  # older versions lack some of them
            if getattr(model, name, None) is not None:
                raise InexactError(f"{name} is given")
        if model.reg_param != 0:
            raise InexactError("reg_param is given")
        self.means, self.away, self.leverage = np.array(model.means_), np.zeros(X.shape), np.zeros(len(X))
        self.lost = self.counts[y] / np.maximum(self.counts[y] - 1, 1)
        of_classes = [self._whiten(label, model.tol) for label in range(len(self.counts))]
        self.white, self.log_determinants = (np.array(part) for part in zip(*of_classes, strict=True))
        self.degrees = self._degrees()

    def _whiten(self, label: int, tolerance: float) -> tuple[Floats, float]:
        """Return coordinates in which the scatter of a class is 1, and the logarithm of its determinant."""
        rows = np.flatnonzero(self.y == label)
        away = self.X[rows] - self.means[label]
        white, smallest = whitening(away.T @ away, np.ones(away.shape[1]))
        self.away[rows] = away @ white
        self.leverage[rows] = self.lost[rows] * (self.away[rows] ** 2).sum(axis=1)
        check_leverage(self.leverage[rows], smallest, 2 * max(tolerance, 1e-12) * len(rows))
        return white, -2 * float(np.linalg.slogdet(white)[1])

    def _degrees(self) -> int:
        """Return how many degrees the fitted model takes off the rows of a class where it divides their scatter."""
        probabilities = self.model.predict_proba(self.X)
        _, squares = self.prepare(self.X)
        for self.degrees in (0, 1):
            if (
                np.abs(softmax(self._densities(squares) + np.log(self.counts / len(self.y))) - probabilities).max()
                < 1e-10
            ):
                return self.degrees
        raise InexactError("the fitted model is not reproduced")

    def _densities(self, squares: Floats) -> Floats:
        divisor = self.counts - self.degrees
        densities: Floats = divisor * squares + self.log_determinants - self.X.shape[1] * np.log(divisor)
        return -0.5 * densities

    def prepare(self, X: Any) -> Any:
        """Return the rows in the coordinates of each class, (classes, rows, columns), and their squared lengths."""
        white = np.array([(X - mean) @ white for mean, white in zip(self.means, self.white, strict=True)])
        return white, (white**2).sum(axis=-1).T

    def joint(self, left_out: Numbers, prepared: Any, paired: bool) -> Floats:
        """Return the logarithms of prior and densities: those of one class differ from those of the fitted model."""
        (white, squares), label = prepared, self.y[left_out]
        base = self._densities(squares)
        joint = base[:, None, :].copy() if paired else np.repeat(base[None], len(left_out), axis=0)
        for of_class in np.unique(label):
            models = np.flatnonzero(label == of_class)
            rows = white[of_class][models][:, None] if paired else white[of_class][None]
            joint[models, :, of_class] = self._of_class(of_class, left_out[models], rows)
        return joint + self.log_priors(left_out)

    def _of_class(self, label: int, left_out: Numbers, rows: Floats) -> Floats:
        """Return the logarithms of the densities of rows in a class without one row each, (models, rows)."""
        n, away, leverage = self.counts[label] - 1, self.away[left_out][:, None], self.leverage[left_out][:, None]
        squares, on_row = (rows**2).sum(axis=-1), rows @ away.transpose(0, 2, 1)
        length, on = (away**2).sum(axis=-1), on_row[..., 0] + (away**2).sum(axis=-1) / n
        moved = squares + 2 * on_row[..., 0] / n + length / n**2  # from the mean without the row
        divisor, lost = n - self.degrees, self.counts[label] / n
        distances = divisor * (moved + lost * on**2 / (1 - leverage))
        log_determinant = self.log_determinants[label] + np.log1p(-leverage) - self.X.shape[1] * np.log(divisor)
        densities: Floats = distances + log_determinant
        return -0.5 * densities
