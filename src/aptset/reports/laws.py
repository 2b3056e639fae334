"""The exact law of the number of covered rows: a Beta-binomial count, or a sum of one for each group; fold by fold."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from aptset.judging.estimates import beta_binomial
from aptset.judging.evidence import FoldCounts
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

# Chances below this are left away, so that the laws of many groups are quickly joined; the page's script does the same.
NEGLIGIBLE = 1e-60


class CoverageLaw(NamedTuple):
    """Where the central 95 % of the measured coverages of valid calibrations lie, and the tails of a count."""

    low: float
    high: float
    too_low: float
    too_high: float
    is_certain: bool


def coverage_law(count: int, laws: tuple[tuple[int, int], ...], alpha: Fraction) -> CoverageLaw:
    """Judge a count of covered rows; ``laws`` has (test rows, calibration rows) of each independent group."""
    first, chances, total = 0, np.ones(1), 0
    for rows, n in laws:
        start, one = _trimmed(beta_binomial(rows, n, rank_at(n, alpha)))
        further, chances = _trimmed(np.convolve(chances, one))
        first, total = first + start + further, total + rows
    low, high = np.minimum(np.searchsorted(np.cumsum(chances), [0.025, 0.975]) + first, total) / max(1, total)
    too_low = chances[: max(0, count - first + 1)].sum()
    too_high = chances[max(0, count - first) :].sum()
    is_certain = all(rank_at(n, alpha) > n for _, n in laws)
    return CoverageLaw(float(low), float(high), float(too_low), float(too_high), is_certain)


def folds_chance(folds: tuple[tuple[FoldCounts, ...], ...], alpha: Fraction) -> float | None:
    """Return the chance that some fold by itself covers as few test rows as the one that is furthest off.

    A fold is a split: its model never saw the rows that it holds out, so its own threshold covers a Beta-binomial
    number of test rows. Folds depend on each other in ways that nobody knows; as many times the smallest chance as
    there are folds is a valid p-value all the same. None if no fold holds out enough rows for this level.
    """
    chances = []
    for fold in folds:
        ranks = [rank_at(group.n, alpha) for group in fold]
        covered = sum(int(group.below[:rank].sum()) for group, rank in zip(fold, ranks, strict=True))
        law = coverage_law(covered, tuple((group.rows, group.n) for group in fold), alpha)
        if not law.is_certain:
            chances.append(law.too_low)
    return min(1.0, len(chances) * min(chances)) if chances else None


def _trimmed(chances: Floats) -> tuple[int, Floats]:
    """Return the first place that counts, and the chances from there to the last that does."""
    kept = np.flatnonzero(chances >= NEGLIGIBLE)
    return int(kept[0]), chances[kept[0] : kept[-1] + 1]
