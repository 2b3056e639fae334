"""Rows of different lengths, one after the other: row i is between ``pointers[i]`` and ``pointers[i + 1]``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.data.labels import as_objects

_LONG = 32  # labels a row: a running sum over more of them costs more than going from row to row


def pointers_of(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return where rows of these sizes start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def any_of_row(flags: NDArray[np.bool_], pointers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each row whether a member is flagged."""
    n_rows = len(pointers) - 1
    if len(flags) < _LONG * n_rows:
        hits = np.zeros(len(flags) + 1, dtype=np.int32 if len(flags) < 2**31 else np.int64)  # before each member
        np.cumsum(flags, dtype=hits.dtype, out=hits[1:])
        return np.diff(hits[pointers]) > 0
    found, some = np.zeros(n_rows, dtype=np.bool_), np.flatnonzero(np.diff(pointers))
    found[some] = np.logical_or.reduceat(flags, pointers[some])  # which cannot take empty rows
    return found


def in_one(rows: list[NDArray[Any]]) -> NDArray[Any]:
    """Join the labels of all rows; those of several kinds without turning numbers into texts."""
    filled = [row for row in rows if len(row)]
    if filled and len({row.dtype.kind for row in filled}) == 1:
        return np.concatenate(filled)
    return as_objects([label for row in rows for label in row.tolist()])
