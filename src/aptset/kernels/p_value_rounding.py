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
    p_values: Floats = (n + 1 - counts) / (n + 1)
    with localcontext(prec=40):  # exact: 17 digits times at most 16
        for place, (value, count) in enumerate(zip(p_values.tolist(), counts.tolist(), strict=True)):
            if Decimal(repr(value)) * (n + 1) < n + 1 - count:
                p_values[place] = np.nextafter(value, 2.0)
    return p_values


def rounding_bits(offsets: NDArray[np.int64], table_of: Callable[[int], Floats]) -> NDArray[np.uint8]:
    """Return a bit for every count of every group: whether its p-value is not the nearest float, but the next."""
    sizes = np.diff(offsets).tolist()
    if len(sizes) == 1:
        return _bits(table_of(sizes[0]), sizes[0])
    tables = [_is_next(table_of(n), n, 0, n + 1) for n in sizes]
    return np.packbits(np.concatenate(tables), bitorder="little")


def _bits(table: Floats, n: int) -> NDArray[np.uint8]:
    """Return the bits of one group, a block of whole bytes on each thread."""
    bits = np.empty(-(-(n + 1) // 8), dtype=np.uint8)

    def work(start: int, stop: int) -> None:
        bits[start:stop] = np.packbits(_is_next(table, n, 8 * start, min(8 * stop, n + 1)), bitorder="little")

    over_numbers(len(bits), work, width=8)
    return bits


def _is_next(table: Floats, n: int, first: int, end: int) -> NDArray[np.bool_]:
    """Tell for the counts from first to end - 1 whether their p-values in the table are above the nearest floats."""
    return np.greater(table[first:end], np.arange(n + 1 - first, n + 1 - end, -1) / (n + 1))


_EXACT = 2**53  # whole numbers below this are floats
_SPLIT = 2.0**27 + 1  # cuts a float into two halves of 26 bits, whose products are exact
_CLOSE = 2.0**-20  # of half a step: errors of the pairs stay below 2^-50 of it
_DECADES = 60  # of ratios: smaller ones are left to rationals
_SHORT, _LONG = 15, 17  # digits: so many always come back as they were, and so many always tell floats apart


def _pair(whole: int) -> tuple[float, float]:
    return float(whole), float(whole - int(float(whole)))


POWERS = np.array([_pair(10**k) for k in range(_DECADES + _LONG + 1)])
TENTHS = 10.0 ** -np.arange(1.0, _DECADES + 1)


def by_pairs(numerators: NDArray[np.int64], denominators: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the ratios, and which of them are too close to call."""
    above, below = _whole(numerators), _whole(denominators)
    ratio: Floats = above[0] / below[0]
    if denominators.max() >= _EXACT:  # both were rounded: this is the nearest float all the same
        ratio = ratio - _excess(ratio, above, below) / below[0]
    excess = _excess(ratio, above, below)
    half = np.spacing(ratio) / 2 * below[0]
    by_decimal = excess + _off_by(ratio.ravel()).reshape(ratio.shape) * below[0]
    is_open = (np.abs(by_decimal) < _CLOSE * half) | (np.abs(np.abs(excess) - half) < _CLOSE * half)
    is_open |= ~(ratio >= 10.0**-_DECADES)
    return np.where(by_decimal < 0, np.nextafter(ratio, 2.0), ratio), is_open


def _whole(numbers: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return whole numbers as sums of two floats."""
    high = numbers.astype(np.float64)
    return high, (numbers - high.astype(np.int64)).astype(np.float64)


def _product(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return a product as the sum of two floats."""
    product = one * other
    cut, other_cut = one * _SPLIT, other * _SPLIT
    high, other_high = cut - (cut - one), other_cut - (other_cut - other)
    low, other_low = one - high, other - other_high
    return product, ((high * other_high - product) + high * other_low + low * other_high) + low * other_low


def _excess(ratio: Floats, above: tuple[Floats, Floats], below: tuple[Floats, Floats]) -> Floats:
    """Return by how much a float times the denominator exceeds the numerator."""
    high, low = _product(ratio, below[0])
    return (high - above[0]) + ((low + ratio * below[1]) - above[1])


def _off_by(ratio: Floats) -> Floats:
    """Return the decimal that a float prints as less the float: the shortest that comes back, the nearest of those."""
    off = np.empty(len(ratio))
    decade = np.minimum(np.searchsorted(-TENTHS, -ratio), _DECADES)
    is_short = _is_short(ratio, decade + _SHORT)
    left = np.flatnonzero(~is_short)
    off[is_short], _ = _to_digits(ratio[is_short], decade[is_short] + _SHORT)
    for digits in range(_SHORT + 1, _LONG + 1):
        off[left], comes_back = _to_digits(ratio[left], decade[left] + digits)
        left = left[~comes_back]
    return off


def _is_short(ratio: Floats, power: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell which floats print as so few digits: those are whole numbers that floats hold, over a power of ten."""
    high, low = POWERS[:, 0][power], POWERS[:, 1][power]
    comes_back: NDArray[np.bool_] = np.rint(ratio * high) / high == ratio
    comes_back[low != 0] = _to_digits(ratio[low != 0], power[low != 0])[1]
    return comes_back


def _to_digits(ratio: Floats, power: NDArray[np.intp]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the nearest multiple of 10^-power less the float, and whether it comes back as the float."""
    high, low = POWERS[:, 0][power], POWERS[:, 1][power]
    product, rest = _product(ratio, high)
    rest = (product - np.rint(product)) + (rest + ratio * low)
    rest = rest - np.rint(rest)
    return -rest / high, np.abs(rest) <= np.spacing(ratio) / 2 * high
