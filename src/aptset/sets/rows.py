"""Rows of labels: compressed rows, masks, lists and row numbers as they come in, checked; and sets in words and as
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import (
    as_labels,
    as_objects,
    check_classes,
    check_labels,
    check_length,
    columns_in_order,
    distinct,
    refuse_masked,
)
from aptset.core.tables import matrix_of_table, names_of_columns, plain_list, read_lists
from aptset.kernels.blocks import least_and_most, over_numbers
from aptset.kernels.long_arrays import pointers_of, repeated

if TYPE_CHECKING:
    from aptset.sets import PredictionSets


def check_pointers(indptr: Any, indices: Any, n_classes: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the two arrays of compressed rows, as copies."""
    pointers, members = np.asarray(indptr), np.asarray(indices)
    if pointers.dtype.kind not in "iu" or (members.dtype.kind not in "iu" and members.size):
        raise TypeError(f"indptr and indices must be integers; got {pointers.dtype} and {members.dtype}.")
    if pointers.ndim != 1 or len(pointers) == 0 or pointers[0] != 0 or _falls(pointers):
        raise ValueError("indptr must be 1-D, start at 0 and never fall. Or use PredictionSets.from_labels.")
    if members.ndim != 1 or len(members) != pointers[-1]:
        raise ValueError(f"indices must be 1-D with indptr[-1] = {pointers[-1]} entries; got shape {members.shape}.")
    low, high = least_and_most(members) if len(members) else (0, -1)
    if low < 0 or high >= n_classes:
        raise ValueError(f"indices must be positions in the {n_classes} classes; got {low if low < 0 else high}.")
    starts, columns = pointers.astype(np.int64), members.astype(np.int32)
    refuse_repeated(starts, columns, n_classes)
    return starts, columns


def _falls(pointers: NDArray[Any]) -> bool:
    """Tell whether a pointer is smaller than the one before."""
    n_rows = len(pointers) - 1
    return any(over_numbers(n_rows, lambda start, stop: (pointers[start + 1 : stop + 1] < pointers[start:stop]).any()))


def refuse_repeated(pointers: NDArray[np.int64], members: NDArray[np.int32], n_classes: int) -> None:
    """Refuse a set that holds a label twice."""
    row = repeated(pointers, members, n_classes)
    if row >= 0:
        raise ValueError(f"labels of a set must be distinct; row {row} holds one twice.")


def check_set_classes(classes: Any) -> NDArray[Any]:
    """Return the classes of a collection of sets, a copy of the caller's."""
    labels = as_labels(classes, "classes")
    return check_classes(labels, len(labels), None, None)


_SHOWN_ROWS, _SHOWN_LABELS = 6, 8
_PLAIN = "biufU"  # kinds of arrays that hold their labels as they are


def check_label_rows(labels: Any) -> list[NDArray[Any]]:
    """Return the labels of each row as an array."""
    rows = []
    for number, row in enumerate(labels):
        if type(row) is np.ndarray and row.ndim == 1 and row.dtype.kind in _PLAIN:
            rows.append(row)  # as `labels()` gives them: nothing to look at
            continue
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise TypeError(f"labels must hold a list of labels for each row; got {row!r} in row {number}.")
        rows.append(as_labels(list(row), f"labels of row {number}"))
    return rows


def check_mask(mask: Any, classes: Any) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return a boolean matrix and the label of each of its columns."""
    refuse_masked(mask, "mask")
    matrix = np.asarray(mask)
    if matrix.dtype != np.bool_ or matrix.ndim != 2:
        raise TypeError(f"mask must be a 2-D boolean matrix; got dtype {matrix.dtype}, shape {matrix.shape}.")
    return matrix, check_classes(classes, matrix.shape[1], None, [0])


def check_row_index(row: Any, n_rows: int) -> Any:
    """Return one row number (not negative), or an array of them."""
    if isinstance(row, int | np.integer) and not isinstance(row, bool):
        if not -n_rows <= row < n_rows:
            raise IndexError(f"row must be in [{-n_rows}, {n_rows}); got {row}.")
        return int(row) % n_rows
    if isinstance(row, slice):
        return np.arange(n_rows)[row]
    rows = np.asarray(row)
    if rows.ndim != 1 or (rows.dtype.kind not in "biu" and len(rows)):
        raise TypeError(f"row must be a number, a slice, row numbers or a boolean per row; got {row!r}.")
    if rows.dtype == np.bool_:
        check_length(rows, n_rows, "a boolean index")
        return np.flatnonzero(rows)
    return np.arange(n_rows)[rows.astype(np.intp)]


def refuse_nested_mask(rows: list[NDArray[Any]]) -> None:
    """Refuse nested lists of booleans, which may be a mask or sets of boolean labels."""
    lengths = {len(row) for row in rows}
    if rows and len(lengths) == 1 and lengths.pop() > 1 and all(row.dtype == np.bool_ for row in rows):
        raise TypeError(
            "sets must have one clear meaning; nested lists of booleans may be a mask or labels. Pass a mask as "
            "a numpy array."
        )


def check_table_of_sets(frame: Any) -> tuple[NDArray[np.bool_] | None, NDArray[Any]]:
    """Return the mask in a data frame of booleans and its classes, or None and the labels in its column "labels"."""
    names = names_of_columns(frame)
    if "labels" in names:
        lists = read_lists(frame["labels"])
        if lists is not None:
            return None, distinct(lists.names)
        rows = check_label_rows(plain_list(frame["labels"]))
        return None, distinct(as_objects([label for row in rows for label in row.tolist()]))
    matrix, _ = matrix_of_table(frame)
    if matrix is None or matrix.dtype != np.bool_:
        raise TypeError("sets as a data frame must hold one boolean column per class, or a column named labels.")
    return matrix, as_labels(names, "column names")


def in_one(rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Join the labels of all rows; those of several kinds without turning numbers into texts."""
    filled = [row for row in rows if len(row)]
    if filled and len({row.dtype.kind for row in filled}) == 1:
        return np.concatenate(filled)
    return as_objects([label for row in rows for label in row.tolist()])


