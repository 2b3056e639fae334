"""Matrices of probabilities, their rows, and the uniforms that go with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core.devices import is_bfloat16, is_sparse, is_tensor, on_host
from aptset.core.labels import as_labels, check_classes, check_length, columns_of, refuse_masked, some
from aptset.core.tables import is_table, matrix_of_table, names_of_columns
from aptset.kernels.formula import Floats, normalised
from aptset.kernels.rows import softmax_by_blocks

OF_ESTIMATOR = "probabilities of the estimator"

# How far a row may sum from 1 before it is refused: what rounding to the dtype can explain, with room to spare.
TOLERANCES = {np.dtype(np.float16): 2e-2, np.dtype(np.float32): 1e-3}
TOLERANCE = 1e-5  # of float64 and integers: float64 that was float32 once must pass
_LOOKED_AT = 2**17  # cells that are asked at a time whether they are probabilities


def check_probabilities(probabilities: Any, name: str) -> tuple[NDArray[np.generic], NDArray[Any] | None]:
    """Return a numeric matrix, and the names of its columns if it came as a table.

    Rows are checked later, in the one pass that reads them.
    """
    if type(probabilities) is np.ndarray and probabilities.dtype.kind == "f" and probabilities.ndim == 2:
        n_rows, n_columns = probabilities.shape
        if n_columns > 1 and n_rows:  # the usual case: nothing to ask
            return probabilities, None
    if not is_table(probabilities):
        return _as_matrix(probabilities, name), None
    names = names_of_columns(probabilities)
    if len(set(names)) != len(names):
        raise ValueError(f"{name} must have distinct column names; got {names}.")
    matrix, other = matrix_of_table(probabilities)
    if matrix is None:
        raise TypeError(f"{name} must hold numbers; column {other!r} does not. Pass the columns of probabilities only.")
    return _as_matrix(matrix, name), as_labels(names, "column names")


def check_named_columns(
    matrix: NDArray[np.generic], names: NDArray[Any] | None, classes: Any, labels: Any, name: str
) -> tuple[NDArray[np.generic], NDArray[Any]]:
    """Return the matrix with its columns in the order of the classes, and the classes.

    A table goes by name, never by position: its column names must be the classes.
    """
    known = check_classes(classes, matrix.shape[1], names, labels)
    if names is None or classes is None:
        return matrix, known
    where = columns_of(known, names)
    if (where < 0).any():
        raise ValueError(
            f"{name} must have the columns {some(known)}, the classes; got {some(names)}. Rename the columns, or pass "
            "an array to go by position."
        )
    return matrix[:, where], known


def check_new_probabilities(
    probabilities: Any, name: str, classes: NDArray[Any], columns: NDArray[Any] | None
) -> NDArray[np.generic]:
    """Return a matrix with one column per class; a table goes by its column names, as at calibration (``columns``)."""
    matrix, names = check_probabilities(probabilities, name)
    if matrix.shape[1] != len(classes):
        raise ValueError(
            f"{name} must have one column per class: {len(classes)} classes, but {matrix.shape[1]} columns came. "
            "Pass the probabilities of all classes, in the order of `classes`."
        )
    if names is None:
        return matrix
    for known in (classes, columns):
        where = columns_of(known, names) if known is not None else np.array([-1])
        if (where >= 0).all():
            return matrix[:, where]
    raise ValueError(
        f"{name} must have the columns {some(classes if columns is None else columns)}; got {some(names)}. "
        "Pass an array to go by position."
    )


def _as_matrix(values: Any, name: str) -> NDArray[np.generic]:
    if is_sparse(values):
        way_out = "to_dense()" if is_tensor(values) else "toarray()"
        raise TypeError(f"{name} must be a dense matrix; got {type(values).__name__}. Pass {name}.{way_out}.")
    try:
        matrix = np.asarray(on_host(values))
    except ValueError as error:
        raise ValueError(f"{name} must be a matrix with rows of equal length; got ragged rows.") from error
    refuse_masked(values, name)
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


def tolerance_of(matrix: NDArray[np.generic], given: Any = None) -> float:
    """Return how far rows of this dtype may sum from 1; ``given`` is what the matrix came as."""
    if given is not None and is_bfloat16(given):
        return TOLERANCES[np.dtype(np.float16)]  # numpy has it as float32
    return TOLERANCES.get(matrix.dtype, TOLERANCE)


def check_rows(
    matrix: NDArray[np.generic],
    first_bad: int,
    name: str,
    normalize: bool,
    tolerance: float | None = None,
) -> None:
    """Explain the first bad row, if there is one; ``tolerance`` is what its sum was held to, if not by its dtype."""
    if first_bad < 0:
        return
    row = np.asarray(matrix[first_bad], dtype=np.float64)
    of_model = name == OF_ESTIMATOR
    if np.isfinite(row).all() and _look_like_logits(matrix):
        way_out = "softmax in its predict_proba" if of_model else "softmax, or pass logits=True"
        what = f"at least 0; got {row.min()} in row" if (row < 0).any() else f"rows of sum 1; got {row.sum()} in row"
        raise ValueError(
            f"{name} must be {what} {first_bad}, column {int(row.argmin())}. These look like logits: apply {way_out}."
        )
    for rule, wrong in (("finite", ~np.isfinite(row)), ("at least 0", row < 0)):
        if wrong.any():
            column = int(np.argmax(wrong))
            raise ValueError(
                f"{name} must be {rule}; got {row[column]} in row {first_bad}, column {column}. Correct such "
                "rows first: a wrong probability gives a wrong set."
            )
    with np.errstate(over="ignore"):
        total = float(row.sum())
    if normalize:
        raise ValueError(f"{name} must have rows that can be normalised; row {first_bad} sums to {total}.")
    usual = tolerance_of(matrix)
    if abs(total - 1) <= (tolerance or usual) / 2:
        raise ValueError(
            f"{name} must not change while it is read: row {first_bad} was bad, and sums to {total:.9g} now. Pass a "
            "copy that no other thread or process writes to."
        )
    kind = matrix.dtype if tolerance in (None, usual) else "bfloat16"
    way_out = "divide them in its predict_proba" if of_model else "Pass normalize=True to divide each row by its sum"
    raise ValueError(
        f"{name} must have rows that sum to 1 (within {tolerance or usual:g} for {kind}); "
        f"row {first_bad} sums to {total:.9g}. {way_out}."
    )


def _look_like_logits(matrix: NDArray[np.generic]) -> bool:
    """Tell whether most rows are far from any distribution, rather than one of them broken."""
    some_rows = np.asarray(matrix[:1000], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        off = (np.abs(some_rows.sum(axis=1) - 1) > 0.05) | (some_rows > 1).any(axis=1)
    return bool(2 * np.count_nonzero(off & (some_rows < 0).any(axis=1)) > len(some_rows))


def shares_of(matrix: NDArray[Any]) -> Floats:
    """Return rows divided by their sums, with the bits that the loops have."""
    return normalised(matrix.astype(np.float64))


def softmax_of(matrix: NDArray[np.generic], name: str) -> Floats:
    """Return the probabilities of logits; refuse what is a matrix of probabilities already."""
    step = max(1, _LOOKED_AT // matrix.shape[1])
    parts = (matrix[start : start + step] for start in range(0, len(matrix), step))
    refuse_probabilities(all(map(_are_probabilities, parts)), name)  # logits show after a few rows
    return softmax_by_blocks(matrix)


def _are_probabilities(rows: NDArray[np.generic]) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        wide = rows.astype(np.float64, order="C")  # the order of a sum must not depend on the layout
        return bool((wide >= 0).all() and (np.abs(wide.sum(axis=1) - 1) <= TOLERANCE).all())


def refuse_probabilities(are_probabilities: bool, name: str) -> None:
    """Refuse a softmax of a softmax."""
    if are_probabilities:
        raise ValueError(f"{name} must be logits with logits=True; every row sums to 1 already. Drop logits=True.")


def check_u(u: ArrayLike | None, n_rows: int, may_be_one: bool = True) -> Floats | None:
    """Return one uniform per row; one number for all of them only where nothing is promised."""
    if u is None:
        return None
    refuse_masked(u, "u")
    uniforms = np.asarray(on_host(u))
    if uniforms.dtype.kind not in "fiu":
        raise TypeError(f"u must hold numbers in [0, 1]; got dtype {uniforms.dtype}.")
    if uniforms.ndim == 0 and not may_be_one:
        raise ValueError(f"u must hold one uniform per row, drawn for it; got the number {uniforms} for all of them.")
    if uniforms.ndim == 0:
        uniforms = np.broadcast_to(uniforms, (n_rows,))
    if uniforms.ndim != 1:
        raise ValueError(f"u must be 1-D, one uniform per row; got shape {uniforms.shape}.")
    check_length(uniforms, n_rows, "u")
    uniforms = uniforms.astype(np.float64)
    if not ((uniforms >= 0) & (uniforms <= 1)).all():
        row = int(np.argmin((uniforms >= 0) & (uniforms <= 1)))
        raise ValueError(f"u must be in [0, 1]; got {uniforms[row]} in row {row}.")
    return uniforms
