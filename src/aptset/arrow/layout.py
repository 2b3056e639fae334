"""Which columns of a batch are what, and the numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from aptset.arrow.checks import (
    check_class_columns,
    check_column,
    check_distinct_names,
    check_free_column,
    check_label_numbers,
    check_lists,
    refuse_kind,
    refuse_unknown_width,
)
from aptset.core.groups import labels_decide
from aptset.core.labels import Coded, check_classes, hashable
from aptset.core.randomization import NewU
from aptset.scores import Conformity as Conformity


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, as the caller named them."""

    probabilities: str | Sequence[str] | None = None
    prefix: str | None = None
    groups: Any = None
    ids: str | None = None
    labels: str | None = None
    classes: ArrayLike | None = None


@dataclass(frozen=True)
class Calibrating:
    """The levels, the score and the flags of a calibration, as they were given."""

    alpha: float | Sequence[float]
    conformity: Conformity
    resolution: float | None
    randomized: bool
    allow_empty: bool
    normalize: bool
    logits: bool
    random_state: Any
    buckets: int


@dataclass(frozen=True, kw_only=True)
class Predicting:
    """The levels and the flags of a prediction, as they were given."""

    alpha: Any
    normalize: bool | None
    logits: bool
    allow_empty: bool | None
    u: NewU = None
    assurance: Any = None

    @property
    def flags(self) -> dict[str, Any]:
        """What :meth:`Calibration.predict_set` takes by name."""
        flags = {"normalize": self.normalize, "logits": self.logits, "allow_empty": self.allow_empty}
        return {**flags, "u": self.u}


_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}
_PLAIN = {pa.float32(): np.float32, pa.float64(): np.float64, pa.int32(): np.int32, pa.int64(): np.int64}


def as_numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column; a view where there are no missing ones."""
    if column.null_count or column.type not in _PLAIN or not len(column):
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    kind = np.dtype(_PLAIN[column.type])
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


def filled_numbers(column: Any, missing: int) -> NDArray[Any]:
    """Return the whole numbers of a column, with a value where there is none."""
    if not column.null_count:
        return as_numbers(column)
    numbers = column.cast(pa.int64())
    is_there, values = numbers.buffers()
    end = numbers.offset + len(numbers)
    flags = np.unpackbits(np.frombuffer(is_there, np.uint8), count=end, bitorder="little")
    return np.where(flags, np.frombuffer(values, np.int64, end), missing)[numbers.offset :]


def as_texts(column: Any) -> list[str | None]:
    """Return values as texts; whole numbers without a point, however they are stored."""
    if str(column.type) in ("string", "large_string"):
        plain: list[str | None] = column.to_pylist()
        return plain
    texts: list[str | None] = []
    for value in column.to_pylist():
        whole = isinstance(value, float) and value.is_integer()
        texts.append(None if value is None or value != value else str(int(value) if whole else value))
    return texts


def as_coded_texts(column: Any) -> Coded:
    """Return values as texts, each different one once."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_nested(plain.type):
        texts = as_texts(plain)
        return Coded(texts, np.arange(len(texts)))
    encoded = plain.dictionary_encode(null_encoding="encode")
    return Coded(as_texts(encoded.dictionary), as_numbers(encoded.indices))


def of_numbers(values: NDArray[Any]) -> Any:
    """Return whole numbers as an array of Arrow, without a copy."""
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def of_texts(values: Sequence[str]) -> Any:
    """Return texts as an array of Arrow."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


@dataclass(frozen=True)
class ColumnLayout:
    """The columns of probabilities (one of lists, or one for each class), of labels, groups and ids."""

    columns: tuple[str, ...]
    classes: NDArray[Any]
    holds_lists: bool
    labels: str | None = None
    groups: str | None = None
    ids: str | None = None

    @classmethod
    def of(
        cls,
        first: pa.RecordBatch | pa.Schema,
        named: Columns,
        width: int | None = None,
    ) -> ColumnLayout:
        """Find the columns in a schema, or in a first batch: that tells how long lists are, if ``width`` does not."""
        schema = first if isinstance(first, pa.Schema) else first.schema
        names = list(schema.names)
        check_distinct_names(names)
        by_label, classes = labels_decide(named.groups), named.classes
        others = {"labels": named.labels, "groups": None if by_label else named.groups, "ids": named.ids}
        for argument, name in others.items():
            if name is not None:
                check_column(names, name, argument)
        taken = {name for name in others.values() if name is not None}
        columns, holds_lists = _probability_columns(schema, named.probabilities, named.prefix, taken)
        if holds_lists:
            known = check_classes(classes, _width(first, columns[0], classes, width), None, [])
        else:
            rest = [name.removeprefix(named.prefix or "") for name in columns]
            known = check_classes(rest if classes is None else classes, len(columns), None, [])
        return cls(columns, known, holds_lists, **others)

    @property
    def read(self) -> list[str]:
        """The columns that are looked at, each once."""
        others = (name for name in (self.labels, self.groups, self.ids) if name is not None)
        return list(dict.fromkeys([*self.columns, *others]))

    def travelling(self, schema: pa.Schema) -> list[str]:
        """Return the columns that are no probabilities."""
        return [name for name in schema.names if name not in set(self.columns)]

    def matrix(self, batch: pa.RecordBatch) -> NDArray[Any]:
        """Return the probabilities of a batch, (rows, classes)."""
        for name in self.columns:
            check_column(batch.schema.names, name, "probabilities")
        if self.holds_lists:
            return _matrix_of_lists(batch.column(self.columns[0]), self.columns[0], len(self.classes))
        return np.column_stack([_numbers(batch.column(name), name) for name in self.columns])

    def label_columns(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Return the class number of the label of each row."""
        name = check_column(batch.schema.names, self.labels, "labels")
        values, which = _encoded(batch.column(name), name)
        table = {label: column for column, label in enumerate(self.classes.tolist())}
        texts = {str(label): column for label, column in table.items()} if _are_texts(self.classes) else {}
        numbers = [_number_of(value, table, texts) for value in values]
        columns = np.array([*numbers, -2], dtype=np.int64)[which]
        check_label_numbers(columns, _Looked(values, which), name, self.classes.tolist())
        return columns

    def group_values(self, batch: pa.RecordBatch) -> tuple[list[Any], NDArray[np.int64]] | None:
        """Return the distinct groups of rows and the number of each row's; None where rows have none."""
        if self.groups is None:
            return None
        name = check_column(batch.schema.names, self.groups, "groups")
        values, which = _encoded(batch.column(name), name)
        plain = [*map(hashable, values), *([None] if (which < 0).any() else [])]
        number_of = {value: number for number, value in enumerate(dict.fromkeys(plain))}
        return list(number_of), np.array([number_of[value] for value in plain], dtype=np.int64)[which]

    def id_values(self, batch: pa.RecordBatch) -> Any:
        """Return the id of each row; None where the content decides."""
        if self.ids is None:
            return None
        column = _plain(batch.column(check_column(batch.schema.names, self.ids, "ids")))
        if pa.types.is_integer(column.type) and not column.null_count:
            return column.to_numpy()
        return column.to_pylist()


