"""Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.parquet as pq

from aptset.arrow.formats import BATCH_ROWS, TableFile
from aptset.core.files import as_utf8

_LONG_GROUP = 4_096  # rows of a row group from which on it is worth a batch of its own


class ParquetTable(TableFile):
    """A file of Apache Parquet."""

    kind = "parquet"
    endings = (".parquet", ".pq")

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(as_utf8(self.path), pre_buffer=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and the types of the columns."""
        return self._file.schema_arrow

    def _count(self) -> int:
        return int(self._file.metadata.num_rows)

    def _table(self, texts: Sequence[str]) -> pa.Table:
        return pq.read_table(as_utf8(self.path))

    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], na: bool, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; texts that are coded come as the file holds them: each once, and its number for every row.

        A row group has its own numbers. Where row groups are short, they are read together, as plain texts.
        """
        file, n_groups = self._file, self._file.num_row_groups
        wanted = None if list(columns) == self.names else list(columns)
        coded = coded and file.metadata.num_rows >= _LONG_GROUP * n_groups
        if coded:
            texts = [leaf.path for leaf in file.schema if leaf.logical_type.type == "STRING"]
            texts = [path for path in texts if path.split(".")[0] in columns]
            file = pq.ParquetFile(as_utf8(self.path), pre_buffer=False, read_dictionary=texts)
        if not coded and "dictionary" not in str(self.schema):  # lists with several such are not read at once
            yield from file.iter_batches(BATCH_ROWS, columns=wanted)
            return
        for group in range(n_groups):
            yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=wanted)
