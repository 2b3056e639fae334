"""Labels, classes, which column each label is, and tables of labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.labels import Coded, as_objects, columns_at_once, columns_of, hashable, plain_labels, some


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


_NAME_THEM = "Pass classes=... to name the columns of the probabilities."


def check_labels(
    labels: Any,
    classes: NDArray[Any],
    n_rows: int,
    name: str = "labels",
    way_out: str = _NAME_THEM,
    row_of: Callable[[int], int] = int,
) -> NDArray[np.int64]:
    """Return the column number of each label; ``row_of`` says which row a label is of, where several share one."""
    if isinstance(labels, Coded):
        check_length(labels, n_rows, name)
        codes = labels.codes

        def first_row(code: int) -> int:
            return row_of(int(np.argmax(codes == code)))

        return np.take(check_labels(labels.values, classes, len(labels.values), name, way_out, first_row), codes)
    found = as_labels(labels, name)
    check_length(found, n_rows, name)
    check_hashable(found, name)
    known = columns_at_once(found, classes)
    columns = columns_of(found, classes) if known is None else known
    if known is None and (columns < 0).any():
        place = int(np.argmax(columns < 0))
        raise ValueError(
            f"{name} must be among the classes {some(classes)}; got {found.tolist()[place]!r} in row {row_of(place)}. "
            + way_out
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


def check_training_counts(counts: Any) -> None:
    """Refuse what does not say how many training rows each label has."""
    check_label_table(counts, "counts", "its number of training rows", "Pass collections.Counter(y_train).")
    for label, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, Integral) or not 0 <= int(count) < 2**53 - 1:
            raise ValueError(
                f"counts must be whole numbers of training rows, 0 or more; got {count!r} for the label {label!r}. "
                "Pass collections.Counter(y_train), not shares."
            )


def check_label_table(table: Any, name: str, what: str, way_out: str) -> None:
    """Refuse what is no dictionary of labels: a Series, for instance, may hold labels or be indexed by them."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{name} must be a dictionary from each label to {what}; got {type(table).__name__}. {way_out}")
    if not len(table):
        raise ValueError(f"{name} must be a dictionary from each label to {what}; it is empty. {way_out}")
    if any(hashable(label) is None and label is not None for label in table):
        raise ValueError(f"{name} must not have a missing label: NaN equals nothing, not even itself.")


def check_every_label(table: Mapping[Any, Any], labels: NDArray[Any], name: str, way_out: str) -> list[Any]:
    """Return what a table says of each label; refuse a label that it leaves out."""
    missing = list(dict.fromkeys(label for label in labels.tolist() if label not in table))
    if missing:
        raise ValueError(
            f"{name} must speak of every label; {some(as_objects(missing))} are not in it, which has "
            f"{some(as_objects(list(table)))}. {way_out}"
        )
    return [table[label] for label in labels.tolist()]
