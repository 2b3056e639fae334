"""Features of rows as numbers, for finding slices: arrays as they are, categories as one column per value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.groups import hashable
from aptset.kernels.formula import Floats
from aptset.tables import is_table, iterate_columns, names_of_columns
from aptset.validation.outcomes import check_features, check_projections

_ROWS_AT_ONCE = 4096  # few enough to stay in the cache


@dataclass(frozen=True)
class Features:
    """A numeric matrix (dense or sparse), the names of its columns, and the spread of each."""

    matrix: Any
    names: list[str]
    spread: Floats

    def means(self, rows: NDArray[np.intp]) -> Floats:
        """Return the mean of each feature over some rows."""
        return np.asarray(self.matrix[rows].mean(axis=0)).ravel() if len(rows) else np.full(len(self.names), np.nan)


def project(matrix: Any, vectors: Floats) -> Floats:
    """Return v.x for each vector and row, (vectors, rows).

    Terms are added feature by feature, so a row gets the same bits alone and in any batch (a BLAS product may not), and
    points that tie exactly stay tied wherever the slab is looked for, judged or asked about.
    """
    if hasattr(matrix, "tocsr"):
        return check_projections(np.ascontiguousarray((matrix @ vectors.T).T))
    projections = np.zeros((len(vectors), len(matrix)))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(matrix), _ROWS_AT_ONCE):
            part, columns = projections[:, start : start + _ROWS_AT_ONCE], matrix[start : start + _ROWS_AT_ONCE].T
            for j, column in enumerate(columns):
                part += vectors[:, j, None] * column
    return check_projections(projections)


def features_of(X: Any, names: list[str] | None = None, n_rows: int | None = None) -> Features:
    """Return X as features; ``names`` asks for certain columns, in that order."""
    matrix, found = _table(X, names or []) if is_table(X) else _plain(X)
    matrix = check_features(matrix, found, names, n_rows)
    if names is not None:
        matrix, found = matrix[:, [found.index(name) for name in names]], names
    return Features(matrix, found, _spread(matrix))


def can_be_sliced(X: Any, n_rows: int) -> bool:
    """Tell whether slices can be looked for in X: numbers and categories, without gaps."""
    try:
        features_of(X, None, n_rows)
    except (TypeError, ValueError, AttributeError):
        return False
    return True


def _spread(matrix: Any) -> Floats:
    """Return the standard deviation of each column."""
    if not hasattr(matrix, "tocsr"):
        return np.asarray(matrix.std(axis=0))
    n, mean = matrix.shape[0], np.asarray(matrix.mean(axis=0)).ravel()
    coordinates = matrix.tocoo()
    away = (coordinates.data - mean[coordinates.col]) ** 2 - mean[coordinates.col] ** 2
    total = np.bincount(coordinates.col, weights=away, minlength=matrix.shape[1]) + n * mean**2
    return np.asarray(np.sqrt(np.maximum(total / n, 0.0)))


def _plain(X: Any) -> tuple[Any, list[str]]:
    matrix = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    return matrix, [f"x{j}" for j in range(matrix.shape[1])]


def _table(X: Any, wanted: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Numbers as they are; a column per value for anything else, also for wanted values that do not occur here."""
    columns: list[NDArray[Any]] = []
    names: list[str] = []
    real = [str(name) for name in names_of_columns(X)]
    for name, column in zip(real, iterate_columns(X), strict=True):
        if isinstance(column, np.ndarray):
            columns.append(column.astype(np.float64))
            names.append(name)
            continue
        present = [hashable(value) for value in column]
        if present and all(isinstance(value, date) for value in present):
            columns.append(np.array(present, dtype="datetime64[us]").astype(np.int64) / 86_400e6)  # days
            names.append(name)
            continue
        values = np.array([f"{name}={'missing' if value is None else value}" for value in present])
        more = {other for other in wanted if other.startswith(f"{name}=") and other not in real}
        for value in sorted({*values.tolist(), *more}):
            columns.append((values == value).astype(np.float64))
            names.append(value)
    return np.column_stack(columns) if columns else np.empty((len(X), 0)), names
