"""Arrow's own files and streams, also called Feather and IPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.ipc as pa_ipc

from aptset.arrow.formats import TableFile
from aptset.core.files import as_utf8


class ArrowTable(TableFile):
    """A file or a stream of record batches."""

    kind = "arrow"
    endings = (".arrow", ".feather", ".ipc")

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and the types of the columns, which a file without rows has, too."""
        with pa.memory_map(as_utf8(self.path)) as source:
            return _reader(source).schema

    def _count(self) -> int:
        return sum(batch.num_rows for batch in self._batches(self.names, {}, False, False))

    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], na: bool, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        is_whole = list(columns) == self.names
        with pa.memory_map(as_utf8(self.path)) as source:
            reader = _reader(source)
            is_file = hasattr(reader, "num_record_batches")
            batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
            yield from (batch if is_whole else batch.select(list(columns)) for batch in batches)


def _reader(source: Any) -> Any:
    """Return the reader of a file, or of a stream."""
    try:
        return pa_ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa_ipc.open_stream(source)
