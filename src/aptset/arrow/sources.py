"""Where batches come from: tables, streams, iterators, functions that open them anew; and the pieces of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from aptset.arrow.checks import check_batch, check_same_schema, check_source, refuse_second_look
from aptset.kernels.rows import BLOCK_ROWS

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
            refuse_second_look()
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
            check_batch(each, number)
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
