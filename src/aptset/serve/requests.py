"""What is asked of the service: rows by name, as JSON or as an Arrow IPC stream, with what is asked about them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
_KNOWN = ("rows", "ids", "groups", "alpha", "p_values")
_LONGEST_ID = 200
_NUMBERS = {int, float, bool, type(None)}


class RequestError(ValueError):
    """What a client can mend: the sentence says how."""


class RowReader(Protocol):
    """How rows of a table become rows of X, where the folder says so: that of ``aptset run`` does."""

    names: Sequence[str]
    kinds: Mapping[str, str]
    id_column: str | None
    group_column: str | None

    def frame(self, table: pa.Table) -> Any:
        """Return the columns as the model takes them."""
        ...


@dataclass
class RequestRows:
    """Rows of one request: a matrix of numbers in the order of the features, or a frame."""

    X: Any
    n_rows: int
    ids: list[str | None]
    groups: list[Any] | None
    alpha: Any = None
    p_values: bool = False

    @cached_property
    def has_ids(self) -> bool:
        """Whether the client gave any row an id."""
        return any(id_ is not None for id_ in self.ids)

    def only(self, numbers: Sequence[int]) -> RequestRows:
        """Return some of the rows."""
        X = self.X[list(numbers)] if isinstance(self.X, np.ndarray) else self.X.iloc[list(numbers)]
        groups = None if self.groups is None else [self.groups[number] for number in numbers]
        ids = [self.ids[number] for number in numbers]
        return replace(self, X=X, n_rows=len(numbers), ids=ids, groups=groups)


@dataclass(frozen=True)
class RequestFeatures:
    """The features of a model: how rows that come by name, or as lists, become rows of X.

    ``reader`` makes frames of tables, where the folder says how; ``takes_lists`` tells that the model knows no names.
    """

    names: list[str]
    id_column: str | None
    group_column: str | None
    takes_lists: bool
    most_rows: int
    reader: RowReader | None = None

    def of_json(self, body: bytes) -> RequestRows:
        """Return the rows of a JSON request."""
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise RequestError(f"the body must be JSON: {error}.") from error
        if not isinstance(asked, dict) or not isinstance(asked.get("rows"), list):
            raise RequestError('the body must be an object with "rows", a list of rows: {"rows": [{"feature": 1.5}]}.')
        unknown = asked.keys() - set(_KNOWN)
        if unknown:
            raise RequestError(f"the body must have no key but {', '.join(_KNOWN)}; got {sorted(unknown)[0]!r:.80}.")
        rows = asked["rows"]
        self._check_count(len(rows))
        ids, groups = self._ids_of_json(asked, rows), self._groups_of_json(asked, rows)
        return RequestRows(
            self._features_of_json(rows),
            len(rows),
            ids,
            groups,
            _checked_alpha(asked.get("alpha")),
            _flag(asked.get("p_values", False)),
        )

    def _check_count(self, n_rows: int) -> None:
        if not 1 <= n_rows <= self.most_rows:
            raise RequestError(f"rows must be 1 to {self.most_rows:,}; got {n_rows:,}. Send several requests.")

    @cached_property
    def _pick(self) -> Callable[[Any], Any]:
        return itemgetter(*self.names) if len(self.names) > 1 else lambda row: (row[self.names[0]],)

    def _features_of_json(self, rows: list[Any]) -> Any:
        """Return a matrix of numbers where all values are; else a frame."""
        if self.reader is None:
            try:
                pick, pack = self._pick, struct.Struct(f"{len(self.names)}d").pack
                packed = bytearray().join([pack(*pick(row)) for row in rows])
                return np.frombuffer(packed).reshape(len(rows), -1)
            except (KeyError, OverflowError, TypeError, struct.error):  # missing, of other kinds, or not by name
                pass
        values = [self._values(number, row) for number, row in enumerate(rows)]
        if self.reader is None and set(map(type, chain.from_iterable(values))) <= _NUMBERS:
            try:
                return np.array(values, dtype=np.float64)
            except OverflowError as error:
                raise RequestError("numbers must be within the range of a float64.") from error
        return self._frame(_table(dict(zip(self.names, zip(*values, strict=True), strict=True))))

    def _values(self, number: int, row: Any) -> Any:
        """Return the values of a row in the order of the features; columns that the model does not know are ignored."""
        if isinstance(row, dict):
            try:
                return self._pick(row)
            except KeyError as error:
                raise RequestError(
                    f"row {number} must have all features; {error.args[0]!r} is not there. Send null where a value is "
                    "missing."
                ) from error
        if isinstance(row, list) and self.takes_lists:
            if len(row) == len(self.names):
                return tuple(row)
            raise RequestError(f"row {number} must have {len(self.names)} values; got {len(row)}.")
        raise RequestError(f"row {number} must be an object of features by name; got {type(row).__name__}.")

    def _ids_of_json(self, asked: dict[str, Any], rows: list[Any]) -> list[str | None]:
        column = self.id_column
        given = asked.get("ids")
        if given is None:
            given = [row.get(column) if column is not None and isinstance(row, dict) else None for row in rows]
        return check_ids(given, len(rows))

    def _groups_of_json(self, asked: dict[str, Any], rows: list[Any]) -> list[Any] | None:
        given, column = asked.get("groups"), self.group_column
        if given is None and column is not None:
            given = [row.get(column) if isinstance(row, dict) else None for row in rows]
        if given is not None and (not isinstance(given, list) or len(given) != len(rows)):
            raise RequestError("groups must be a list with one group for each row.")
        return given

    def of_arrow(self, body: bytes, alpha: Any, p_values: bool) -> RequestRows:
        """Return the rows of an Arrow IPC stream, whose columns go by name."""
        table = read_stream(body, self.most_rows)
        self._check_count(table.num_rows)
        present = set(table.column_names)
        missing = [name for name in self.names if name not in present]
        if missing:
            raise RequestError(f"the stream must have all features as columns; {missing[0]!r} is not there.")
        ids, groups = (
            None if column is None or column not in present else table[column].to_pylist()
            for column in (self.id_column, self.group_column)
        )
        checked = check_ids([None] * table.num_rows if ids is None else ids, table.num_rows)
        columns, X = table.select(self.names), None
        if self.reader is None and all(map(_is_number, columns.schema.types)):
            X = np.column_stack([_floats(column) for column in columns.columns])
        return RequestRows(
            self._frame(columns) if X is None else X, table.num_rows, checked, groups, _checked_alpha(alpha), p_values
        )

    def _frame(self, table: pa.Table) -> Any:
        """Return columns of several kinds as the model takes them."""
        if self.reader is None:
            return pd.DataFrame({name: _series(table[name]) for name in self.names})
        try:
            return self.reader.frame(table)
        except ValueError as error:
            raise RequestError(str(error)) from error


def check_ids(given: Any, n_rows: int) -> list[str | None]:
    """Return ids as texts, each once; a number and the text that spells it are the same id."""
    if not isinstance(given, list) or len(given) != n_rows:
        raise RequestError("ids must be a list with one id for each row.")
    ids = [None if one is None else id_text(one) for one in given]
    present = [one for one in ids if one is not None]
    if len(set(present)) < len(present):
        twice = next(one for one in present if present.count(one) > 1)
        raise RequestError(f"ids must name each row once; {twice!r} is there twice.")
    return ids


def id_text(value: Any) -> str:
    """Return an id as a text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | str) and not isinstance(value, bool) and 0 < len(str(value)) <= _LONGEST_ID:
        return str(value)
    raise RequestError(f"an id must be a text of 1 to {_LONGEST_ID} letters, or a whole number; got {value!r:.80}.")


