"""Shares of whole numbers, exactly: how much weight a level asks for, and p-values that are ratios of weights.

A p-value is rounded as :mod:`aptset.kernels.quotients` says, to the smallest float whose decimal is not below the exact
ratio. There each ratio is one of n + 1; here every row may have a denominator of its own, so the decimal of a float is
worked out for whole arrays, in pairs of floats whose sum is exact. What is too close to call is decided in rationals.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.formula import Floats

_NARROW = 2**31  # denominators of levels below this: no product of remainders exceeds 63 bits
_WIDE = 2**62  # denominators of ratios from here on are left to rationals


def weight_needed(totals: NDArray[Any], alpha: Fraction) -> NDArray[Any]:
    """Return ceil((1 - alpha) * total) of whole numbers, which may be Python's."""
    part, whole = alpha.numerator, alpha.denominator
    if totals.dtype == object or whole >= _NARROW:
        wide = totals.astype(object)
        return np.asarray(wide - wide * part // whole)
    times, rest = np.divmod(totals, whole)
    return np.asarray(totals - (times * part + rest * part // whole))


def weight_needed_of_sums(one: NDArray[Any], other: NDArray[Any], alpha: Fraction) -> NDArray[Any]:
    """Return the same of sums of an entry of each: what is divided is the entries, not the sums."""
    part, whole = alpha.numerator, alpha.denominator
    if object in (one.dtype, other.dtype) or whole >= _NARROW:
        return weight_needed(one + other, alpha)
    (quotient, left), (also, more) = (_times_part(totals, part, whole) for totals in (one, other))
    return np.asarray(((one - quotient) + (other - also)) - (left + more >= whole))


def _times_part(totals: NDArray[Any], part: int, whole: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return totals times part / whole, rounded down, and what is left."""
    times, rest = np.divmod(totals, whole)
    more, left = np.divmod(rest * part, whole)
    return times * part + more, left


def ratios(numerators: NDArray[Any], denominators: NDArray[Any]) -> Floats:
    """Return for each ratio, in [0, 1], the smallest float whose decimal is not below it."""
    numerators, denominators = np.broadcast_arrays(numerators, denominators)
    if object in (numerators.dtype, denominators.dtype):
        return _by_rationals(numerators, denominators)
    found, is_open = engines.chosen.ratios(numerators, denominators)
    is_open |= denominators >= _WIDE
    if is_open.any():
        found[is_open] = _by_rationals(numerators[is_open], denominators[is_open])
    return found


def _by_rationals(numerators: NDArray[Any], denominators: NDArray[Any]) -> Floats:
    """Return the same by the definition; 1 where both are 0. Each ratio is looked at once."""
    known: dict[tuple[int, int], float] = {}
    pairs = list(zip(numerators.ravel().tolist(), denominators.ravel().tolist(), strict=True))
    for above, below in pairs:
        if (above, below) not in known:
            known[above, below] = _smallest_not_below(above, below) if below else 1.0
    return np.array([known[pair] for pair in pairs]).reshape(numerators.shape)


def _smallest_not_below(above: int, below: int) -> float:
    nearest = above / below  # of whole numbers Python rounds it once
    return nearest if Fraction(repr(nearest)) * below >= above else float(np.nextafter(nearest, 2.0))
