"""The paper's two simulated models, with their true probabilities."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC


class Model(Protocol):
    """A law of (X, Y) whose probabilities are known."""

    n_classes: int

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw X."""
        ...

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(Y = j | x) for every row and label."""
        ...


@dataclass(frozen=True, eq=False)
class Multinomial:
    """Model 1: ten features, the first of which decides how hard a row is; ten labels."""

    beta: NDArray[np.float64]
    n_classes: int = 10

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Multinomial:
        """Draw the coefficients of one repetition."""
        return cls(generator.standard_normal((10, 10)))

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """X1 = 1 with probability 1/5, else -8; the others are standard normal."""
        X = generator.standard_normal((n, 10))
        X[:, 0] = np.where(generator.random(n) < 0.2, 1.0, -8.0)
        return X

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(Y = j | x) is proportional to exp(x . beta_j)."""
        logits = X @ self.beta
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Mixed:
    """Model 2: rows are impossible, hard or easy by their first three features; four labels."""

    n_classes: int = 4

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Mixed:
        """Return the model: it has no coefficients to draw."""
        return cls()

    def draw_features(self, n: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Two skewed signs, a fair sign, a label, and a normal feature that means nothing."""
        first, second = np.where(generator.random((2, n)) < 0.25, -1.0, 1.0)
        third = np.where(generator.random(n) < 0.5, -1.0, 1.0)
        label = generator.integers(4, size=n).astype(np.float64)
        return np.column_stack([first, second, third, label, generator.standard_normal(n)])

    def probabilities(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Uniform if X1 = -1; two labels if X2 = -1, which two by X3; else 9/10 on label X4."""
        pairs = np.where(X[:, [2]] < 0, [0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5])
        peaked = np.where(np.arange(4) == X[:, [3]], 9 / 10, 1 / 30)
        return np.asarray(np.where(X[:, [0]] < 0, 0.25, np.where(X[:, [1]] < 0, pairs, peaked)))


def draw_labels(probabilities: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.intp]:
    """Draw a label for each row."""
    below = probabilities.cumsum(axis=1)[:, :-1]
    labels: NDArray[np.intp] = (generator.random((len(below), 1)) >= below).sum(axis=1)
    return labels


MODELS: dict[str, Any] = {"model1": Multinomial, "model2": Mixed}


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
