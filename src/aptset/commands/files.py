"""Tables and matrices of probabilities on disk, in bounded batches: parquet, CSV (also compressed), Arrow, npz, npy."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.kernels.copies import BLOCK_ROWS
from aptset.running.writing import atomic_path
from aptset.validation.files import (
    check_columns,
    check_exists,
    check_kind,
    check_rows_present,
    check_sets_file,
    nearest_row_error,
)

BATCH_ROWS = 65_536


def kind_of(path: Path) -> str:
    """Return what a file is by its name: csv, parquet, arrow, npz or npy."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in (".gz", ".bz2", ".zst"):
        suffixes.pop()
    return check_kind(path, suffixes[-1] if suffixes else "")


def as_path(name: str) -> Path:
    """Return a path; "-" is standard input, copied to a temporary file so that it can be read twice."""
    if name != "-":
        return check_exists(Path(name))
    with tempfile.NamedTemporaryFile(prefix="stdin-", delete=False) as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
    with Path(copy.name).open("rb") as file:
        start = file.read(6)
    endings = {b"PAR1": ".parquet", b"ARRO": ".arrow", b"PK\x03\x04": ".npz", b"\x1f\x8b\x08": ".csv.gz"}
    found = next((ending for magic, ending in endings.items() if start.startswith(magic)), ".csv")
    path = Path(copy.name).rename(copy.name + found)
    atexit.register(path.unlink, missing_ok=True)
    return path


def read_table(path: Path, as_text: bool = False) -> pa.Table:
    """Return a whole table; ``as_text`` leaves every cell of a CSV as it is written."""
    with nearest_row_error(path):
        if kind_of(path) == "csv":
            nulls = pa_csv.ConvertOptions(strings_can_be_null=True)
            if as_text:
                header = pa_csv.open_csv(pa.input_stream(str(path), compression="detect"), parse_options=_newlines())
                nulls = _as_text(dict.fromkeys(header.schema.names, pa.string()))
            stream = pa.input_stream(str(path), compression="detect")
            table = pa_csv.read_csv(stream, parse_options=_newlines(), convert_options=nulls)
        elif kind_of(path) == "parquet":
            table = pq.read_table(path)
        elif kind_of(path) == "arrow":
            table = pa.Table.from_batches(list(_arrow_batches(path)))
        else:
            arrays = _load_arrays(path)
            table = pa.table(
                {
                    name if values.ndim == 1 else f"{name}_{k}": (values if values.ndim == 1 else values[:, k]).tolist()
                    for name, values in arrays.items()
                    for k in range(1 if values.ndim == 1 else values.shape[1])
                }
            )
    check_rows_present(path, table.num_rows)
    return table


def _as_text(types: dict[str, pa.DataType]) -> pa_csv.ConvertOptions:
    """Types fixed beforehand; only an empty cell is missing (NA may be a label)."""
    return pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])


def _newlines() -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(newlines_in_values=True)


def _arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:
        try:
            reader = pa_ipc.open_file(source)
        except pa.ArrowInvalid:
            source.seek(0)
            yield from pa_ipc.open_stream(source)
            return
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    with nearest_row_error(path):
        if kind_of(path) == "npy":
            return {"probabilities": np.load(path, mmap_mode="r", allow_pickle=False)}
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)


