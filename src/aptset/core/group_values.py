"""Where the group of each row comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from aptset.core.devices import is_on_device, is_tensor, on_host
from aptset.core.groups import (
    GROUPINGS,
    Cells,
    Groups,
    GroupValues,
    groups_labels,
    groups_overlap,
    is_grouping,
    is_pair,
)
from aptset.core.labels import Coded, as_objects, check_length, coded_array, coded_list, hashable
from aptset.core.overlapping import check_cells
from aptset.core.tables import column_values, is_table, names_of_columns, plain_list


def check_group_values(
    groups: Any, passed: Any, X: Any, n_rows: int, known: Groups | None = None
) -> GroupValues | None:
    """Return the group of each row, or None where there are no groups or the label decides.

    ``groups`` is the setting (None, the name of a grouping, a column of X, or a callable on X), ``passed`` what came
    with the rows, ``known`` the groups of calibration, if it is over.
    """
    groups = groups[0] if is_pair(groups) else groups  # of labels nothing needs to be known here
    passed = passed[0] if is_pair(passed) and (known is None or known.kind == "pair") else passed
    if groups_overlap(groups):
        raise TypeError(
            "groups=Overlapping(...) is about the rows of fit: pass it to fit, and the groups of new rows to "
            "predict_set."
        )
    if groups is None:
        if passed is not None and (groups_overlap(passed) or isinstance(passed, Cells) or _overlaps(known)):
            check_overlaps(known)
            return check_cells(passed, None if known is None else known.overlap, n_rows)
        return None if passed is None else _as_values(passed, n_rows)
    if passed is not None:
        raise ValueError(f"groups must come once: they are set to {groups!r} already. Leave one of the two out.")
    if groups_labels(groups):
        return None
    if is_grouping(groups) and (X is not None or GROUPINGS[groups] is None):
        groups = GROUPINGS[groups]
        if groups is None:
            return None
    if callable(groups):
        return _as_values(groups(X), n_rows)
    return _as_values(_column(groups, X), n_rows)


_OF_ROWS = ("row", "pair", "overlap")


def check_same_kind(kind: str, values: GroupValues | None) -> None:
    """Refuse groups at prediction that calibration did not have, and the other way round."""
    if kind in _OF_ROWS and values is None:
        raise ValueError(
            "groups must be passed with the new rows, since calibration was done by group. Pass groups=..., the "
            "group of each new row."
        )
    if kind not in _OF_ROWS and values is not None:
        raise ValueError("groups must be left out here, since calibration was not done by groups of rows.")


def _overlaps(known: Groups | None) -> bool:
    return known is not None and known.kind == "overlap"


def check_overlaps(known: Groups | None) -> None:
    """Refuse overlapping groups of new rows where calibration had none."""
    if known is not None and known.kind != "overlap":
        raise ValueError("groups must not overlap here, since calibration was not done by overlapping groups.")


def _as_values(values: Any, n_rows: int) -> GroupValues:
    if groups_labels(values):
        raise TypeError(
            "groups=LabelBands(...) is about labels, not rows: pass it to calibrate or ConformalClassifier, "
            "and no groups with new rows."
        )
    if isinstance(values, Coded):  # which were checked before
        check_length(values, n_rows, "groups")
        return values
    values = np.asarray(on_host(values)) if is_tensor(values) or is_on_device(values) else values
    if isinstance(values, str) or not (type(values) in (list, tuple) or np.ndim(values)):
        raise TypeError(
            f"groups must be None, 'label' or 1-D, with the group of each row; got {values!r}. Pass one value per row."
        )
    if is_table(values) or (isinstance(values, np.ndarray) and values.ndim > 1):
        raise TypeError(
            f"groups must be 1-D, with the group of each row; got {type(values).__name__} of shape {values.shape}. For "
            "groups that a row may be in several of, calibrate with groups=aptset.Overlapping(...)."
        )
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "iu":
        check_length(values, n_rows, "groups")
        return values.copy()  # whole numbers are looked up without a Python object per row, and more than once
    if isinstance(values, np.ndarray) and values.dtype.kind in "bUS" and values.dtype.itemsize:
        check_length(values, n_rows, "groups")
        return coded_array(values)
    listed = plain_list(values)
    check_length(listed, n_rows, "groups")
    try:
        several: GroupValues = coded_list(listed)
    except TypeError:  # some cannot be looked up
        several = listed
    for value in several.values if isinstance(several, Coded) else several:
        try:
            hash(hashable(value))
        except (TypeError, ValueError) as error:  # of two numbers, it cannot be told whether an array equals itself
            raise TypeError(f"groups must hold one plain value per row; got {value!r}.") from error
    return several


def _column(column: Any, X: Any) -> Any:
    if is_table(X):
        values = column_values(X, column)
        if values is None:
            raise ValueError(f"groups must name a column of X; got {column!r}. The columns are {names_of_columns(X)}.")
        return values
    is_number = isinstance(column, int | np.integer) and not isinstance(column, bool)
    if isinstance(X, list | tuple) and is_number:
        X = as_objects([row[column] for row in X if isinstance(row, list | tuple)])[:, None]
        column = 0
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if not is_number or len(shape) != 2 or not -shape[1] <= column < shape[1]:
        names = " or ".join(map(repr, GROUPINGS))
        raise ValueError(
            f"groups must be None, {names}, a column of X or a callable on X; got {column!r} for X of shape {shape}. "
            "Columns of a data frame go by name, those of an array by number."
        )
    values = X[:, [column]]
    return (values.toarray() if hasattr(values, "toarray") else values).ravel()
