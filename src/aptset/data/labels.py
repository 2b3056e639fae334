"""Labels as arrays: which column each has, which are distinct, some of them in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aptset.data.devices import on_host
from aptset.data.tables import plain_list
from aptset.kernels import engines
from aptset.kernels.blocks import least_and_most, looked_up, over_numbers
from aptset.kernels.long_arrays import group_sizes

_LONG = 2**10  # texts that are worth numbering


@dataclass(frozen=True, eq=False)
class Coded:
    """Labels, or other values, by number: that of row i is ``values[codes[i]]``. Each is looked at once."""

    values: list[Any]
    codes: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]

    def __iter__(self) -> Iterator[Any]:
        return (self.values[code] for code in self.codes.tolist())

    def some(self, rows: Any) -> Self:
        """Return those of some rows."""
        return replace(self, codes=self.codes[rows])

    def distinct(self) -> list[Any]:
        """Return the values that come, in order of first appearance."""
        n_rows = len(self.codes)
        first = np.full(len(self.values), n_rows)
        first[self.codes[::-1]] = np.arange(n_rows)[::-1]  # what is written last stays
        return [self.values[number] for number in np.argsort(first)[: np.count_nonzero(first < n_rows)].tolist()]

    def in_full(self) -> list[Any]:
        """Return the label of each row."""
        found: list[Any] = as_objects(self.values)[self.codes].tolist()
        return found


def coded_array(values: NDArray[Any]) -> Coded:
    """Return an array of texts, bytes or numbers by number: values of equal bytes have one."""
    items = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    codes, firsts = engines.chosen.codes(items)
    return Coded(values[firsts].tolist(), codes)


def coded_list(values: list[Any]) -> Coded:
    """Return Python values by number: those that dictionaries take for the same have one."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return Coded(list(numbers), np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values)))


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values: sorted, or in order of first appearance where they cannot be compared."""
    if values.dtype != object:
        return np.unique(values)
    found = list(dict.fromkeys(hashable(value) for value in dict.fromkeys(values.tolist())))
    try:
        return as_objects(sorted(found))
    except TypeError:
        return as_objects(found)


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the distinct values, and the number of each value among them."""
    if values.dtype.kind in "iu" and len(values):
        low, high = least_and_most(values)
        if int(high) - int(low) < max(_LONG, len(values)):  # small whole numbers are counted: sooner
            return _counted(values, low, int(high) - int(low) + 1)
    several = coded_array(values) if values.dtype.kind == "U" else None
    looked_at = values if several is None else as_objects(several.values)
    names = distinct(looked_at)
    number = columns_of(looked_at, names).astype(np.int32)
    return names, number if several is None else looked_up(number, several.codes)


def _counted(values: NDArray[Any], low: Any, span: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Do so for whole numbers from ``low`` on."""
    places, first = np.empty(len(values), dtype=np.int32), np.asarray(low).astype(np.int64)

    def work(start: int, stop: int) -> None:
        places[start:stop] = values[start:stop].astype(np.int64) - first

    over_numbers(len(values), work)
    is_there = group_sizes(places, span) > 0
    names = (np.flatnonzero(is_there) + first).astype(values.dtype)
    return names, places if is_there.all() else looked_up(np.cumsum(is_there, dtype=np.int32) - 1, places)


def as_objects(values: list[Any]) -> NDArray[Any]:
    """Return Python values as an array of objects."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def columns_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label in ``classes``, -1 where it is not there."""
    known = columns_at_once(labels, classes)
    if known is not None:
        return known
    if labels.dtype.kind == "U" and len(labels) >= _LONG:  # each different text is looked up once
        several = coded_array(labels)
        return np.take(columns_of(as_objects(several.values), classes), several.codes)
    numeric = labels.dtype.kind in "biuf" and classes.dtype.kind in "biuf" and _compare_exactly(labels, classes)
    if not numeric and not (labels.dtype.kind == classes.dtype.kind == "U"):
        table = {label: column for column, label in enumerate(classes.tolist())}
        return np.fromiter(map(table.get, labels.tolist(), repeat(-1)), dtype=np.int64, count=len(labels))
    order = np.argsort(classes)
    place = np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)
    return np.where(classes[order[place]] == labels, order[place], -1).astype(np.int64)


