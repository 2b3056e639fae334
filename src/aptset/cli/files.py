"""Matrices of probabilities on disk, in bounded batches, and the files of sets that are made of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.arrow.formats import (
    BATCH_ROWS,
    TableFile,
    check_row_count,
    check_rows_present,
    in_whole_blocks,
    key_columns,
    of_even_length,
)
from aptset.arrow.formats.arrays import ArrayFile
from aptset.arrow.layout import as_coded_texts, as_numbers, of_texts
from aptset.arrow.predicting import columns_of_sets, names_of_sets
from aptset.cli.checks import check_columns, check_distinct_columns, check_flat_columns, check_sets_file
from aptset.core.files import as_utf8, atomic_path
from aptset.core.labels import Coded


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
    id, the group and the weight are never among them. The name of a column without its prefix is the class.
    """

    file: TableFile
    label: str | None = None
    row_id: str | None = None
    group: str | None = None
    prefix: str | None = None
    logits: bool = False
    batch_rows: int = BATCH_ROWS
    weight: str | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    @property
    def rows(self) -> int | None:
        """The number of rows; None where only reading the file tells."""
        return self.file.rows

    def classes(self) -> list[str]:
        """Return the class of each column of probabilities."""
        if isinstance(self.file, ArrayFile):
            matrix, _ = self._arrays(self.file)
            return [str(k) for k in range(matrix.shape[1])]
        names = self._probability_columns
        return [name.removeprefix(self.prefix or "") for name in names]

    def other_columns(self) -> list[str]:
        """Return the columns that travel along."""
        if isinstance(self.file, ArrayFile):
            return [] if self.label is None else [Path(self.label).stem]
        wanted = set(self._probability_columns)
        return [name for name in (*self.file.names, *self._keys) if name not in wanted]

    def written_columns(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the columns that are in the file, not in the names of its folders."""
        return {name: column for name, column in named.items() if name not in self._keys}

    def batches(self) -> Iterator[Batch]:
        """Yield all rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        start, rows, file = 0, self.rows, self.file
        for batch in self._matrix_batches(file) if isinstance(file, ArrayFile) else self._table_batches():
            if len(batch.probabilities):
                yield Batch(start, batch.probabilities, batch.labels, batch.others)
                start += len(batch.probabilities)
        check_row_count(self.path, start, start if rows is None else rows)
        check_rows_present(self.path, start)

    def _matrix_batches(self, file: ArrayFile) -> Iterator[Batch]:
        matrix, labels = self._arrays(file)
        named = self._named_arrays(file, len(matrix))
        for start in range(0, len(matrix), in_whole_blocks(self.batch_rows)):
            rows = slice(start, start + in_whole_blocks(self.batch_rows))
            with file.errors():
                coded = None if labels is None else as_coded_texts(pa.array(np.asarray(labels[rows])))
            others = {} if coded is None or self.label is None else {Path(self.label).stem: pa.array(coded.in_full())}
            others |= {name: pa.array(values[rows]) for name, values in named.items()}
            others |= key_columns(file.keys, list(others), len(matrix[rows]))
            yield Batch(start, np.asarray(matrix[rows]), coded, others)

    def _named_arrays(self, file: ArrayFile, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the ids, the groups and the weights, which stand beside the matrix."""
        names = [name for name in dict.fromkeys(self._beside) if name not in dict(file.keys)]
        arrays = file.arrays
        for name in names:
            is_column = name in arrays and arrays[name].shape == (n_rows,)
            check_columns(self.path, is_column, f"an array {name!r} with one value per row", list(arrays))
        return {name: arrays[name] for name in names}

    def _arrays(self, file: ArrayFile) -> tuple[NDArray[Any], NDArray[Any] | None]:
        arrays = file.arrays
        matrices = [name for name, values in arrays.items() if values.ndim == 2]
        check_columns(self.path, len(matrices) == 1, "exactly one 2-D array of probabilities", list(arrays))
        labels = None
        if self.label is not None:
            beside = Path(self.label)
            if beside.suffix == ".npy" and beside.exists():
                labels = ArrayFile(beside).arrays["probabilities"]
            else:
                check_columns(self.path, self.label in arrays, f"an array {self.label!r} of labels", list(arrays))
                labels = arrays[self.label]
            is_column = labels.shape == arrays[matrices[0]].shape[:1]
            check_columns(self.path, is_column, "one label per row", list(arrays))
        return arrays[matrices[0]], labels

    def _table_batches(self) -> Iterator[Batch]:
        wanted = self._probability_columns
        types = dict.fromkeys(wanted, pa.float64())
        for batch in of_even_length(self.file.batches(types=types), in_whole_blocks(self.batch_rows)):
            named = dict(zip(batch.schema.names, batch.columns, strict=True))
            with self.file.errors():
                columns = [as_numbers(named.pop(name)) for name in wanted]
                named |= self.file.key_columns(batch.num_rows)
                matrix = np.column_stack(columns) if batch.num_rows else np.empty((0, len(wanted)))
                labels = None if self.label is None else as_coded_texts(named[self.label])
            yield Batch(0, matrix, labels, named)

    @property
    def _beside(self) -> list[str]:
        """The columns that say something about rows, and are no labels."""
        return [name for name in (self.row_id, self.group, self.weight) if name is not None]

    @cached_property
    def _keys(self) -> list[str]:
        """The names of columns that only folders tell."""
        taken = [] if isinstance(self.file, ArrayFile) else self.file.names
        return [name for name, _ in self.file.keys if name not in taken]

    @cached_property
    def _probability_columns(self) -> list[str]:
        own = self.file.names
        check_distinct_columns(self.path, own)
        names = [*own, *self._keys]
        named = [name for name in (self.label, *self._beside) if name is not None]
        for name in named:
            check_columns(self.path, name in names, f"a column {name!r}", names, [name])
        if self.prefix is not None:
            found = [name for name in own if name.startswith(self.prefix)]
            what = f"at least 2 columns that start with {self.prefix!r}"
        else:
            with self.file.errors():
                kinds = zip(own, self.file.schema.types, strict=True)
            found = [name for name, kind in kinds if pa.types.is_floating(kind) or pa.types.is_integer(kind)]
            what = "at least 2 columns of numbers (or pass --prefix)"
        found = [name for name in found if name not in named]
        check_columns(self.path, len(found) >= 2, what, names)
        return found


class SetsWriter:
    """Writes sets batch by batch to parquet or CSV; the file appears when the writer is closed without an error."""

    def __init__(self, path: Path, names: list[str], classes: list[str], alphas: Sequence[float] = (0.1,)) -> None:
        self.names = names_of_sets(alphas, names)
        added = [name for pair in self.names for name in pair]
        self._is_csv = check_sets_file(path, names, classes, added) == "csv"
        self._path = path
        self._classes = of_texts(classes)
        self._context = atomic_path(path)
        self._temporary = self._context.__enter__()
        self._writer: Any = None

    def write(self, others: dict[str, pa.Array], sets: Sequence[Any]) -> None:
        """Write some rows: the columns that travel along, and for each level the size of each set and its labels."""
        if self._is_csv:
            check_flat_columns(self._path, pa.schema([(name, column.type) for name, column in others.items()]))
        made = columns_of_sets(sets, self.names, self._classes)
        if self._is_csv:
            made |= {labels: _joined(made[labels]) for _, labels in self.names}
        columns = {**others, **made}
        table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
        if self._writer is None:
            kind = pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter
            self._writer = kind(as_utf8(self._temporary), table.schema)
        self._writer.write_table(table)

    def __enter__(self) -> SetsWriter:
        return self

    def close(self) -> None:
        """Write what is left; the file takes its place at the end of the block."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __exit__(self, *failure: Any) -> None:
        try:
            self.close()
        except BaseException:
            self._context.__exit__(*sys.exc_info())
            raise
        self._context.__exit__(*failure)


def _joined(lists: Any) -> Any:
    """Return lists of labels as texts."""
    return pa.array(["|".join(row) for row in lists.to_pylist()])
