"""Labels, classes, and which column each label is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.labels import Coded, columns_of, hashable, plain_labels, some


def check_classes(classes: Any, n_columns: int, names: NDArray[Any] | None, labels: Any) -> NDArray[Any]:
    """Return the label of each column: as given, from the column names, or the column numbers."""
    if classes is None:
        if names is not None:
            return names
        kind = as_labels(labels, "labels").dtype.kind
        return np.array([False, True]) if kind == "b" and n_columns == 2 else np.arange(n_columns)
    found = as_labels(classes, "classes").copy()  # the caller may go on to change theirs
    if len(found) != n_columns:
        raise ValueError(
            f"classes must name each of the {n_columns} columns of probabilities; got {len(found)} classes."
        )
    check_hashable(found, "classes")
    if any(hashable(label) is None and label is not None for label in found.tolist()):
        raise ValueError(f"classes must not be missing: NaN equals nothing, not even itself; got {some(found)}.")
    if len(set(found.tolist())) != len(found):
        raise ValueError(f"classes must be distinct; got {some(found)}.")
    return found


def check_hashable(values: NDArray[Any], name: str) -> None:
    """Refuse lists, dictionaries and other values that cannot be looked up."""
    for row, value in enumerate(values.tolist() if values.dtype == object else []):
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{name} must be texts, numbers or other values that can be looked up; got {value!r} in row {row}."
            ) from error


def check_labels(labels: Any, classes: NDArray[Any], n_rows: int, name: str = "labels") -> NDArray[np.int64]:
    """Return the column number of each label."""
    if isinstance(labels, Coded):
        check_length(labels, n_rows, name)
        columns = check_labels(labels.values, classes, len(labels.values), name)
        return np.take(columns, labels.codes)
    found = as_labels(labels, name)
    check_length(found, n_rows, name)
    check_hashable(found, name)
    columns = columns_of(found, classes)
    if (columns < 0).any():
        row = int(np.argmax(columns < 0))
        raise ValueError(
            f"{name} must be among the classes {some(classes)}; got {found.tolist()[row]!r} in row {row}. "
            "Pass classes=... to name the columns of the probabilities."
        )
    return columns


def check_length(values: Any, n_rows: int, name: str) -> None:
    """Refuse one value too many or too few."""
    if len(values) != n_rows:
        raise ValueError(f"{name} must have one entry per row: {n_rows} rows, but {len(values)} entries came.")


def as_labels(labels: Any, name: str) -> NDArray[Any]:
    """Return labels as a 1-D array; a list of texts and numbers keeps them apart, and so does one of odd texts."""
    refuse_masked(labels, name)
    try:
        found = np.asarray(plain_labels(labels))
    except ValueError as error:
        raise ValueError(f"{name} must be 1-D, one label per row; got rows of different lengths.") from error
    is_list = isinstance(labels, list | tuple) and found.ndim == 1
    if found.dtype.kind in "US" and is_list and not all(map(_fits_an_array, set(labels))):
        found = np.empty(len(labels), dtype=object)
        found[:] = labels
    if found.ndim != 1:
        raise ValueError(f"{name} must be 1-D; got shape {found.shape}.")
    return found


def _fits_an_array(label: Any) -> bool:
    """Tell whether numpy's texts keep a label as it is: they lose zeros at the end, and make texts of numbers."""
    return (isinstance(label, str) and label[-1:] != "\0") or (isinstance(label, bytes) and label[-1:] != b"\0")


def refuse_masked(values: Any, name: str) -> None:
    """Refuse entries that are marked as not being there."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):  # pandas' nullable arrays have masks, too
        raise ValueError(f"{name} must have no masked entries. Fill or drop those rows.")


def refuse_unstable_value(value: Any, name: str = "X") -> None:
    """Refuse a value of X whose content cannot be told: its row would get another u in every process."""
    if getattr(type(value), "__repr__", None) is object.__repr__:
        raise TypeError(
            f"{name} must hold numbers, texts or values with a repr of their content; got a {type(value).__name__}. "
            + ("Pass ids=... that name the rows" if name == "X" else "Pass numbers or texts")
            + ", or give the class a __repr__ that shows its content."
        )
