"""Arrays of numpy, one (npy) or several (npz)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset.arrow.formats import UNREADABLE, TableFile


class ArrayFile(TableFile):
    """Arrays with one row each: a matrix has a column for each of its own."""

    kind = "arrays"
    endings = (".npz", ".npy")

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name; a file that would run code is refused."""
        try:
            if self.path.suffix.lower() == ".npy":
                return {"probabilities": np.load(self.path, mmap_mode="r", allow_pickle=False)}
            with np.load(self.path, allow_pickle=False) as archive:
                return dict(archive)
        except UNREADABLE as error:
            self.refuse(error)

    @cached_property
    def _columns(self) -> pa.Table:
        columns = {}
        for name, values in self.arrays.items():
            if values.ndim == 1:
                columns[name] = values.tolist()
            else:
                columns |= {f"{name}_{k}": values[:, k].tolist() for k in range(values.shape[1])}
        return pa.table(columns)

    @property
    def schema(self) -> pa.Schema:
        """The names and the types of the columns."""
        return self._columns.schema

    def _count(self) -> None:
        return None

    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], na: bool, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        yield from self._columns.select(list(columns)).to_batches()
