"""Labels as arrays: which column each has, which are distinct, some of them in words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from itertools import repeat
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import on_host
from aptset.core.tables import plain_list
from aptset.kernels.blocks import least_and_most, looked_up, over_numbers
from aptset.kernels.long_arrays import codes_of, copy_columns, group_sizes

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
        return list(as_objects(self.values)[self.codes])


def coded_array(values: NDArray[Any]) -> Coded:
    """Return an array of texts, bytes or numbers by number: values of equal bytes have one."""
    items = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    codes, firsts = codes_of(items)
    return Coded(values[firsts].tolist(), codes)


def coded_list(values: list[Any]) -> Coded:
    """Return Python values by number: those that dictionaries take for the same have one."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return Coded(list(numbers), np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values)))


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values: sorted, or in order of first appearance where they cannot be compared."""
    if values.dtype != object:
        return np.unique(values)
    different = list(dict.fromkeys(hashable(value) for value in dict.fromkeys(values.tolist())))
    with suppress(TypeError):
        different = sorted(different)
    return as_objects(different)


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the distinct values, and the number of each value among them."""
    if values.dtype.kind in "iu" and len(values):
        low, high = least_and_most(values)
        if int(high) - int(low) < max(_LONG, len(values)):  # small whole numbers are counted: sooner
            return _counted(values, low, int(high) - int(low) + 1)
    if values.dtype.kind == "U":  # each different text is looked up once
        several = coded_array(values)
        names, number = numbered(as_objects(several.values))
        return names, looked_up(number, several.codes)
    names = distinct(values)
    return names, columns_of(values, names).astype(np.int32)


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
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def columns_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of each label in ``classes``, -1 where it is not there."""
    if (known := columns_at_once(labels, classes)) is not None:
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


def known_columns(labels: NDArray[Any], classes: NDArray[Any], name: str = "labels") -> NDArray[np.int64]:
    """Return the position of each label in ``classes``, -1 for another one; refuse labels that no class can equal."""
    columns = columns_of(labels, classes)
    if len(columns) and columns[0] < 0 and least_and_most(columns)[1] < 0:
        refuse_other_kind(labels, classes, name)
    return columns


def refuse_other_kind(labels: NDArray[Any], classes: NDArray[Any], name: str) -> None:
    """Refuse numbers where classes are texts, and the other way round: nothing would be covered, without a word."""
    kinds = [{_kind(value) for value in values.tolist() if hashable(value) is not None} for values in (labels, classes)]
    if not all(kinds) or kinds[0] & kinds[1] or "other" in kinds[0] | kinds[1]:
        return
    numbers = classes.dtype if classes.dtype.kind in "biuf" else "the type of the classes"
    way_out = "str" if kinds[1] == {"texts"} else str(numbers)
    raise TypeError(
        f"{name} are {_in_words(labels, kinds[0])}, classes are {_in_words(classes, kinds[1])}: no label can equal a "
        f"class. Convert them first: {name}.astype({way_out}), for instance."
    )


def _kind(value: Any) -> str:
    kinds = {str: "texts", bytes: "bytes", bool: "numbers", int: "numbers", float: "numbers"}
    return next((word for kind, word in kinds.items() if isinstance(value, kind)), "other")


def _in_words(values: NDArray[Any], kinds: set[str]) -> str:
    named = str(values.dtype) if values.dtype.kind in "biuf" else " and ".join(sorted(kinds))
    return f"{named} such as {', '.join(repr(value) for value in distinct(values)[:3].tolist())}"


def are_columns(classes: NDArray[Any]) -> bool:
    """Tell whether the classes are the numbers of their columns."""
    return classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes)))


def columns_at_once(labels: NDArray[Any], classes: NDArray[Any], kind: Any = np.int64) -> NDArray[Any] | None:
    """Return labels that are column numbers all of them, the usual case: one pass and no search. None for others."""
    if labels.dtype.kind not in "iu" or not len(labels) or not are_columns(classes):
        return None
    if len(labels) < _LONG:
        few = labels.astype(np.int64)
        return few.astype(kind, copy=False) if few.min() >= 0 and few.max() < len(classes) else None
    columns = np.empty(len(labels), dtype=kind)  # a copy: another thread cannot change what was checked
    flags = over_numbers(len(labels), lambda a, b: copy_columns(labels[a:b], columns[a:b], len(classes)))
    return columns if all(flags) else None


def _compare_exactly(labels: NDArray[Any], classes: NDArray[Any]) -> bool:
    """Tell whether numpy compares these numbers as they are: where kinds differ it rounds them to 53 bits first."""
    whole = [values for values in (labels, classes) if values.dtype.kind in "iu" and len(values)]
    is_small = (int(values.max()) <= 2**53 and int(values.min()) >= -(2**53) for values in whole)
    return labels.dtype.kind == classes.dtype.kind or all(is_small)


def some(labels: NDArray[Any]) -> str:
    """Show the first few labels."""
    return f"[{', '.join(map(repr, labels[:6].tolist()))}{', ...' if len(labels) > 6 else ''}]"


def plain_labels(labels: Any) -> Any:
    """Return labels of pandas' own types as Python's: whole numbers stay whole; members of an Enum stay members."""
    kind = getattr(labels, "dtype", None)
    if kind is not None and not isinstance(kind, np.dtype) and type(labels).__module__.split(".")[0] == "pandas":
        values = plain_list(labels)
        numbers = np.asarray(values) if values and all(isinstance(value, int | float) for value in values) else None
        return as_objects(values) if numbers is None or numbers.dtype.kind not in "biuf" else numbers
    if isinstance(labels, list | tuple) and any(issubclass(kind, Enum) for kind in {type(label) for label in labels}):
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


def columns_in_order(classes: NDArray[Any], order: Any) -> list[int]:
    """Return the columns of the classes from low to high: as ``order`` says, or by their numbers.

    Texts without an order are refused: sorted by the alphabet, "medium" stands behind "low" and "high".
    """
    values: Any = classes
    if order is not None:
        places = {label: place for place, label in enumerate(check_order(order))}
        values = check_every_label(places, classes, "order", "Name every label once, from low to high.")
    elif classes.dtype.kind not in "biuf":
        raise ValueError(
            f"order must say the order of labels that are not numbers; got labels such as "
            f"{', '.join(map(repr, classes[:3].tolist()))}. Pass order=[...] with all labels from low to high, or "
            "labels that are an ordered categorical of pandas."
        )
    return [int(column) for column in np.argsort(values, kind="stable")]


def check_order(order: Any) -> tuple[Any, ...]:
    """Return labels from low to high as plain values; refuse a text, what has no order, and labels that come twice."""
    if isinstance(order, str | set | frozenset) or not hasattr(order, "__iter__"):
        raise TypeError(f"order must be a list of all labels from low to high; got {order!r}.")
    labels = tuple(plain_value(label) for label in order)
    repeated = next((label for label, times in Counter(labels).items() if times > 1), None)
    if repeated is not None:
        raise ValueError(f"order must name every label once; got {repeated!r} more than once.")
    return labels


def plain_value(value: Any) -> Any:
    """Return a number or a text of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value


