"""Files of sets, written batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from aptset.arrow.layout import of_texts
from aptset.arrow.predicting import columns_of_sets, names_of_sets
from aptset.cli.checks import check_flat_columns, check_sets_file
from aptset.core.files import as_utf8, atomic_path


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