def _checked_alpha(alpha: Any) -> float | None:
    if alpha is None:
        return None
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not 0 < alpha < 1:
        raise RequestError(f"alpha must be a number in (0, 1); got {alpha!r:.80}. For 90 % coverage send 0.1.")
    return float(alpha)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"p_values must be true or false; got {value!r:.80}.")
    return value


def _table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """Return columns as a table; one without any value holds missing numbers."""
    arrays = {}
    for name, values in columns.items():
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowException, OverflowError) as error:
            raise RequestError(
                f"feature {name!r} must hold values of one kind, numbers, texts, true or false; it holds several."
            ) from error
        if pa.types.is_nested(array.type):
            raise RequestError(f"feature {name!r} must hold plain values; got a list or an object.")
        arrays[name] = array.cast(pa.float64()) if pa.types.is_null(array.type) else array
    return pa.table(arrays)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _floats(column: Any) -> NDArray[np.float64]:
    """Return numbers as float64, missing ones as NaN; large whole numbers are rounded, as those of JSON are."""
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _series(column: Any) -> Any:
    """Return a column as pandas has it: numbers as floats, texts as texts, missing ones as NaN."""
    return _floats(column) if _is_number(column.type) else column.to_pandas()


def read_stream(body: bytes, most_rows: int) -> pa.Table:
    """Return the rows of an Arrow stream that a stranger sent: bounded, not compressed, and with offsets checked."""
    try:
        n_rows, messages = 0, pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
        for message in messages:
            length, is_compressed = _header(message.metadata.to_pybytes())
            n_rows += length
            if is_compressed or not 0 <= n_rows <= 2 * most_rows:  # entries of dictionaries among them
                raise RequestError(f"the stream must not be compressed, and have {most_rows:,} rows at most.")
        table = pa.ipc.open_stream(pa.py_buffer(body)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, struct.error) as error:
        raise RequestError(f"the body must be an Arrow IPC stream: {str(error)[:200]}.") from error
    plain = [one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one for one in table.columns]
    return pa.table(plain, names=table.column_names)


