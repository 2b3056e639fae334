"""What is written down about the sets of a cell: overall, and given a feature or the true label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.sets import PredictionSets
from aptset.experiments.models import Model
from aptset.judging.metrics import OF_SPLITS
from aptset.judging.outcome import Outcome


def measure(
    sets: PredictionSets, X: NDArray[np.float64], y: NDArray[Any], model: Model | None, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield one row for all test rows, then one for each condition, where metrics of features are not looked for.

    ``expected_coverage`` is the mean true probability of the labels in a set, known for simulated data only: coverage
    without the chance of the test labels.
    """
    expected = np.full(len(y), np.nan) if model is None else (model.probabilities(X) * sets.mask).sum(axis=1)
    for condition, rows in _conditions(X, y, model):
        outcome, features = Outcome.of(sets[rows], y[rows]), X if condition == "all" else None
        yield {
            "condition": condition,
            "n": len(rows),
            **{name: one.value(outcome, X=features, random_state=seed) for name, one in OF_SPLITS.items()},
            "expected_coverage": float(expected[rows].mean()),
        }


def _conditions(X: NDArray[np.float64], y: NDArray[Any], model: Model | None) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield all rows; then those of each value of the first feature (simulated data) or each true label (real data)."""
    yield "all", np.arange(len(y))
    name, values = ("label", y) if model is None else ("X1", X[:, 0])
    for value in np.unique(values):
        yield f"{name}={value:g}", np.flatnonzero(values == value)