_DECIMAL = re.compile(r"-?\d{1,15}\.\d{1,15}")
TRUTH = {"true": True, "false": False}


def plain_label(text: str) -> str:
    """Return the one text that stands for a label, however a file writes it: 1.0 is 1, and true is True."""
    if _DECIMAL.fullmatch(text):
        number = float(text)
        return str(int(number) if number.is_integer() else number)
    return str(TRUTH.get(text.lower(), text))


def hashable(value: Any) -> Any:
    """Let every missing value (None, NaN, pandas' NA and NaT) be the same one: they do not equal themselves."""
    try:
        return None if value != value else value
    except (TypeError, ArithmeticError):  # NA is neither equal nor different; a signalling NaN compares with nothing
        return None


def with_one_missing(values: list[Any]) -> list[Any]:
    """Return values among which every missing one is the same: each different value is looked at once."""
    with suppress(TypeError):  # some cannot be looked up
        if all(value is None or hashable(value) is not None for value in dict.fromkeys(values)):
            return values
    return [hashable(value) for value in values]


def check_classes(classes: Any, n_columns: int, names: NDArray[Any] | None, labels: Any) -> NDArray[Any]:
    """Return the label of each column: as given, from the column names, or the column numbers."""
    if classes is None:
        if names is not None:
            return names
        kind = as_labels(labels, "labels").dtype.kind
        return np.array([False, True]) if kind == "b" and n_columns == 2 else np.arange(n_columns)
    named = as_labels(classes, "classes").copy()  # the caller may go on to change theirs
    if len(named) != n_columns:
        raise ValueError(
            f"classes must name each of the {n_columns} columns of probabilities; got {len(named)} classes."
        )
    check_hashable(named, "classes")
    if any(hashable(label) is None and label is not None for label in named.tolist()):
        raise ValueError(f"classes must not be missing: NaN equals nothing, not even itself; got {some(named)}.")
    if len(set(named.tolist())) != len(named):
        raise ValueError(f"classes must be distinct; got {some(named)}.")
    return named


