"""Matrices of probabilities on disk, in bounded batches: parquet, CSV (also compressed), Arrow, npz, npy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.batches.arrow_arrays import as_numbers
from aptset.batches.sources import in_whole_blocks
from aptset.commands.checks import (
    check_columns,
    check_distinct_columns,
    check_row_count,
    check_rows_present,
)
from aptset.commands.delimited import (
    header_of,
    nearest_row_error,
    open_text,
)
from aptset.commands.reading import (
    Keys,
    arrow_batches,
    arrow_schema,
    as_coded_texts,
    count_of,
    csv_batches,
    key_columns,
    kind_of,
    load_arrays,
    of_even_length,
    only_empty_is_missing,
    with_newlines,
)
from aptset.data.labels import Coded
from aptset.running.path_checks import as_utf8

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: their probabilities, their labels if wanted, and the columns that travel along."""

    start: int
    probabilities: NDArray[Any]
    labels: Coded | None
    others: dict[str, pa.Array]


@dataclass(frozen=True)
class ProbabilityFile:
    """A file of probabilities with one column per class (or one matrix), read in batches.

    Columns of probabilities start with ``prefix``; without a prefix they are all columns of numbers. The label, the row
    id, the group and the weight are never among them. The name of a column without its prefix is the class. ``keys``
    are columns that the folders of the file stand for.
    """

    path: Path
    label: str | None = None
    row_id: str | None = None
    group: str | None = None
    prefix: str | None = None
    logits: bool = False
    batch_rows: int = BATCH_ROWS
    keys: Keys = ()
    weight: str | None = None

    def classes(self) -> list[str]:
        """Return the class of each column of probabilities."""
        if kind_of(self.path) in ("npz", "npy"):
            matrix, _ = self._arrays()
            return [str(k) for k in range(matrix.shape[1])]
        names = self._probability_columns
        return [name.removeprefix(self.prefix or "") for name in names]

    def other_columns(self) -> list[str]:
        """Return the columns that travel along."""
        if kind_of(self.path) in ("npz", "npy"):
            return [] if self.label is None else [Path(self.label).stem]
        wanted = set(self._probability_columns)
        return [name for name in (*self._names, *self._keys) if name not in wanted]

    def written_columns(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the columns that are in the file, not in the names of its folders."""
        return {name: column for name, column in named.items() if name not in self._keys}

    def count(self) -> int | None:
        """Return the number of rows; None where only reading the file tells."""
        return self._rows

    @cached_property
    def _rows(self) -> int | None:
        return count_of(self.path)

    def batches(self) -> Iterator[Batch]:
        """Yield all rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        start, rows = 0, self.count()
        for batch in self._matrix_batches() if kind_of(self.path) in ("npz", "npy") else self._table_batches():
            if len(batch.probabilities):
                yield Batch(start, batch.probabilities, batch.labels, batch.others)
                start += len(batch.probabilities)
        check_row_count(self.path, start, start if rows is None else rows)
        check_rows_present(self.path, start)

    def _matrix_batches(self) -> Iterator[Batch]:
        matrix, labels = self._arrays()
        named = self._named_arrays(len(matrix))
        for start in range(0, len(matrix), self._step):
            rows = slice(start, start + self._step)
            with nearest_row_error(self.path):
                some = None if labels is None else as_coded_texts(pa.array(np.asarray(labels[rows])))
            others = {} if some is None or self.label is None else {Path(self.label).stem: pa.array(some.in_full())}
            others |= {name: pa.array(values[rows]) for name, values in named.items()}
            others |= key_columns(self.keys, list(others), len(matrix[rows]))
            yield Batch(start, np.asarray(matrix[rows]), some, others)

    def _named_arrays(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the ids, the groups and the weights, which stand beside the matrix."""
        wanted = dict.fromkeys(self._beside)
        names = [name for name in wanted if name not in dict(self.keys)]
        arrays = load_arrays(self.path) if names else {}
        for name in names:
            is_column = name in arrays and arrays[name].shape == (n_rows,)
            check_columns(self.path, is_column, f"an array {name!r} with one value per row", list(arrays))
        return {name: arrays[name] for name in names}

    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any] | None]:
        arrays = load_arrays(self.path)
        matrices = [name for name, values in arrays.items() if values.ndim == 2]
        check_columns(self.path, len(matrices) == 1, "exactly one 2-D array of probabilities", list(arrays))
        labels = None
        if self.label is not None:
            beside = Path(self.label)
            if beside.suffix == ".npy" and beside.exists():
                labels = load_arrays(beside)["probabilities"]
            else:
                check_columns(self.path, self.label in arrays, f"an array {self.label!r} of labels", list(arrays))
                labels = arrays[self.label]
            is_column = labels.shape == arrays[matrices[0]].shape[:1]
            check_columns(self.path, is_column, "one label per row", list(arrays))
        return arrays[matrices[0]], labels

    def _table_batches(self) -> Iterator[Batch]:
        wanted = self._probability_columns
        start = 0
        with nearest_row_error(self.path):
            for batch in of_even_length(self._raw_batches(wanted), self._step):
                named = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns = [as_numbers(named.pop(name)) for name in wanted]
                named |= key_columns(self.keys, self._names, batch.num_rows)
                matrix = np.column_stack(columns) if batch.num_rows else np.empty((0, len(wanted)))
                labels = None if self.label is None else as_coded_texts(named[self.label])
                yield Batch(start, matrix, labels, named)
                start += batch.num_rows

    def _raw_batches(self, wanted: list[str]) -> Iterator[Any]:
        if kind_of(self.path) == "parquet":
            yield from pq.ParquetFile(as_utf8(self.path), pre_buffer=False).iter_batches(self._step)
        elif kind_of(self.path) == "arrow":
            yield from arrow_batches(self.path)
        else:
            # Types are fixed beforehand: what a later block looks like must not change how an earlier one was read.
            numbers = set(wanted)
            types = {name: pa.float64() if name in numbers else pa.string() for name in self._names}
            yield from csv_batches(self.path, only_empty_is_missing(types))

    @property
    def _beside(self) -> list[str]:
        """The columns that say something about rows, and are no labels."""
        return [name for name in (self.row_id, self.group, self.weight) if name is not None]

    @property
    def _step(self) -> int:
        return in_whole_blocks(self.batch_rows)

    @cached_property
    def _schema(self) -> pa.Schema:
        with nearest_row_error(self.path):
            if kind_of(self.path) == "parquet":
                return pq.ParquetFile(as_utf8(self.path)).schema_arrow
            if kind_of(self.path) == "arrow":
                return arrow_schema(self.path)
            return pa_csv.open_csv(open_text(self.path), parse_options=with_newlines()).schema

    @cached_property
    def _names(self) -> list[str]:
        """The names of all columns; to ask a CSV of many thousand columns for their types as well takes a second."""
        if kind_of(self.path) == "csv" and self.prefix is not None:
            with nearest_row_error(self.path):
                return header_of(self.path)
        return list(self._schema.names)

    @cached_property
    def _keys(self) -> list[str]:
        """The names of columns that only folders tell."""
        if kind_of(self.path) in ("npz", "npy"):
            return [name for name, _ in self.keys]
        return [name for name, _ in self.keys if name not in self._names]

    @cached_property
    def _probability_columns(self) -> list[str]:
        own = self._names
        check_distinct_columns(self.path, own)
        names = [*own, *self._keys]
        named = [name for name in (self.label, *self._beside) if name is not None]
        for name in named:
            check_columns(self.path, name in names, f"a column {name!r}", names, [name])
        if self.prefix is not None:
            found = [name for name in own if name.startswith(self.prefix)]
            what = f"at least 2 columns that start with {self.prefix!r}"
        else:
            kinds = zip(own, self._schema.types, strict=True)
            found = [name for name, kind in kinds if pa.types.is_floating(kind) or pa.types.is_integer(kind)]
            what = "at least 2 columns of numbers (or pass --prefix)"
        found = [name for name in found if name not in named]
        check_columns(self.path, len(found) >= 2, what, names)
        return found
