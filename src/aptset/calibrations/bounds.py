"""The coverage that the theorems promise, in exact arithmetic, and the level that makes it a given promise.

Everything is said of the sizes of the folds (within one group, if there are groups; folds without a row of it are left
out).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Sizes = Sequence[int]


def are_even(sizes: Sizes) -> bool:
    """Tell whether sizes differ by one at most, as the theorems ask."""
    return max(sizes) - min(sizes) <= 1


def cross_loss(sizes: Sizes) -> Fraction:
    """Return what Theorem 2 takes off 1 - 2 alpha; nothing for the jackknife+.

    Its second term needs folds of one size; the first follows for any sizes, since the rule is a weighted mean of the
    folds' p-values, and twice a mean of p-values is a p-value.
    """
    n, k = Fraction(sum(sizes)), Fraction(len(sizes))
    if max(sizes) == 1:
        return Fraction(0)
    first = 2 * (1 - 1 / k) / (n / k + 1)
    return min(first, (1 - k / n) / (k + 1)) if are_even(sizes) else first


def cross_bound(alpha: Fraction, sizes: Sizes) -> Fraction:
    """Theorem 2."""
    return 1 - 2 * alpha - cross_loss(sizes)


def cross_level(alpha: Fraction, sizes: Sizes) -> Fraction:
    """Return the input level at which Theorem 2 promises 1 - alpha; not positive if there is none."""
    return (alpha - cross_loss(sizes)) / 2


def minimax_bound(alpha: Fraction, sizes: Sizes) -> Fraction:
    """Theorem S1 for one row per fold; for fewer folds of size m, P(miss) <= (alpha(n + 1) + m - 1)/(n + m).

    Uneven folds are not covered by that; the set then still holds the CV+ set, and so keeps its promise.
    """
    if not are_even(sizes):
        return cross_bound(alpha, sizes)
    n, m = sum(sizes), Fraction(sum(sizes), len(sizes))
    return 1 - (alpha * (n + 1) + m - 1) / (n + m)


def minimax_level(alpha: Fraction, sizes: Sizes) -> Fraction:
    """Return the input level at which the minimax bound is 1 - alpha; not positive if there is none."""
    if not are_even(sizes):
        return cross_level(alpha, sizes)
    n, m = sum(sizes), Fraction(sum(sizes), len(sizes))
    return (alpha * (n + m) - m + 1) / (n + 1)
