"""Between Arrow's arrays and numpy's, buffer by buffer: pyarrow's own ways import pandas, which takes half a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {np.dtype(np.int32): pa.int32(), np.dtype(np.int64): pa.int64()}
_PLAIN = {pa.float32(): np.float32, pa.float64(): np.float64, pa.int32(): np.int32, pa.int64(): np.int64}


def as_numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column; a view where there are no missing ones."""
    if column.null_count or column.type not in _PLAIN or not len(column):
        found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return found
    kind = np.dtype(_PLAIN[column.type])
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)


def filled_numbers(column: Any, missing: int) -> NDArray[Any]:
    """Return the whole numbers of a column, with a value where there is none."""
    if not column.null_count:
        return as_numbers(column)
    numbers = column.cast(pa.int64())
    is_there, values = numbers.buffers()
    end = numbers.offset + len(numbers)
    flags = np.unpackbits(np.frombuffer(is_there, np.uint8), count=end, bitorder="little")
    return np.where(flags, np.frombuffer(values, np.int64, end), missing)[numbers.offset :]


def of_numbers(values: NDArray[Any]) -> Any:
    """Return whole numbers as an array of Arrow, without a copy."""
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def of_texts(values: Sequence[str]) -> Any:
    """Return texts as an array of Arrow."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))
