"""Group ids: none, by label, or by something known about the row. Calibration happens within each group.

To add a grouping, write a function of X that returns one value per row, from that row alone, and put it into
:data:`GROUPINGS`.

Mondrian conformal prediction: Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random world".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import is_on_device, is_tensor, on_host
from aptset.core.labels import Coded, as_objects, check_length, coded_array, coded_list, hashable, plain_value
from aptset.core.overlapping import check_cells
from aptset.core.tables import column_values, is_table, names_of_columns, plain_list

Value = TypeVar("Value")
Ids = NDArray[np.int32]
GroupValues = list[Any] | NDArray[Any] | Coded  # of rows; whole numbers may come as an array
Kind = Literal["all", "label", "band", "row", "overlap"]

_NUMBERING = Lock()  # combinations of groups are numbered as they are met, by one thread at a time

# What ``groups=`` takes by name, besides the columns of X; None: the label decides, which no function of X knows.
GROUPINGS: dict[str, Callable[[Any], Any] | None] = {"label": None}


class Overlap(NamedTuple):
    """The groups that overlap, by name; and the columns of the frame that they come from, with which are of flags."""

    names: tuple[Any, ...]
    frame: tuple[Any, ...] | None = None
    is_flag: tuple[bool, ...] = ()


@dataclass(frozen=True, eq=False)
class Cells(Coded):
    """For each row the names of the groups that it is in; ``given`` is what they were read from."""

    overlap: Overlap
    given: Any = None


@dataclass(frozen=True)
class Groups:
    """The groups that calibration knows, and where the group of a label comes from.

    ``kind`` is "all" (one group), "label" (each label is a group), "band" (labels share groups: ``bands`` has the
    number of the group of each), "row" (a value that comes with the row) or "overlap" (each name is a combination of
    groups that overlap).
    """

    kind: Kind
    names: tuple[Any, ...]
    bands: tuple[int, ...] | None = None
    overlap: Overlap | None = None

    @classmethod
    def of(cls, values: Iterable[Any] | None, setting: Any, classes: NDArray[Any]) -> Groups:
        """Return the groups that occur among the values (in order of first appearance), or the labels, or one group."""
        if values is None and setting is None:
            return EVERYONE
        if isinstance(values, Cells):
            return cls("overlap", tuple(values.distinct()), overlap=values.overlap)
        if values is not None:
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            several = plain.distinct() if isinstance(plain, Coded) else some_of_each(plain)
            return cls("row", tuple(dict.fromkeys(_plain_name(value) for value in several)))
        if groups_labels(setting):
            groups: Groups = setting.groups_of(classes)
            return groups
        by_label = is_grouping(setting) and GROUPINGS[setting] is None
        return cls("label", tuple(classes.tolist())) if by_label else EVERYONE

    def ids(self, values: GroupValues | None, n_rows: int) -> Ids | None:
        """Return the id of each row: -1 for a value never seen, zeros without groups, None where the label decides."""
        if self.kind in ("label", "band"):
            return None
        if values is None:
            return of_one_group(n_rows, np.int32)
        if isinstance(values, Cells):
            return self._combinations(values)
        table = {name: number for number, name in enumerate(self.names)}
        if isinstance(values, np.ndarray):
            return _look_up(values, table)
        if isinstance(values, Coded):  # each different value is looked at once
            ids = [table.get(hashable(value), -1) for value in values.values]
            return np.take(np.array(ids, dtype=np.int32), values.codes)
        return np.fromiter((table.get(hashable(value), -1) for value in values), dtype=np.int32, count=n_rows)

    def _combinations(self, cells: Cells) -> Ids:
        """Return the number of each row's combination, new ones behind those of calibration; -1 for unknown groups."""
        known = set(self.overlap.names if self.overlap else ())
        with _NUMBERING:
            for cell in cells.distinct():
                if cell not in self._numbers and known.issuperset(cell):
                    self._numbers[cell] = len(self._numbers)
            numbers = [self._numbers.get(cell, -1) for cell in cells.values]
        return np.take(np.array(numbers, dtype=np.int32), cells.codes)

    @property
    def combinations(self) -> list[Any]:
        """The combinations of overlapping groups that were met, by their numbers; those of calibration first."""
        with _NUMBERING:
            return list(self._numbers)

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names)}

    def ids_of_labels(self, ids: Ids | None, columns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the group of each calibration sample from the ids of its row and the column of its true label."""
        if self.kind == "all":
            return of_one_group(len(columns), np.intp)
        if ids is None and self.of_columns is not None:
            return self.of_columns[columns]
        return (columns if ids is None else ids).astype(np.intp, copy=False)

    @cached_property
    def of_columns(self) -> NDArray[np.intp] | None:
        """The group of each label, where labels share groups; None where each has its own."""
        is_own = self.bands is None or self.bands == tuple(range(len(self.names)))
        return None if is_own else np.array(self.bands, dtype=np.intp)

    def by_name(self, values: Sequence[Value]) -> Value | dict[Any, Value]:
        """Return the value of the only cell, or a dictionary with that of each; what follows the last is left out."""
        return values[0] if self.kind == "all" else dict(zip(self.names, values, strict=False))

    def index(self, ids: Ids | None) -> NDArray[np.integer[Any]]:
        """Return the cell of every label of every row, -1 for one never seen: it broadcasts to (rows, labels).

        It is (1, 1) where there is one cell, (rows, 1) where rows have groups and (1, labels) where labels decide.
        """
        if ids is None:
            return np.arange(len(self.names))[None, :] if self.of_columns is None else self.of_columns[None, :]
        return ONE_CELL if self.kind == "all" else ids[:, None]


def flat_groups(groups: Groups) -> dict[str, Any]:
    """Return groups as lists and texts; a combination of groups that overlap as a text of 0 and 1."""
    fields: dict[str, Any] = {"kind": groups.kind, "names": list(groups.names)}
    if groups.bands is not None:
        fields["bands"] = list(groups.bands)
    if groups.overlap is not None:
        every, frame, is_flag = groups.overlap
        fields["names"] = ["".join("01"[name in cell] for name in every) for cell in map(set, groups.names)]
        fields |= {"groups": list(every), "frame": None if frame is None else list(frame), "is_flag": list(is_flag)}
    return fields


def full_groups(stored: dict[str, Any]) -> Groups:
    """Return the groups that were flattened."""
    kind, names, bands = stored["kind"], stored["names"], stored.get("bands")
    if kind != "overlap":
        return Groups(kind, tuple(names), None if bands is None else tuple(bands))
    every, frame = tuple(stored["groups"]), stored["frame"]
    cells = tuple(tuple(name for name, flag in zip(every, text, strict=True) if flag == "1") for text in names)
    overlap = Overlap(every, None if frame is None else tuple(frame), tuple(stored["is_flag"]))
    return Groups(kind, cells, overlap=overlap)


def some_of_each(values: Iterable[Any]) -> Iterable[Any]:
    """Return the distinct values, in order of first appearance; all of them where some cannot be looked up."""
    try:
        return dict.fromkeys(values)
    except TypeError:
        return values


def _plain_name(value: Any) -> Any:
    """Return the name of a group as a file gives it back: numbers and texts of numpy are Python's."""
    is_simple = isinstance(value, np.generic) and value.dtype.kind in "biufU"
    return hashable(plain_value(value) if is_simple else value)


_NARROW = 2**20


def _look_up(values: NDArray[Any], table: dict[Any, int]) -> Ids:
    """Return the id of each of an array of whole numbers."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _NARROW:
        return np.fromiter((table.get(value, -1) for value in values.tolist()), dtype=np.int32, count=len(values))
    ids = np.array([table.get(value, -1) for value in range(low, high + 1)], dtype=np.int32)
    return ids[values.astype(np.int64) - low]


def is_grouping(setting: Any) -> bool:
    """Tell whether a setting of groups is the name of a grouping, and not a column."""
    return isinstance(setting, str) and setting in GROUPINGS


def groups_labels(setting: Any) -> bool:
    """Tell whether a setting of groups says which labels share a group, as :class:`aptset.LabelBands` does."""
    return hasattr(setting, "groups_of")


def groups_overlap(passed: Any) -> bool:
    """Tell whether groups came as :class:`aptset.Overlapping`; a frame may have a column that is called "cells"."""
    return isinstance(getattr(passed, "cells", None), Cells)


def labels_decide(setting: Any) -> bool:
    """Tell whether a setting of groups names no column of rows: the label decides the group."""
    return groups_labels(setting) or is_grouping(setting)


EVERYONE = Groups("all", ("all",))
ONE_CELL = np.zeros((1, 1), dtype=np.int32)
ONE_CELL.flags.writeable = False


def of_one_group(n_rows: int, kind: type[Any]) -> NDArray[Any]:
    """Return zeros, the id of each row where all are in one group: one of them, which is read again and again."""
    return np.broadcast_to(np.zeros(1, dtype=kind), n_rows)


def check_group_values(
    groups: Any, passed: Any, X: Any, n_rows: int, known: Groups | None = None
) -> GroupValues | None:
    """Return the group of each row, or None where there are no groups or the label decides.

    ``groups`` is the setting (None, the name of a grouping, a column of X, or a callable on X), ``passed`` what came
    with the rows, ``known`` the groups of calibration, if it is over.
    """
    if groups_overlap(groups):
        raise TypeError("groups=Overlapping(...) speaks of rows: pass it to fit, and the groups of new rows later.")
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


def check_same_kind(kind: str, values: GroupValues | None) -> None:
    """Refuse groups at prediction that calibration did not have, and the other way round."""
    if kind in ("row", "overlap") and values is None:
        raise ValueError(
            "groups must be passed with the new rows, since calibration was done by group. Pass groups=..., the "
            "group of each new row."
        )
    if kind not in ("row", "overlap") and values is not None:
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
            "groups=LabelBands(...) speaks of labels, not of rows: pass it to calibrate or ConformalClassifier, and "
            "nothing with the rows."
        )
    if isinstance(values, Coded):  # which were checked before
        check_length(values, n_rows, "groups")
        return values
    values = np.asarray(on_host(values)) if is_tensor(values) or is_on_device(values) else values
    if isinstance(values, str) or np.ndim(values) == 0:
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
