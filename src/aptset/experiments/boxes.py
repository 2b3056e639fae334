"""The paper's black boxes, with its settings and its clipping of probabilities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from aptset.experiments.models import Model

_ORACLE_FLOOR = 1e-6


class Clipped(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose probabilities are at least ``floor`` for each of ``n_classes`` labels 0, 1, ...

    The paper's code clips, and it matters: without it a label that a model rules out costs every other label's place.
    """

    def __init__(self, estimator: Any, floor: float, n_classes: int) -> None:
        self.estimator = estimator
        self.floor = floor
        self.n_classes = n_classes

    def fit(self, X: Any, y: Any) -> Clipped:
        """Fit a clone of the estimator. The paper's settings make it stop early or use what will go: no warnings."""
        self.classes_ = np.arange(self.n_classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 20 epochs, as in the paper
            warnings.filterwarnings("ignore", category=FutureWarning, message=".*probability.*")
            self.estimator_ = clone(self.estimator).fit(X, y)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return clipped and renormalised probabilities of all labels, also of those that did not occur."""
        raw = np.zeros((len(X), self.n_classes))
        raw[:, self.estimator_.classes_] = self.estimator_.predict_proba(X)
        return clip(raw, self.floor)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))


class Oracle(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The true probabilities, which need no data."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Oracle:
        """Learn nothing."""
        self.classes_ = np.arange(self.model.n_classes)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the truth, clipped like the other boxes."""
        return clip(self.model.probabilities(X), _ORACLE_FLOOR)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))


def clip(probabilities: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Raise probabilities to a floor and divide each row by its sum."""
    raised = np.clip(probabilities, floor, 1.0)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


SIMULATED: dict[str, Any] = {
    "SVC": SVC(kernel="linear", C=1.0, probability=True),
    "RFC": RandomForestClassifier(n_estimators=1000, max_depth=5, max_features=None),
}
REAL: dict[str, Any] = {
    "NNet": MLPClassifier(hidden_layer_sizes=(64,), learning_rate_init=0.01, batch_size=128, max_iter=20),
    "SVC": SIMULATED["SVC"],
    "RFC": RandomForestClassifier(n_estimators=100, min_samples_leaf=3, max_features="sqrt"),
}
BOXES = ("Oracle", "NNet", "SVC", "RFC")


def make_box(name: str, n_classes: int, model: Model | None) -> Any:
    """Return a black box for simulated data (where the model is known) or for real data."""
    if name == "Oracle":
        assert model is not None, "only designs on simulated data ask for the oracle"
        return Oracle(model)
    table, total = (REAL, 0.1) if model is None else (SIMULATED, 1e-5)
    return Clipped(clone(table[name]), total / n_classes, n_classes)
