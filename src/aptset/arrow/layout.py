"""Which columns of a batch are what, and what they must hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from aptset.arrow.sources import as_numbers
from aptset.core.groups import labels_decide
from aptset.core.labels import as_objects, check_classes, hashable, some


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
        are_texts = all(isinstance(label, str) for label in table)
        texts = {str(label): column for label, column in table.items()} if are_texts else {}
        numbers = [_number_of(value, table, texts) for value in values]
        columns = np.array([*numbers, -2], dtype=np.int64)[which]
        if (columns < 0).any():
            row = int(np.argmax(columns < 0))
            what = "is missing" if columns[row] == -2 else f"is {values[which[row]]!r}, which is no class"
            raise ValueError(
                f"row {row}, column {name!r}: the label {what}. The classes are {some(as_objects(list(table)))}; if "
                "they are called otherwise, pass classes=...."
            )
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
    types = {name: schema.field(name).type for name in free}
    lists = [name for name in free if _is_list(types[name]) and not pa.types.is_integer(types[name].value_type)]
    if len(lists) == 1:
        return (lists[0],), True
    numbers = [name for name in free if _is_number(types[name])]
    check_class_columns(numbers, names, "of numbers")
    return tuple(numbers), False


def _checked(columns: Sequence[str], schema: pa.Schema, taken: set[str]) -> tuple[str, ...]:
    """Return columns that all hold numbers and are nothing else."""
    for name in columns:
        if name in taken:
            raise ValueError(f"probabilities must not be labels, groups or ids as well; got {name!r}. Leave it out.")
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
        raise ValueError(
            f"classes must be passed with the list column {name!r}: there is no row that tells how many there are. "
            "Pass classes=[...], or classes=range(10) for numbers."
        )
    return int(lengths[0])


def _matrix_of_lists(column: pa.Array, name: str, width: int) -> NDArray[Any]:
    """Return the probabilities of a column of lists; refuse rows without one, and lists of another length."""
    if not _is_list(column.type):
        refuse_kind(name, column.type, "lists of probabilities")
    missing = column.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False)
    if missing.any():
        raise ValueError(f"row {int(np.argmax(missing))}, column {name!r}: the probabilities are missing.")
    if (lengths != width).any():
        row = int(np.argmax(lengths != width))
        raise ValueError(
            f"row {row}, column {name!r}: a list must have one probability for each of the {width} classes; it has "
            f"{int(lengths[row])}."
        )
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


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests) and _is_number(kind.value_type)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def check_column(names: Sequence[str], name: Any, argument: str) -> str:
    """Return the name of a column that must be there."""
    if not isinstance(name, str) or name not in names:
        shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(f"{argument} must name a column of the batches; got {name!r}. The columns are {shown}.")
    return name


def check_distinct_names(names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    twice = sorted({name for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"batches must have distinct column names; more than once: {twice[:4]}. Rename one of each.")


def check_class_columns(columns: Sequence[str], names: Sequence[str], how: str) -> None:
    """Refuse too few columns of probabilities."""
    if len(columns) < 2:
        shown = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(
            f"batches must have at least 2 columns of probabilities, {how}; found {list(columns)} among {shown}. Pass "
            "probabilities=... (the columns, or the one column of lists) or prefix=...."
        )


def refuse_kind(name: str, kind: Any, what: str) -> NoReturn:
    """Say what a column must hold."""
    raise TypeError(f"column {name!r} must hold {what}; it holds {kind}.")
