"""Files as they are: what kind, whole tables, and the pieces that tables come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.arrow.layout import as_numbers
from aptset.cli.checks import check_kind, check_row_count, check_rows_present, check_utf8_columns
from aptset.cli.delimited import count_rows, header_of, nearest_row_error, open_text
from aptset.core.files import as_utf8
from aptset.core.labels import Coded

Keys = tuple[tuple[str, str | None], ...]  # what folders say about all rows of a file: region=north
# Bytes of a CSV at a time, more where a row is longer than that. The reader holds up to 32 blocks ahead.
_BLOCKS = (1 << 20, 1 << 23, 1 << 26, 1 << 30)


def kind_of(path: Path) -> str:
    """Return what a file is by its name: csv, parquet, arrow, npz or npy."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in (".gz", ".bz2", ".zst"):
        suffixes.pop()
    return check_kind(path, suffixes[-1] if suffixes else "")


def read_table(path: Path, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> pa.Table:
    """Return a whole table. In a CSV the columns named in ``texts`` stay as they are written, ``numbers`` must be such.

    A cell of text is missing if it is empty, and only then: NA may be a label, or a country. Among numbers NA, NaN and
    null are missing too.
    """
    with nearest_row_error(path):
        if kind_of(path) == "csv":
            rows = count_rows(path)
            types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.float64())}
            table = _whole_csv(path, pa_csv.ConvertOptions(column_types=types))
            check_row_count(path, table.num_rows, rows)
            check_utf8_columns(path, table)
            table = _without_empty_texts(table)
        elif kind_of(path) == "parquet":
            table = pq.read_table(as_utf8(path))
        elif kind_of(path) == "arrow":
            table = pa.Table.from_batches(list(arrow_batches(path)))
        else:
            table = _table_of_arrays(load_arrays(path))
    check_rows_present(path, table.num_rows)
    return table


def count_of(path: Path) -> int | None:
    """Return how many rows a file has; None where only reading it tells."""
    with nearest_row_error(path):
        if kind_of(path) == "csv":
            return count_rows(path)
        if kind_of(path) == "parquet":
            return int(pq.ParquetFile(as_utf8(path)).metadata.num_rows)
        return sum(batch.num_rows for batch in arrow_batches(path)) if kind_of(path) == "arrow" else None


def names_of(path: Path) -> list[str]:
    """Return the names of the columns of a file."""
    with nearest_row_error(path):
        if kind_of(path) == "csv":
            return header_of(path)
        if kind_of(path) == "parquet":
            return list(pq.ParquetFile(as_utf8(path)).schema_arrow.names)
        if kind_of(path) == "arrow":
            return list(arrow_schema(path).names)
        return list(_table_of_arrays(load_arrays(path)).column_names)


def pieces_of(path: Path, types: dict[str, pa.DataType], rows: int) -> Iterator[pa.Table]:
    """Yield a file in tables of so many rows, the last may be shorter; ``types`` are those of the columns of a CSV."""
    with nearest_row_error(path):
        if kind_of(path) == "csv":
            options = pa_csv.ConvertOptions(column_types=types, include_columns=list(types))
            batches: Any = csv_batches(path, options)
        elif kind_of(path) == "parquet":
            batches = pq.ParquetFile(as_utf8(path), pre_buffer=False).iter_batches(min(rows, 65_536))
        elif kind_of(path) == "arrow":
            batches = arrow_batches(path)
        else:
            batches = iter(_table_of_arrays(load_arrays(path)).to_batches())
        for batch in of_even_length(batches, rows):
            table = pa.Table.from_batches([batch])
            yield _without_empty_texts(table) if kind_of(path) == "csv" else table