def columns_at_once(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return labels that are column numbers all of them, the usual case: one pass and no search. None for others."""
    if labels.dtype.kind not in "iu" or not len(labels) or not _number_columns(classes):
        return None
    columns = labels.astype(np.int64)  # a copy: another thread cannot change what was checked
    low, high = least_and_most(columns)
    return columns if low >= 0 and high < len(classes) else None


def _compare_exactly(labels: NDArray[Any], classes: NDArray[Any]) -> bool:
    """Tell whether numpy compares these numbers as they are: where kinds differ it rounds them to 53 bits first."""
    if labels.dtype.kind == classes.dtype.kind:
        return True
    whole = [values for values in (labels, classes) if values.dtype.kind in "iu" and len(values)]
    return all(int(values.max()) <= 2**53 and int(values.min()) >= -(2**53) for values in whole)


def _number_columns(classes: NDArray[Any]) -> bool:
    """Tell whether the classes are the column numbers 0, 1, ..."""
    return classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes)))


def some(labels: NDArray[Any]) -> str:
    """Show the first few labels."""
    shown = ", ".join(repr(label) for label in labels[:6].tolist())
    return f"[{shown}{', ...' if len(labels) > 6 else ''}]"


def plain_labels(labels: Any) -> Any:
    """Return labels of pandas' own types as Python's: whole numbers stay whole; members of an Enum stay members."""
    kind = getattr(labels, "dtype", None)
    if kind is not None and not isinstance(kind, np.dtype) and type(labels).__module__.split(".")[0] == "pandas":
        values = plain_list(labels)
        found = np.asarray(values) if values and all(isinstance(one, int | float) for one in values) else None
        return as_objects(values) if found is None or found.dtype.kind not in "biuf" else found
    if isinstance(labels, list | tuple) and any(issubclass(kind, Enum) for kind in {type(one) for one in labels}):
        return as_objects(list(labels))
    return on_host(labels)


def in_order(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct labels in order; members of an Enum, which have none, in that of their definition."""
    labels = labels.copy()  # what was looked at stays as it was, whoever writes to the caller's
    if labels.dtype.kind == "i" and len(labels) and labels.min() >= 0 and labels.max() <= len(labels):
        return np.flatnonzero(np.bincount(labels)).astype(labels.dtype)  # small whole numbers are counted: sooner
    try:
        return np.unique(labels)
    except TypeError:
        values = list(dict.fromkeys(labels.tolist()))
        if not all(isinstance(value, Enum) for value in values):
            raise
        kinds = {type(value).__qualname__: list(type(value).__members__.values()) for value in values}
        places = {member: (name, place) for name, members in kinds.items() for place, member in enumerate(members)}
        return as_objects(sorted(values, key=places.__getitem__))


def plain_value(value: Any) -> Any:
    """Return a number or a text of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def hashable(value: Any) -> Any:
    """Let every missing value (None, NaN, pandas' NA and NaT) be the same one: they do not equal themselves."""
    try:
        return None if value != value else value
    except (TypeError, ArithmeticError):  # NA is neither equal nor different; a signalling NaN compares with nothing
        return None


def with_one_missing(values: list[Any]) -> list[Any]:
    """Return values among which every missing one is the same: each different value is looked at once."""
    try:
        different = dict.fromkeys(values)
    except TypeError:  # some cannot be looked up
        return [hashable(value) for value in values]
    some_missing = any(value is not None and hashable(value) is None for value in different)
    return [hashable(value) for value in values] if some_missing else values
