"""The coverage that the theorems promise, in exact arithmetic, and the level that makes it a given promise."""

from __future__ import annotations

from fractions import Fraction


def split_bound(alpha: Fraction) -> Fraction:
    """Theorem 1."""
    return 1 - alpha


def cross_loss(n: int, n_folds: int) -> Fraction:
    """Return what Theorem 2 takes off 1 - 2 alpha; nothing for the jackknife+."""
    n_, k = Fraction(n), Fraction(n_folds)
    return min(2 * (1 - 1 / k) / (n_ / k + 1), (1 - k / n_) / (k + 1))


def cross_bound(alpha: Fraction, n: int, n_folds: int) -> Fraction:
    """Theorem 2."""
    return 1 - 2 * alpha - cross_loss(n, n_folds)


def cross_level(alpha: Fraction, n: int, n_folds: int) -> Fraction:
    """Return the input level at which Theorem 2 promises 1 - alpha; not positive if there is none."""
    return (alpha - cross_loss(n, n_folds)) / 2


def minimax_bound(alpha: Fraction, n: int, n_folds: int) -> Fraction:
    """Theorem S1 for n folds; for fewer, a miss has probability at most (alpha(n + 1) + m - 1)/(n + m), m = n / K."""
    m = Fraction(n, n_folds)
    return 1 - (alpha * (n + 1) + m - 1) / (n + m)


def minimax_level(alpha: Fraction, n: int, n_folds: int) -> Fraction:
    """Return the input level at which the minimax bound is 1 - alpha; not positive if there is none."""
    m = Fraction(n, n_folds)
    return (alpha * (n + m) - m + 1) / (n + 1)
