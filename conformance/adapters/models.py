"""A fitted classifier whose probabilities are its input, for libraries that ask a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Given(ClassifierMixin, BaseEstimator):
    """What it is shown is what it says."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    @property
    def classes_(self) -> np.ndarray:
        return np.asarray(self.classes)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[np.asarray(X).argmax(axis=1)]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def members_to_mask(sets: Any, n_classes: int) -> np.ndarray:
    """Turn a list of lists of class numbers into a mask."""
    mask = np.zeros((len(sets), n_classes), dtype=bool)
    for row, members in enumerate(sets):
        mask[row, np.asarray(members, dtype=int)] = True
    return mask
