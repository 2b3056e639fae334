"""The paper's two simulated models, with their true probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


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
