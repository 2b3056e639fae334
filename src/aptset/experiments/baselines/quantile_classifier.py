"""Conformal quantile classification (CQC), the competitor that regresses the true label's probability on x."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from aptset.core.labels import columns_of
from aptset.core.validate import check_alpha, check_choice, check_generator, check_option, warn_if_too_few
from aptset.estimator.checks import check_estimator_can, check_training_data
from aptset.estimator.fitting import probabilities_of, seed_unseeded, take
from aptset.experiments.baselines.network import ForestQuantiles, NetworkQuantiles
from aptset.kernels.counting import rank_at
from aptset.kernels.formula import Floats
from aptset.sets import PredictionSets

REGRESSORS = {"network": NetworkQuantiles, "forest": ForestQuantiles}


class ConformalQuantileClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction sets from a quantile of the true label's probability: CQC, and CQC-RF with a forest.

    A third of the rows trains the classifier; on the second third the probability that it gives the true label is
    regressed on x, at a quantile q(x); the last third calibrates: the set holds the labels with p_y >= q(x) - c, where
    c is the ceil((1 - alpha)(n + 1))-th smallest q(x) - p_Y(x).

    Parameters
    ----------
    estimator : classifier
        Anything with ``fit`` and ``predict_proba``.
    quantiles : {"network", "forest"} or regressor, default="network"
        What regresses; its ``predict`` returns two columns, the lower and the upper quantile. "network" needs torch
        (extra ``network``), "forest" quantile-forest (extra ``forest``).
    side : {"upper", "lower"}, default="upper"
        Which quantile is kept. The code of Romano, Sesia and Candes keeps the upper one, at 1 - alpha; the paper that
        introduced CQC (Cauchois, Gupta, Duchi) the lower one, at alpha. Both are valid.
    alpha : float, default=0.1
        Miscoverage level, and the lower one of the two quantiles.
    random_state : None, int or numpy random generator, optional
        Decides the three parts, and every ``random_state`` that is None.

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    model_, quantiles_
        The fitted classifier and regressor.
    corrections_ : array
        The sorted q(x) - p_Y(x) of the last third.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from aptset.experiments.baselines import ConformalQuantileClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = ConformalQuantileClassifier(GaussianNB(), quantiles="forest", random_state=0).fit(X, y)
    >>> bool(classifier.predict_set(X).covers(y).mean() > 0.85)
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        quantiles: Any = "network",
        side: Literal["upper", "lower"] = "upper",
        alpha: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.quantiles = quantiles
        self.side = side
        self.alpha = alpha
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ConformalQuantileClassifier:
        """Train the classifier, regress, and calibrate, on one third of the rows each."""
        alpha = check_alpha(self.alpha)
        check_option(self.side, ("upper", "lower"), "side")
        check_estimator_can(self.estimator)
        table = {name: (lambda kind=kind: kind(float(alpha))) for name, kind in REGRESSORS.items()}
        regressor = check_choice(self.quantiles, table, "predict", "quantiles")
        X, y, classes = check_training_data(self, X, y, minimum=3)
        generator = check_generator(self.random_state)
        first, second, third = thirds(len(y), generator)
        model, regressor = clone(self.estimator), clone(regressor)
        for part in (model, regressor):
            seed_unseeded(part, int(generator.integers(2**63)))
        model.fit(take(X, first), y[first])
        regressor.fit(take(X, second), _of_true_label(model, X, y, second, classes))
        lowest = _side(regressor.predict(take(X, third)), self.side)
        corrections = np.sort(lowest - _of_true_label(model, X, y, third, classes))
        self.model_, self.quantiles_, self.corrections_, self.classes_ = model, regressor, corrections, classes
        if hasattr(model, "n_features_in_"):
            self.n_features_in_ = model.n_features_in_
        return self

    def predict_set(self, X: Any, alpha: float | None = None) -> PredictionSets:
        """Return the prediction set of each row; at another alpha, the regression stays that of ``fit``."""
        check_is_fitted(self)
        level = check_alpha(self.alpha if alpha is None else alpha)
        n = len(self.corrections_)
        warn_if_too_few({"all": n}, [level], "all")
        k = rank_at(n, level)
        probabilities = np.asarray(probabilities_of(self.model_, X, self.classes_), dtype=np.float64)
        correction = np.inf if k > n else self.corrections_[k - 1]
        # The same difference as in fit, so that a row of the last third at the threshold is decided as it was there.
        scores = _side(self.quantiles_.predict(X), self.side)[:, None] - probabilities
        return _most_likely_first(scores <= correction, probabilities, self.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.generic]:
        """Return the probabilities of the classifier."""
        check_is_fitted(self)
        return probabilities_of(self.model_, X, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        best = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[best])


def thirds(n: int, generator: np.random.Generator) -> list[NDArray[np.intp]]:
    """Divide n rows at random into three parts; of 1000 rows, 333, 334 and 333."""
    order = generator.permutation(n)
    first, last = n // 3, n // 3
    return [np.sort(part) for part in (order[:first], order[first : n - last], order[n - last :])]


def _side(quantiles: Floats, side: str) -> Floats:
    return np.asarray(quantiles, dtype=np.float64)[:, 1 if side == "upper" else 0]


def _of_true_label(model: Any, X: Any, y: NDArray[Any], rows: NDArray[np.intp], classes: NDArray[Any]) -> Floats:
    """Return the probability that a model gives the true label of some rows."""
    probabilities = probabilities_of(model, take(X, rows), classes)
    return np.asarray(probabilities[np.arange(len(rows)), columns_of(y[rows], classes)], dtype=np.float64)


def _most_likely_first(members: NDArray[np.bool_], probabilities: Floats, classes: NDArray[Any]) -> PredictionSets:
    order = np.argsort(-probabilities, axis=1, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(members.sum(axis=1), dtype=np.int64)])
    indices = order[np.take_along_axis(members, order, axis=1)].astype(np.int32)
    return PredictionSets.trusted(indptr, indices, classes)