def compressed(rows: list[NDArray[Any]], classes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return where the labels of each row start, and the position of each label in the classes."""
    pointers = pointers_of(np.array([len(row) for row in rows], dtype=np.int64))
    members = in_one(rows) if pointers[-1] else classes[:0]

    def row_of(place: int) -> int:
        return int(np.searchsorted(pointers, place, side="right")) - 1

    way_out = "Pass classes=... with every label that may be in a set."
    columns = check_labels(members, classes, len(members), way_out=way_out, row_of=row_of)
    return pointers, columns.astype(np.int32)


def as_text(sets: PredictionSets, title: str | None = None) -> str:
    """Return a title and the first rows."""
    shown = min(len(sets), _SHOWN_ROWS)
    rows = [f"  {row:>{len(str(shown))}}  {{{_row_text(sets, row)}}}" for row in range(shown)]
    more = [f"  ... {len(sets) - _SHOWN_ROWS} more rows"] if len(sets) > _SHOWN_ROWS else []
    return "\n".join([title or _title(sets), *rows, *more])


def as_html(sets: PredictionSets) -> str:
    """Return a title and a table of the first rows."""
    from html import escape  # here, since it is slow to import

    cells = "".join(
        f"<tr><th>{row}</th><td>{sets.sizes[row]}</td><td>{escape(_row_text(sets, row))}</td></tr>"
        for row in range(min(len(sets), _SHOWN_ROWS))
    )
    head = "<tr><th>row</th><th>size</th><th>labels, most likely first</th></tr>"
    left_out = len(sets) - _SHOWN_ROWS
    more = f"<p>... {left_out} more rows</p>" if left_out > 0 else ""
    return f"<p>{escape(_title(sets))}</p><table>{head}{cells}</table>{more}"


def shown(label: Any) -> str:
    """Return a label in one line, in quotes where commas or blanks at its ends would hide where it stops."""
    text = str(label)
    is_plain = text.isprintable() and text == text.strip() and not any(mark in text for mark in ",{}") and text
    return text if is_plain else repr(text)


def _title(sets: PredictionSets) -> str:
    mean = f", mean size {sets.sizes.mean():.3g}" if len(sets) else ""
    return f"PredictionSets: {len(sets)} row{'s' * (len(sets) != 1)}, {len(sets.classes)} classes{mean}"


def _row_text(sets: PredictionSets, row: int) -> str:
    labels = [shown(label) for label in sets[row][:_SHOWN_LABELS]]
    left_out = int(sets.sizes[row]) - len(labels)
    return ", ".join(labels) + (f", ... {left_out} more" if left_out else "")


class Intervals(NamedTuple):
    """The lowest and the highest label of every set; None for an empty set."""

    lowest: NDArray[Any]
    highest: NDArray[Any]


def intervals_of(sets: PredictionSets, order: Any) -> Intervals:
    """Return the ends of every set in an order of the labels, or in that of numbers."""
    columns = columns_in_order(sets.classes, order)
    places = np.argsort(columns)[sets.indices]  # a permutation's inverse
    filled = sets.sizes > 0
    ends = []
    for extreme in (np.minimum, np.maximum):
        starts = sets.indptr[:-1][filled]
        labels = sets.classes[np.array(columns)[extreme.reduceat(places, starts) if len(starts) else []]]
        if not filled.all():
            every = np.full(len(sets), None, dtype=object)
            every[filled] = labels
            labels = every
        ends.append(labels)
    return Intervals(*ends)
