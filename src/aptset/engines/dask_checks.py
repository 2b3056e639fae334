"""What dask collections must be, before anything is computed; what their rows must be is said where rows are read."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

_KINDS = "a dask DataFrame (with columns of probabilities), or a dask array of shape (rows, classes)"


def refuse_collection(rows: Any) -> NoReturn:
    """Say what can hold rows."""
    raise TypeError(
        f"rows must be {_KINDS}; got {type(rows).__module__}.{type(rows).__name__}. Rows in one process go to "
        "aptset.calibrate or aptset.calibrate_batches."
    )


def check_texts(names: Any) -> list[str]:
    """Return the names of columns, which must be texts."""
    others = [name for name in names if not isinstance(name, str)]
    if others:
        raise ValueError(
            f"columns must be called by texts, as Arrow wants; got {others[0]!r}. Pass frame.rename(columns=str)."
        )
    return list(names)


def check_name(name: Any, argument: str) -> None:
    """Refuse anything but the name of a column beside a DataFrame."""
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"{argument} must name a column where rows are a DataFrame; got {type(name).__name__}. Assign it to a "
            "column first."
        )


def check_no_columns(probabilities: Any, prefix: Any) -> None:
    """Refuse names of columns beside an array, which has none."""
    for name, value in (("probabilities", probabilities), ("prefix", prefix)):
        if value is not None:
            raise ValueError(
                f"{name} must be left out where rows are an array: all its columns are probabilities; got {value!r}. "
                "Pass classes=... to name them."
            )


def check_matrix(shape: tuple[Any, ...]) -> int:
    """Return how many classes an array of probabilities has."""
    if len(shape) != 2 or np.isnan(shape[1]):
        raise ValueError(f"rows must be {_KINDS}, whose number is known; got an array of shape {shape}.")
    return int(shape[1])


def check_is_given(values: Any, name: str) -> Any:
    """Return what must come with an array: a value for each row."""
    if values is None or isinstance(values, str):
        raise TypeError(
            f"{name} must be an array with one value a row where rows are an array; got {values!r}. Names of columns "
            "go with a dask DataFrame."
        )
    return values


def check_one_dimension(shape: tuple[Any, ...], name: str) -> None:
    """Refuse values that are no column."""
    if len(shape) != 1:
        raise ValueError(f"{name} must have one value a row; got an array of shape {shape}.")


def check_cut_alike(n_values: float, n_rows: float, blocks_of_values: int, blocks: int, name: str) -> None:
    """Refuse values that cannot stand beside the rows of an array."""
    if np.isnan(n_values) or np.isnan(n_rows):
        if blocks_of_values != blocks:
            raise ValueError(
                f"{name} must be cut into blocks as the rows are, since their lengths are not known; got "
                f"{blocks_of_values} blocks beside {blocks}. Call compute_chunk_sizes() on both first."
            )
    elif n_values != n_rows:
        raise ValueError(f"{name} must have one value a row; got {int(n_values)} for {int(n_rows)} rows.")


def check_block(n_values: int, n_rows: int, name: str) -> None:
    """Refuse a block whose values are more or fewer than its rows."""
    if n_values != n_rows:
        raise ValueError(
            f"{name} must be cut into blocks as the rows are; a block of {n_rows} rows has {n_values}. Call "
            "compute_chunk_sizes() on both first."
        )
