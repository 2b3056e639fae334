"""p-values from counts, rounded so that ``p > alpha`` says exactly whether a label is in the set.

Levels are read as the decimals they print as, so 1/3 in floating point may stand for slightly less than 1/3. Each
p-value is the smallest float whose decimal is not below the exact ratio: at most one step from the nearest float. A
table of all of them depends on n alone, and is kept.
"""

from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats

_LARGE = 2**14  # tables from here on take memory: few are kept
_SHORT = 2**12  # cells up to here are looked up at once


def p_values_of(counts: NDArray[np.int32], n: int) -> Floats:
    """Return (n + 1 - count) / (n + 1) for every count, so rounded."""
    if backend.compiled is None:
        return _some_by_decimals(n, np.flatnonzero(np.bincount(counts.ravel(), minlength=n + 1)))[counts]
    table = _large_table(n) if n >= _LARGE else _table(n)
    if counts.size <= _SHORT:
        return table[counts]
    p_values = np.empty(counts.shape)

    def work(start: int, stop: int) -> None:
        table.take(counts[start:stop], out=p_values[start:stop], mode="clip")  # in place; counts are never beyond n

    over_blocks(len(counts), counts.size // max(1, len(counts)), work)
    return p_values


def _compute(n: int) -> Floats:
    table = np.empty(n + 1)
    done = backend.compiled.p_value_table(table) if backend.compiled is not None else 0
    table[done:] = _some_by_decimals(n, np.arange(done, n + 1))[done:]
    table.flags.writeable = False
    return table


_table = lru_cache(maxsize=256)(_compute)
_large_table = lru_cache(maxsize=2)(_compute)


def _some_by_decimals(n: int, counts: NDArray[np.intp]) -> Floats:
    """Return a table that is right at some counts, by the definition."""
    table: Floats = (n + 1 - np.arange(n + 1)) / (n + 1)
    for count in counts.tolist():
        value = float(table[count])
        if Decimal(repr(value)) * (n + 1) < n + 1 - count:  # exact: 17 digits times at most 10
            table[count] = np.nextafter(value, 2.0)
    return table
