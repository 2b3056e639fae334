"""Features of rows as numbers, for finding slices: arrays as they are, categories as one column per value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats
from aptset.tables import is_table, iterate_columns, names_of_columns
from aptset.validation.outcomes import check_features


@dataclass(frozen=True)
class Features:
    """A numeric matrix (dense or sparse), the names of its columns, and the spread of each."""

    matrix: Any
    names: list[str]
    spread: Floats

    def means(self, rows: NDArray[np.intp]) -> Floats:
        """Return the mean of each feature over some rows."""
        return np.asarray(self.matrix[rows].mean(axis=0)).ravel() if len(rows) else np.full(len(self.names), np.nan)


def project(matrix: Any, vector: Floats) -> Floats:
    """Return v.x of each row, by a sum that does not depend on how many rows there are (a BLAS product may)."""
    if hasattr(matrix, "tocsr"):
        return np.asarray(matrix @ vector).ravel()
    return np.asarray((matrix * vector).sum(axis=1))


def features_of(X: Any, names: list[str] | None = None, n_rows: int | None = None) -> Features:
    """Return X as features; ``names`` asks for certain columns, in that order."""
    matrix, found = _table(X, names or []) if is_table(X) else _plain(X)
    matrix = check_features(matrix, found, names, n_rows)
    if names is not None:
        matrix, found = matrix[:, [found.index(name) for name in names]], names
    return Features(matrix if hasattr(matrix, "tocsr") else np.ascontiguousarray(matrix), found, _spread(matrix))


def _spread(matrix: Any) -> Floats:
    if hasattr(matrix, "tocsr"):
        square = np.asarray(matrix.multiply(matrix).mean(axis=0)).ravel() - np.asarray(matrix.mean(axis=0)).ravel() ** 2
        return np.asarray(np.sqrt(np.maximum(square, 0.0)))
    return np.asarray(matrix.std(axis=0)) if len(matrix) else np.zeros(matrix.shape[1])


def _plain(X: Any) -> tuple[Any, list[str]]:
    matrix = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    return matrix, [f"x{j}" for j in range(matrix.shape[1])]


def _table(X: Any, wanted: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Numbers as they are; a column per value for anything else, also for wanted values that do not occur here."""
    columns: list[NDArray[Any]] = []
    names: list[str] = []
    for name, column in zip(names_of_columns(X), iterate_columns(X), strict=True):
        if isinstance(column, np.ndarray):
            columns.append(column.astype(np.float64))
            names.append(str(name))
            continue
        values = np.array([f"{name}={'missing' if value is None or value != value else value}" for value in column])
        for value in sorted({*values.tolist(), *(other for other in wanted if other.startswith(f"{name}="))}):
            columns.append((values == value).astype(np.float64))
            names.append(value)
    return np.column_stack(columns) if columns else np.empty((len(X), 0)), names
