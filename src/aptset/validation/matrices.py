"""Matrices of probabilities, their rows, and the uniforms that go with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.kernels.formula import Floats
from aptset.tables import columns_of_table, is_table
from aptset.validation.labels import check_length, columns_of, some

# How far a row may sum from 1 before it is refused: what rounding to the dtype can explain, with room to spare.
_TOLERANCES = {"float16": 2e-2, "float32": 1e-3}
_TOLERANCE = 1e-5  # of float64 and integers: float64 that was float32 once must pass


def check_probabilities(
    probabilities: Any, name: str, classes: NDArray[Any] | None = None
) -> tuple[NDArray[np.generic], NDArray[Any] | None]:
    """Return a numeric matrix, and the column names if it came as a table; columns follow ``classes`` if given.

    Rows are checked later, in the one pass that reads them.
    """
    names = None
    if is_table(probabilities):
        probabilities, names = columns_of_table(probabilities)
        if classes is not None:
            probabilities, names = _columns_in_order(probabilities, names, classes, name), classes
    matrix = _as_matrix(probabilities, name)
    if classes is not None and matrix.shape[1] != len(classes):
        raise ValueError(
            f"{name} must have one column per class: {len(classes)} classes, but {matrix.shape[1]} columns came. "
            "Pass the probabilities of all classes, in the order of `classes`."
        )
    return matrix, names


def _as_matrix(values: Any, name: str) -> NDArray[np.generic]:
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name} must be a dense matrix; got {type(values).__name__}. Pass {name}.toarray().")
    try:
        matrix = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a matrix with rows of equal length; got ragged rows.") from error
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers; got dtype {matrix.dtype}. Convert it, e.g. {name}.astype(float).")
    if matrix.ndim != 2:
        way_out = " For one row pass it as [row]; for two classes pass both columns." if matrix.ndim == 1 else ""
        raise ValueError(f"{name} must be 2-D, (rows, classes); got shape {matrix.shape}.{way_out}")
    if matrix.shape[1] < 2:
        raise ValueError(
            f"{name} must have at least 2 columns, one per class; got one class only, shape {matrix.shape}. "
            "For two classes pass both columns."
        )
    if len(matrix) == 0:
        raise ValueError(f"{name} must have at least one row; got an empty matrix of shape {matrix.shape}.")
    return matrix


def _columns_in_order(matrix: NDArray[Any], names: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[Any]:
    where = columns_of(classes, names)
    if len(names) != len(classes) or (where < 0).any():
        raise ValueError(
            f"{name} must have the columns {some(classes)}; got {some(names)}. Pass an array to go by position."
        )
    return matrix[:, where]


def tolerance_of(matrix: NDArray[np.generic]) -> float:
    """Return how far rows of this dtype may sum from 1."""
    return _TOLERANCES.get(matrix.dtype.name, _TOLERANCE)


def check_rows(matrix: NDArray[np.generic], first_bad: int, name: str, normalize: bool, start: int = 0) -> None:
    """Explain the first bad row, if there is one; the matrix begins at row ``start`` of what the user passed."""
    if first_bad < 0:
        return
    row = np.asarray(matrix[first_bad], dtype=np.float64)
    first_bad += start
    for rule, wrong in (("finite", ~np.isfinite(row)), ("at least 0", row < 0)):
        if wrong.any():
            column = int(np.argmax(wrong))
            raise ValueError(
                f"{name} must be {rule}; got {row[column]} in row {first_bad}, column {column}. "
                "Clean the rows first: a score of a wrong probability would give a wrong set."
            )
    total = math.fsum(row)
    if normalize:
        raise ValueError(f"{name} must have rows that can be normalised; row {first_bad} sums to {total}.")
    raise ValueError(
        f"{name} must have rows that sum to 1 (within {tolerance_of(matrix):g} for {matrix.dtype}); "
        f"row {first_bad} sums to {total:.9g}. Pass normalize=True to divide each row by its sum."
    )


def check_u(u: ArrayLike | None, n_rows: int) -> Floats | None:
    """Return one uniform per row."""
    if u is None:
        return None
    found = np.asarray(u)
    if found.dtype.kind not in "fiu":
        raise TypeError(f"u must hold numbers in [0, 1]; got dtype {found.dtype}.")
    if found.ndim == 0:
        found = np.broadcast_to(found, (n_rows,))
    if found.ndim != 1:
        raise ValueError(f"u must be 1-D, one uniform per row; got shape {found.shape}.")
    check_length(found, n_rows, "u")
    found = found.astype(np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        row = int(np.argmin((found >= 0) & (found <= 1)))
        raise ValueError(f"u must be in [0, 1]; got {found[row]} in row {row}.")
    return found


def uniforms_of(u: ArrayLike | None, n_rows: int, randomized: bool) -> Floats | None:
    """Return the u to use: the caller's, ones without randomisation, or None for keyed ones."""
    found = check_u(u, n_rows)
    if randomized:
        return found
    if found is not None:
        raise ValueError("u must be left out with randomized=False, which uses u = 1 everywhere; drop one of the two.")
    return np.ones(n_rows)
