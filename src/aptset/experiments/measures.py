"""What is written down about the sets of a cell: overall, and given a feature or the true label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.experiments.models import Model
from aptset.judging.metrics import coverage, mean_size, size_given_coverage
from aptset.judging.worst_slice import worst_slice_coverage
from aptset.kernels.formula import Floats
from aptset.sets import PredictionSets

METRICS = ("coverage", "worst_slice", "size", "size_given_coverage")


def measure(
    sets: PredictionSets, X: Floats, y: NDArray[Any], model: Model | None, seed: int
) -> Iterator[dict[str, Any]]:
    """Yield one row for all test rows, then one for each condition.

    ``expected_coverage`` is the mean true probability of the labels in a set, known for simulated data only: coverage
    without the chance of the test labels.
    """
    worst = worst_slice_coverage(sets, y, X, random_state=seed).coverage
    expected = np.full(len(y), np.nan) if model is None else (model.probabilities(X) * sets.mask).sum(axis=1)
    for condition, rows in _conditions(X, y, model):
        some = sets[rows]
        yield {
            "condition": condition,
            "n": len(rows),
            "coverage": float(coverage(some, y[rows])),
            "worst_slice": float(worst) if condition == "all" else float("nan"),
            "size": float(mean_size(some)),
            "size_given_coverage": float(size_given_coverage(some, y[rows])),
            "expected_coverage": float(expected[rows].mean()),
        }


def _conditions(X: Floats, y: NDArray[Any], model: Model | None) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield all rows; then those of each value of the first feature (simulated data) or each true label (real data)."""
    yield "all", np.arange(len(y))
    name, values = ("label", y) if model is None else ("X1", X[:, 0])
    for value in np.unique(values):
        yield f"{name}={value:g}", np.flatnonzero(values == value)
