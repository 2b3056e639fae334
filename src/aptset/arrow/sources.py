"""Where batches come from, the pieces of them, and the numbers, texts and sets in their columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset.core.labels import Coded
from aptset.core.levels import alpha_of, check_alphas, shown_alpha
from aptset.core.randomization import BLOCK_ROWS

_MOST_CELLS = 2**22  # labels of the rows that are looked at in one go
_MOST_ROWS = 2**16


@dataclass(frozen=True)
class BatchSource:
    """Batches that can be looked through, more than once if whoever gave them allows it."""

    open: Callable[[], Any]
    is_repeatable: bool

    @classmethod
    def of(cls, batches: Any) -> BatchSource:
        """Return what anything that holds batches is.

        It may be a function that opens it, a table or frame with ``__arrow_c_stream__``, a list of batches, or an
        iterator or a reader, which can be looked through once.
        """
        check_source(batches)
        if callable(batches) and not hasattr(batches, "__arrow_c_stream__"):
            return cls(batches, is_repeatable=True)
        is_used_up = hasattr(batches, "__next__")  # a reader is an iterator as well
        return cls(lambda: batches, is_repeatable=not is_used_up)

    def batches(self, is_again: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the batches from the first one on."""
        if is_again and not self.is_repeatable:
            raise ValueError(
                "batches must be readable more than once, since there are too many different scores to keep in "
                "memory; got an iterator or a reader, which can be read once. Pass a table, a list, or a function "
                "that returns the batches anew; or resolution=2**-20, which takes one pass; or more buckets=..., "
                "which takes memory."
            )
        source = self.open()
        check_source(source)
        return record_batches(source)


def record_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """Yield record batches from a stream, or from an iterable of batches, tables and frames."""
    if isinstance(source, pa.RecordBatch):
        yield source
    elif hasattr(source, "__arrow_c_stream__"):
        yield from _of_stream(pa.RecordBatchReader.from_stream(source))
    elif hasattr(source, "__arrow_c_array__"):
        yield pa.record_batch(source)
    else:
        for number, each in enumerate(source):
            if not hasattr(each, "__arrow_c_stream__") and not hasattr(each, "__arrow_c_array__"):
                raise TypeError(
                    f"batches must hold record batches; got {type(each).__name__} as number {number}. {_WAYS} Arrays "
                    "go to aptset.calibrate."
                )
            yield from record_batches(each)