def _header(metadata: bytes) -> tuple[int, bool]:
    """Return how many rows a batch claims, and whether it is compressed: before Arrow unpacks anything.

    The tables and fields of the flatbuffer are those of the format's Message.fbs: a Message has its type as field 1 and
    its header as field 2; a DictionaryBatch (type 2) has a RecordBatch as field 1; that has its length as field 0 and
    its compression as field 3.
    """

    def place(table: int, number: int) -> int:
        fields = table - int(struct.unpack_from("<i", metadata, table)[0])
        size = int(struct.unpack_from("<H", metadata, fields)[0])
        offset = int(struct.unpack_from("<H", metadata, fields + 4 + 2 * number)[0]) if 4 + 2 * number < size else 0
        return table + offset if offset else 0

    def inner(table: int, number: int) -> int:
        where = place(table, number)
        return where + int(struct.unpack_from("<I", metadata, where)[0]) if where else 0

    message = int(struct.unpack_from("<I", metadata, 0)[0])
    kind_at, header = place(message, 1), inner(message, 2)
    kind = metadata[kind_at] if kind_at else 0
    batch = inner(header, 1) if kind == 2 else header if kind == 3 else 0
    if not batch:
        return 0, False
    length = place(batch, 0)
    return int(struct.unpack_from("<q", metadata, length)[0]) if length else 0, place(batch, 3) > 0


def query_arguments(query: dict[str, str]) -> tuple[float | None, bool]:
    """Return what the address of a stream says: alpha and p_values."""
    unknown = query.keys() - {"alpha", "p_values"}
    if unknown:
        raise RequestError(f"the address must have no argument but alpha and p_values; got {sorted(unknown)[0]!r:.80}.")
    try:
        alpha = float(query["alpha"]) if "alpha" in query else None
    except ValueError as error:
        raise RequestError(f"alpha must be a number in (0, 1); got {query['alpha']!r:.80}.") from error
    return alpha, query.get("p_values") in ("true", "1")


def labels_of(body: bytes) -> list[tuple[str, Any]]:
    """Return ids and labels of one piece of feedback, or of several."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body must be JSON: {error}.") from error
    several = given.get("feedback", [given]) if isinstance(given, dict) else None
    if not isinstance(several, list) or not several:
        raise RequestError('the body must be {"id": ..., "label": ...}, or {"feedback": [...]} with several of them.')
    labels = []
    for one in several:
        if not isinstance(one, dict) or one.keys() != {"id", "label"}:
            raise RequestError(f'feedback must have an "id" and a "label"; got {one!r:.80}.')
        if not isinstance(one["label"], str | int | float | bool):
            raise RequestError(f"a label must be a text, a number, true or false; got {one['label']!r:.80}.")
        labels.append((id_text(one["id"]), one["label"]))
    return labels
