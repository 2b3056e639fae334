"""The slab of a direction where coverage is least: exact, linear in the points once they are sorted."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.formula import Floats


class Slab(NamedTuple):
    """Points whose position is in [low, high]; ``mean`` of them are covered."""

    low: float
    high: float
    mean: Fraction


class Sorted(NamedTuple):
    """Points by position, upward: how many points and how many covered up to each group of equal positions."""

    position: Floats
    points: NDArray[np.int64]
    covered: NDArray[np.int64]


_ROWS_AT_ONCE = 4096


def project(matrix: Floats, vector: Floats, to: Floats) -> None:
    """Write the product of every row with a vector; terms are added feature by feature."""
    if engines.chosen.loops is not None:
        engines.chosen.loops.project(np.ascontiguousarray(matrix), vector, to)
        return
    to[:] = 0.0
    for start in range(0, len(matrix), _ROWS_AT_ONCE):  # rows that stay in the cache
        for column, weight in zip(matrix[start : start + _ROWS_AT_ONCE].T, vector, strict=True):
            to[start : start + _ROWS_AT_ONCE] += weight * column


class Bounds(NamedTuple):
    """For each direction a mean that none of its slabs falls below, and the least mean that is known of any slab."""

    least: Floats
    known: Fraction


def least_mean_bounds(
    matrix: Floats,
    vectors: Floats,
    covered: NDArray[np.uint8],
    least: int,
    known: Fraction,
    n_bins: int,
) -> Bounds:
    """Return for each direction a mean that none of its slabs falls below; 0 says nothing.

    Of a direction whose slabs all lie above a mean that is known from another one, it may be anything above that.
    Points are counted in so many bins: more of them tell more, and take longer. Projections are finite. Slabs of whole
    bins have means that are known from then on.
    """
    bounds = np.zeros(len(vectors))
    if engines.chosen.loops is None:
        return Bounds(bounds, known)
    reached = np.array([known.numerator, known.denominator])
    of_points = (np.ascontiguousarray(matrix), np.ascontiguousarray(vectors), covered, least)
    engines.chosen.loops.least_mean_bounds(*of_points, n_bins, bounds, reached)
    return Bounds(bounds, Fraction(*reached.tolist()))


def least_mean(position: Floats, covered: NDArray[np.uint8], least: int) -> Fraction:
    """Return the least mean over slabs with at least ``least`` points; positions are sorted."""
    if engines.chosen.loops is not None:
        return Fraction(*engines.chosen.loops.least_mean(position, covered, least))
    groups = group(position, covered)
    mean = Fraction(1)
    while True:  # Dinkelbach: a slab below the present mean, if there is one, is the next one; ends after a few rounds
        start, end, gain = _best_against(groups, mean, least)
        if gain >= 0:
            return mean
        points = groups.points[end] - groups.points[start]
        mean = Fraction(int(groups.covered[end] - groups.covered[start]), int(points))


def find_slab(position: Floats, covered: NDArray[np.uint8], least: int, mean: Fraction) -> Slab:
    """Return the first slab (by its end, then by its start) of a mean known to be the least."""
    if engines.chosen.loops is not None:
        first, last = engines.chosen.loops.worst_segment(position, covered, least, mean.numerator, mean.denominator)
        return Slab(float(position[first]), float(position[last]), mean)
    groups = group(position, covered)
    start, end, _ = _best_against(groups, mean, least)
    return Slab(float(groups.position[start]), float(groups.position[end - 1]), mean)


def group(position: Floats, covered: NDArray[np.uint8]) -> Sorted:
    """Join points with equal positions; the running totals start with 0."""
    last = np.append(np.flatnonzero(position[1:] != position[:-1]), len(position) - 1)
    totals = np.append(0, np.cumsum(covered, dtype=np.int64)[last])
    return Sorted(position[last], np.append(0, last + 1), totals)


def _best_against(groups: Sorted, mean: Fraction, least: int) -> tuple[int, int, int]:
    """Return the slab that falls furthest below a mean, and by how much (times its denominator)."""
    balance = mean.denominator * groups.covered - mean.numerator * groups.points
    highest = np.maximum.accumulate(balance)
    last_start = np.searchsorted(groups.points, groups.points - least, side="right") - 1
    ends = np.flatnonzero(last_start >= 0)
    gains = balance[ends] - highest[last_start[ends]]
    best = int(np.argmin(gains))
    end = int(ends[best])
    start = int(np.argmax(balance[: last_start[end] + 1]))
    return start, end, int(gains[best])
