"""Rows of different lengths, one after the other: row i is between ``pointers[i]`` and ``pointers[i + 1]``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.labels import as_objects


def in_one(rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Join the labels of all rows; those of several kinds without turning numbers into texts."""
    filled = [row for row in rows if len(row)]
    if filled and len({row.dtype.kind for row in filled}) == 1:
        return np.concatenate(filled)
    return as_objects([label for row in rows for label in row.tolist()])