class _Looked(Sequence[Any]):
    """Values by row, looked up when one is asked for."""

    def __init__(self, values: list[Any], which: NDArray[np.int64]) -> None:
        self._values, self._which = values, which

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, row: Any) -> Any:
        return self._values[self._which[row]]


def _probability_columns(
    schema: pa.Schema, probabilities: str | Sequence[str] | None, prefix: str | None, taken: set[str]
) -> tuple[tuple[str, ...], bool]:
    """Return the columns of probabilities, and whether it is one of lists."""
    names = list(schema.names)
    if probabilities is not None:
        given = [probabilities] if isinstance(probabilities, str) else list(probabilities)
        for name in given:
            check_column(names, name, "probabilities")
        if len(given) == 1 and _is_list(schema.field(given[0]).type):
            return (given[0],), True
        check_distinct_names(given)
        check_class_columns(given, names, "as probabilities= says")
        return _checked(given, schema, taken), False
    free = [name for name in names if name not in taken]
    if prefix is not None:
        columns = [name for name in free if name.startswith(prefix)]
        check_class_columns(columns, names, f"which start with {prefix!r}")
        return _checked(columns, schema, taken), False
    lists = [name for name in free if _is_list(kind := schema.field(name).type) and not _is_whole(kind.value_type)]
    if len(lists) == 1:
        return (lists[0],), True
    numbers = [name for name in free if _is_number(schema.field(name).type)]
    check_class_columns(numbers, names, "of numbers")
    return tuple(numbers), False


def _checked(columns: Sequence[str], schema: pa.Schema, taken: set[str]) -> tuple[str, ...]:
    """Return columns that all hold numbers and are nothing else."""
    for name in columns:
        check_free_column(name, taken)
        if not _is_number(schema.field(name).type):
            refuse_kind(name, schema.field(name).type, "numbers")
    return tuple(columns)


def _width(first: pa.RecordBatch | pa.Schema, name: str, classes: Any, width: int | None) -> int:
    """Return how many classes a list column has."""
    kind = (first if isinstance(first, pa.Schema) else first.schema).field(name).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    if classes is not None or width is not None:
        return len(classes) if width is None else width
    lengths = [] if isinstance(first, pa.Schema) else pc.list_value_length(first.column(name)).drop_null().to_pylist()
    if not lengths:
        refuse_unknown_width(name)
    return int(lengths[0])


def _matrix_of_lists(column: pa.Array, name: str, width: int) -> NDArray[Any]:
    if not _is_list(column.type):
        refuse_kind(name, column.type, "lists of probabilities")
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False)
    check_lists(name, missing, lengths, width)
    return _numbers(column.flatten(), name).reshape(len(column), width)


def _numbers(column: pa.Array, name: str) -> NDArray[Any]:
    """Return numbers as numpy has them, missing ones as NaN."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not _is_number(column.type):
        refuse_kind(name, column.type, "numbers")
    if column.null_count and pa.types.is_integer(column.type):
        column = column.cast(pa.float64())
    return as_numbers(column)


def _encoded(column: pa.Array, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values of a column and which of them each row has; -1, the last, for a missing one."""
    column = _plain(column)
    if pa.types.is_nested(column.type):
        refuse_kind(name, column.type, "one value a row")
    encoded = column.dictionary_encode()
    which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), which.astype(np.int64)


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary, and texts of the plain kind."""
    if pa.types.is_dictionary(column.type):  # its texts first: views cannot be taken by number
        return pa.DictionaryArray.from_arrays(column.indices, _plain(column.dictionary)).dictionary_decode()
    is_view = pa.types.is_string_view(column.type) if hasattr(pa.types, "is_string_view") else False
    return column.cast(pa.large_string()) if is_view else column


def _number_of(value: Any, table: dict[Any, int], texts: dict[str, int]) -> int:
    """Return the class number of a label: by what it is, or by its text where classes are texts; NaN is missing."""
    if hashable(value) is None:
        return -2
    number = table.get(value)
    if number is None and not isinstance(value, str):
        is_whole = isinstance(value, float) and value.is_integer()
        number = texts.get(str(int(value) if is_whole else value))
    return -1 if number is None else number


def _are_texts(classes: NDArray[Any]) -> bool:
    return all(isinstance(label, str) for label in classes.tolist())


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and _is_number(kind.value_type)


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))