def as_texts(column: Any) -> list[str | None]:
    """Return values as texts; whole numbers without a point, however they are stored."""
    texts: list[str | None] = []
    for value in column.to_pylist():
        whole = isinstance(value, float) and value.is_integer()
        texts.append(None if value is None or value != value else str(int(value) if whole else value))
    return texts


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: their probabilities, their labels if wanted, and the columns that travel along."""

    start: int
    probabilities: NDArray[Any]
    labels: Sequence[str | None] | None
    others: dict[str, pa.Array]


@dataclass(frozen=True)
class ProbabilityFile:
    """A file of probabilities with one column per class (or one matrix), read in batches.

    Columns of probabilities start with ``prefix``; without a prefix they are all columns of numbers but the label and
    the row id. The name of a column without its prefix is the class.
    """

    path: Path
    label: str | None = None
    row_id: str | None = None
    group: str | None = None
    prefix: str | None = None
    logits: bool = False
    batch_rows: int = BATCH_ROWS

    def classes(self) -> list[str]:
        """Return the class of each column of probabilities."""
        if kind_of(self.path) in ("npz", "npy"):
            matrix, _ = self._arrays()
            return [str(k) for k in range(matrix.shape[1])]
        names = self._probability_columns()
        return [name.removeprefix(self.prefix or "") for name in names]

    def other_columns(self) -> list[str]:
        """Return the columns that travel along."""
        if kind_of(self.path) in ("npz", "npy"):
            return [] if self.label is None else [Path(self.label).stem]
        wanted = self._probability_columns()
        return [name for name in self._schema().names if name not in wanted]

    def count(self) -> int | None:
        """Return the number of rows, where the file says it without being read."""
        if kind_of(self.path) != "parquet":
            return None
        with nearest_row_error(self.path):
            return int(pq.ParquetFile(self.path).metadata.num_rows)

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        start = 0
        for batch in self._matrix_batches() if kind_of(self.path) in ("npz", "npy") else self._table_batches():
            if len(batch.probabilities):
                yield Batch(start, batch.probabilities, batch.labels, batch.others)
                start += len(batch.probabilities)
        check_rows_present(self.path, start)

    def _matrix_batches(self) -> Iterator[Batch]:
        matrix, labels = self._arrays()
        for start in range(0, len(matrix), self._step):
            rows = slice(start, start + self._step)
            some = None if labels is None else as_texts(pa.array(labels[rows]))
            others = {} if some is None or self.label is None else {Path(self.label).stem: pa.array(some)}
            yield Batch(start, self._as_probabilities(np.asarray(matrix[rows])), some, others)

    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any] | None]:
        arrays = _load_arrays(self.path)
        matrices = [name for name, values in arrays.items() if values.ndim == 2]
        check_columns(self.path, len(matrices) == 1, "exactly one 2-D array of probabilities", list(arrays))
        labels = None
        if self.label is not None:
            beside = Path(self.label)
            if beside.suffix == ".npy" and beside.exists():
                labels = np.load(beside, allow_pickle=False)
            else:
                check_columns(self.path, self.label in arrays, f"an array {self.label!r} of labels", list(arrays))
                labels = arrays[self.label]
            check_columns(self.path, len(labels) == len(arrays[matrices[0]]), "one label per row", list(arrays))
        return arrays[matrices[0]], labels

    def _table_batches(self) -> Iterator[Batch]:
        wanted = self._probability_columns()
        start = 0
        with nearest_row_error(self.path):
            for batch in _of_even_length(self._raw_batches(wanted), self._step):
                columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in wanted]
                matrix = np.column_stack(columns) if batch.num_rows else np.empty((0, len(wanted)))
                others = {name: batch.column(name) for name in batch.schema.names if name not in wanted}
                labels = None
                if self.label is not None:
                    labels = as_texts(others[self.label])
                yield Batch(start, self._as_probabilities(matrix), labels, others)
                start += batch.num_rows

    def _raw_batches(self, wanted: list[str]) -> Iterator[Any]:
        if kind_of(self.path) == "parquet":
            yield from pq.ParquetFile(self.path, pre_buffer=False).iter_batches(self._step)
        elif kind_of(self.path) == "arrow":
            yield from _arrow_batches(self.path)
        else:
            # Types are fixed beforehand: what a later block looks like must not change how an earlier one was read.
            types = {name: pa.float64() if name in wanted else pa.string() for name in self._schema().names}
            options = _as_text(types)
            stream = pa.input_stream(str(self.path), compression="detect")
            block = pa_csv.ReadOptions(block_size=4 << 20)
            yield from pa_csv.open_csv(stream, read_options=block, parse_options=_newlines(), convert_options=options)

    @property
    def _step(self) -> int:
        return -(-self.batch_rows // BLOCK_ROWS) * BLOCK_ROWS

    def _schema(self) -> pa.Schema:
        with nearest_row_error(self.path):
            if kind_of(self.path) == "parquet":
                return pq.ParquetFile(self.path).schema_arrow
            if kind_of(self.path) == "arrow":
                for batch in _arrow_batches(self.path):
                    return batch.schema
            stream = pa.input_stream(str(self.path), compression="detect")
            return pa_csv.open_csv(stream, parse_options=_newlines()).schema

    def _probability_columns(self) -> list[str]:
        schema = self._schema()
        check_columns(self.path, len(set(schema.names)) == len(schema.names), "distinct column names", schema.names)
        for name in (self.label, self.row_id, self.group):
            check_columns(self.path, name is None or name in schema.names, f"a column {name!r}", schema.names)
        if self.prefix is not None:
            found = [name for name in schema.names if name.startswith(self.prefix)]
            what = f"at least 2 columns that start with {self.prefix!r}"
        else:
            numbers = [f.name for f in schema if pa.types.is_floating(f.type) or pa.types.is_integer(f.type)]
            found = [name for name in numbers if name not in (self.label, self.row_id, self.group)]
            what = "at least 2 columns of numbers (or pass --prefix)"
        check_columns(self.path, len(found) >= 2, what, schema.names)
        return found

    def _as_probabilities(self, matrix: NDArray[Any]) -> NDArray[Any]:
        if not self.logits:
            return matrix
        wide = matrix.astype(np.float64, order="C")  # the order of a sum must not depend on the batch
        with np.errstate(invalid="ignore"):
            weights = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
            return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _of_even_length(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield batches of so many rows, the last may be shorter: where a reader cuts must not matter."""
    waiting: list[Any] = []
    for batch in batches:
        if not waiting and batch.num_rows == rows:
            yield batch
            continue
        waiting.append(batch)
        while sum(part.num_rows for part in waiting) >= rows:
            table = pa.Table.from_batches(waiting)
            yield from table.slice(0, rows).combine_chunks().to_batches()
            waiting = table.slice(rows).to_batches()
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


class SetsWriter:
    """Writes sets batch by batch to parquet or CSV; the file appears when the writer is closed without an error."""

    def __init__(self, path: Path, names: list[str], classes: list[str]) -> None:
        self._is_csv = check_sets_file(path, names, classes) == "csv"
        self._classes = pa.array(classes)
        self._context = atomic_path(path)
        self._temporary = self._context.__enter__()
        self._writer: Any = None

    def write(self, others: dict[str, pa.Array], sets: Any) -> None:
        """Write some rows: the columns that travel along, the size of each set, and its labels."""
        pointers, members = pa.array(sets.indptr.astype(np.int32)), self._classes.take(pa.array(sets.indices))
        labels: Any = pa.ListArray.from_arrays(pointers, members)
        if self._is_csv:
            labels = pa.array(["|".join(row) for row in labels.to_pylist()])
        table = pa.table({**others, "size": pa.array(sets.sizes.astype(np.int32)), "set": labels})
        if self._writer is None:
            kind = pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter
            self._writer = kind(str(self._temporary), table.schema)
        self._writer.write_table(table)

    def __enter__(self) -> SetsWriter:
        return self

    def __exit__(self, *failure: Any) -> None:
        try:
            if self._writer is not None:
                self._writer.close()
        except BaseException:
            self._context.__exit__(*sys.exc_info())
            raise
        self._context.__exit__(*failure)