def _of_stream(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; one without rows where it has none, since that has a schema."""
    number = -1
    for number, batch in enumerate(reader):  # noqa: B007 - the last number tells whether there was one
        yield batch
    if number < 0:
        yield pa.record_batch([pa.array([], field.type) for field in reader.schema], schema=reader.schema)


def peeked(batches: Iterator[pa.RecordBatch]) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Return the first batch with rows (or else the first, or None), and all batches."""
    seen = []
    for batch in batches:
        seen.append(batch)
        if batch.num_rows:
            return batch, chain(seen, batches)
    return (seen[0] if seen else None), iter(seen)


def pieces(batches: Iterator[pa.RecordBatch], n_classes: int, by_blocks: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield rows in pieces of bounded size, each with the number of its first row.

    With ``by_blocks`` every piece but the last is made of whole blocks: what a copy of a row gets never depends on how
    the rows came. Otherwise batches stay as they are, or are cut.
    """
    most = max(BLOCK_ROWS, min(_MOST_ROWS, _MOST_CELLS // n_classes) // BLOCK_ROWS * BLOCK_ROWS)
    start = 0
    same = _of_one_schema(batches)
    for batch in _whole_blocks(same) if by_blocks else same:
        for first in range(0, batch.num_rows, most):
            yield start + first, batch.slice(first, most)
        start += batch.num_rows


def _of_one_schema(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = None
    for number, batch in enumerate(batches):
        first = batch.schema if first is None else first
        check_same_schema(first, batch.schema, number)
        yield batch


def _whole_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of whole blocks as soon as there are any, and what is left at the end."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting >= BLOCK_ROWS:
            table = pa.Table.from_batches(waiting)
            whole = n_waiting // BLOCK_ROWS * BLOCK_ROWS
            yield from table.slice(0, whole).combine_chunks().to_batches()
            n_waiting -= whole
            waiting = table.slice(whole).to_batches()
    if n_waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


_WAYS = (
    "Pass a table or a frame with __arrow_c_stream__ (pyarrow, polars, duckdb, daft, pandas), an iterator of record "
    "batches, or a function that returns one of them."
)


def check_source(batches: Any) -> None:
    """Refuse what holds no batches."""
    is_known = callable(batches) or hasattr(batches, "__arrow_c_stream__") or hasattr(batches, "__arrow_c_array__")
    is_plain = isinstance(batches, str | bytes | dict) or not hasattr(batches, "__iter__")
    if not is_known and is_plain:
        raise TypeError(f"batches must be record batches of Arrow; got {type(batches).__name__}. {_WAYS}")


def check_same_schema(first: Any, schema: Any, number: int) -> None:
    """Refuse batches with other columns than the first one."""
    if not schema.equals(first):
        before, now = (dict(zip(one.names, one.types, strict=True)) for one in (first, schema))
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        nulls = [old.name for old, new in zip(first, schema, strict=False) if old.nullable != new.nullable]
        is_mixed = schema.names != first.names or not nulls
        other = "columns stand in another order" if is_mixed else f"column {nulls[0]!r} may have nulls or may not"
        what = f"column {names[0]!r} is {now.get(names[0], 'missing')}" if names else other
        was = f", it was {before.get(names[0], 'missing')}" if names else ""
        raise ValueError(f"batches must have one schema; in batch {number} {what}{was}. Cast the batches first.")


@contextmanager
def rows_of(partition: int | None, start: int) -> Iterator[None]:
    """Name the partition, and count rows from its beginning instead of the piece's."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.sub(r"\brow (\d+)", lambda match: f"row {int(match[1]) + start}", str(error), count=1)
        kind = TypeError if isinstance(error, TypeError) else ValueError  # kinds of their own may not take a text alone
        raise kind(text if partition is None else f"partition {partition}: {text}") from None  # said once


_PLAIN = {pa.float32(): np.float32, pa.float64(): np.float64, pa.int32(): np.int32, pa.int64(): np.int64}


def as_numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column; a view where there are no missing ones."""
    if column.null_count or column.type not in _PLAIN or not len(column):
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    kind = np.dtype(_PLAIN[column.type])
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


def as_matrix(columns: Sequence[Any]) -> NDArray[Any]:
    """Return the numbers of columns side by side, (rows, columns); a missing one is NaN."""
    kinds = {column.type for column in columns}
    if kinds == {pa.float64()} and len(columns[0]) and not any(column.null_count for column in columns):
        batch = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
        matrix: NDArray[Any] = batch.to_tensor().to_numpy()
        return matrix
    return np.column_stack([as_numbers(column) for column in columns])


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


def of_texts(values: Sequence[str]) -> Any:
    """Return texts as an array of Arrow."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def names_of_sets(alphas: Sequence[Any], taken: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names of the two columns of each level: size and set; with the level where that tells them apart."""
    if len(alphas) == 1 and not {"size", "set"} & set(taken):
        return [("size", "set")]
    levels = check_alphas(list(alphas))[0]
    short = [*map(shown_alpha, levels)]
    shown = short if len(set(short)) == len(set(levels)) else [repr(alpha_of(level)) for level in levels]
    return [(f"size {level}", f"set {level}") for level in shown]


def columns_of_sets(sets: Sequence[Any], names: Sequence[tuple[str, str]], classes: pa.Array) -> dict[str, pa.Array]:
    """Return for each level the size of each set and its labels, most likely first."""
    columns: dict[str, pa.Array] = {}
    for of_level, (size, labels) in zip(sets, names, strict=True):
        starts = of_level.indptr.astype(np.int32)
        pointers, members, sizes = (  # as arrays of Arrow, without a copy
            pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
            for numbers in (starts, np.ascontiguousarray(of_level.indices, dtype=np.int32), np.diff(starts))
        )
        columns |= {size: sizes, labels: pa.ListArray.from_arrays(pointers, classes.take(members))}
    return columns
