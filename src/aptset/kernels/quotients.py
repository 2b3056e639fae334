"""p-values from counts, rounded so that ``p > alpha`` says exactly whether a label is in the set.

Levels are read as the decimals they print as, so 1/3 in floating point may stand for slightly less than 1/3. Each
p-value is the smallest float whose decimal is not below the exact ratio: at most one step from the nearest float.
"""

from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.blocks import over_numbers
from aptset.kernels.formula import Floats


def by_decimals(n: int, counts: NDArray[np.intp]) -> Floats:
    """Return a table of (n + 1 - count) / (n + 1) that is so rounded at some counts, by the definition."""
    table: Floats = (n + 1 - np.arange(n + 1)) / (n + 1)
    table[counts] = by_counts(n, counts)
    return table


def by_counts(n: int, counts: NDArray[np.integer[Any]]) -> Floats:
    """Return the p-values of some counts among n scores, n below 2^53, by the definition."""
    found: Floats = (n + 1 - counts) / (n + 1)
    with localcontext(prec=40):  # exact: 17 digits times at most 16
        for place, (value, count) in enumerate(zip(found.tolist(), counts.tolist(), strict=True)):
            if Decimal(repr(value)) * (n + 1) < n + 1 - count:
                found[place] = np.nextafter(value, 2.0)
    return found


def rounding_bits(offsets: NDArray[np.int64], table_of: Callable[[int], Floats]) -> NDArray[np.uint8]:
    """Return a bit for every count of every group: whether its p-value is not the nearest float, but the next."""
    tables = [_is_next(table_of(n), n) for n in np.diff(offsets).tolist()]
    return np.packbits(np.concatenate(tables), bitorder="little")


def _is_next(table: Floats, n: int) -> NDArray[np.bool_]:
    """Tell for every count whether its p-value in the table is above the nearest float."""
    flags = np.empty(n + 1, dtype=np.bool_)

    def work(start: int, stop: int) -> None:
        np.greater(table[start:stop], np.arange(n + 1 - start, n + 1 - stop, -1) / (n + 1), out=flags[start:stop])

    over_numbers(n + 1, work)
    return flags