def csv_batches(path: Path, options: pa_csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
    """Yield a CSV whose types are fixed; where a row does not fit into a block, go on with longer blocks."""
    given = 0
    for block in _BLOCKS:
        read, seen = pa_csv.ReadOptions(block_size=block), 0
        try:
            for batch in pa_csv.open_csv(
                open_text(path), read_options=read, parse_options=with_newlines(), convert_options=options
            ):
                seen += batch.num_rows
                if seen > given:
                    new, given = seen - given, seen
                    yield batch.slice(batch.num_rows - new)
            return
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block == _BLOCKS[-1]:
                raise


def _whole_csv(path: Path, options: pa_csv.ConvertOptions) -> pa.Table:
    """Return a CSV whose types are guessed, with blocks that its longest row fits into."""
    for block in _BLOCKS:
        read = pa_csv.ReadOptions(block_size=block)
        try:
            return pa_csv.read_csv(open_text(path), read, with_newlines(), options)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block == _BLOCKS[-1]:
                raise
    raise AssertionError("the last block either reads or raises")


def of_even_length(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield batches of so many rows, the last may be shorter: where a reader cuts must not matter."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        if not waiting and batch.num_rows == rows:
            yield batch
            continue
        waiting.append(batch)
        n_waiting += batch.num_rows
        while n_waiting >= rows:
            table = pa.Table.from_batches(waiting)
            yield from table.slice(0, rows).combine_chunks().to_batches()
            waiting, n_waiting = table.slice(rows).to_batches(), n_waiting - rows
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def _without_empty_texts(table: pa.Table) -> pa.Table:
    """Take empty texts for missing ones."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(number)
            missing = pa.scalar(None, pa.string())
            table = table.set_column(number, field, pc.if_else(pc.equal(column, ""), missing, column))
    return table


def _table_of_arrays(arrays: dict[str, NDArray[Any]]) -> pa.Table:
    """Return arrays as columns; a matrix has one for each of its own."""
    columns = {}
    for name, values in arrays.items():
        if values.ndim == 1:
            columns[name] = values.tolist()
        else:
            columns |= {f"{name}_{k}": values[:, k].tolist() for k in range(values.shape[1])}
    return pa.table(columns)


def only_empty_is_missing(types: dict[str, pa.DataType]) -> pa_csv.ConvertOptions:
    """Types fixed beforehand; only an empty cell is missing (NA may be a label)."""
    return pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])


def with_newlines() -> pa_csv.ParseOptions:
    """Cells in quotes may hold several lines."""
    return pa_csv.ParseOptions(newlines_in_values=True)


def arrow_schema(path: Path) -> pa.Schema:
    """Return the columns and their types, which a file without rows has, too."""
    with pa.memory_map(as_utf8(path)) as source:
        try:
            return pa_ipc.open_file(source).schema
        except pa.ArrowInvalid:
            source.seek(0)
            return pa_ipc.open_stream(source).schema


def arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of an Arrow file or stream."""
    with pa.memory_map(as_utf8(path)) as source:
        try:
            reader = pa_ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            yield from pa_ipc.open_stream(source)
            return
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz or npy file; one that would run code is refused."""
    with nearest_row_error(path):
        if kind_of(path) == "npy":
            return {"probabilities": np.load(path, mmap_mode="r", allow_pickle=False)}
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)


def as_coded_texts(column: Any) -> Coded:
    """Return values as texts, each different one once."""
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_nested(plain.type):
        texts = as_texts(plain)
        return Coded(texts, np.arange(len(texts)))
    encoded = plain.dictionary_encode(null_encoding="encode")
    return Coded(as_texts(encoded.dictionary), as_numbers(encoded.indices))


def key_columns(keys: Keys, taken: Sequence[str], n_rows: int) -> dict[str, pa.Array]:
    """Return what the folders of a file say about all of its rows, as columns; one that it has itself comes first."""
    return {name: pa.repeat(pa.scalar(value, pa.string()), n_rows) for name, value in keys if name not in taken}


def as_texts(column: Any) -> list[str | None]:
    """Return values as texts; whole numbers without a point, however they are stored."""
    if str(column.type) in ("string", "large_string"):
        found: list[str | None] = column.to_pylist()
        return found
    texts: list[str | None] = []
    for value in column.to_pylist():
        whole = isinstance(value, float) and value.is_integer()
        texts.append(None if value is None or value != value else str(int(value) if whole else value))
    return texts