def check_hashable(values: NDArray[Any], name: str) -> None:
    """Refuse lists, dictionaries and other values that cannot be looked up."""
    for row, value in enumerate(values.tolist() if values.dtype == object else []):
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{name} must be texts, numbers or other values that can be looked up; got {value!r} in row {row}."
            ) from error


def check_labels(
    labels: Any,
    classes: NDArray[Any],
    n_rows: int,
    name: str = "labels",
    way_out: str = "Pass classes=... to name the columns of the probabilities.",
    row_of: Callable[[int], int] = int,
) -> NDArray[np.int64]:
    """Return the column number of each label; ``row_of`` says which row a label is of, where several share one."""
    if isinstance(labels, Coded):
        check_length(labels, n_rows, name)
        codes = labels.codes
        of_values = (labels.values, classes, len(labels.values), name, way_out)
        return np.take(check_labels(*of_values, lambda code: row_of(int(np.argmax(codes == code)))), codes)
    truth = as_labels(labels, name)
    check_length(truth, n_rows, name)
    if truth.dtype == object:
        check_hashable(truth, name)
    known = columns_at_once(truth, classes)
    columns = columns_of(truth, classes) if known is None else known
    if known is None and (columns < 0).any():
        place = int(np.argmax(columns < 0))
        raise ValueError(
            f"{name} must be among the classes {some(classes)}; got {truth.tolist()[place]!r} in row {row_of(place)}. "
            + way_out
        )
    return columns


def check_length(values: Any, n_rows: int, name: str) -> None:
    """Refuse one value too many or too few."""
    if len(values) != n_rows:
        raise ValueError(f"{name} must have one entry per row: {n_rows} rows, but {len(values)} entries came.")


def as_labels(labels: Any, name: str) -> NDArray[Any]:
    """Return labels as a 1-D array; a list of texts and numbers keeps them apart, and so does one of odd texts."""
    if type(labels) is np.ndarray and labels.ndim == 1:  # the usual case: nothing to convert
        return labels
    refuse_masked(labels, name)
    try:
        array = np.asarray(plain_labels(labels))
    except ValueError as error:
        raise ValueError(f"{name} must be 1-D, one label per row; got rows of different lengths.") from error
    if array.dtype.kind in "US" and array.ndim == 1 and isinstance(labels, list | tuple):
        # numpy's texts lose zeros at the end, and make texts of numbers
        kept = (isinstance(label, str | bytes) and label[-1:] not in ("\0", b"\0") for label in set(labels))
        array = array if all(kept) else as_objects(list(labels))
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D; got shape {array.shape}.")
    return array


def refuse_masked(values: Any, name: str) -> None:
    """Refuse entries that are marked as not being there."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):  # pandas' nullable arrays have masks, too
        raise ValueError(f"{name} must have no masked entries. Fill or drop those rows.")


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
