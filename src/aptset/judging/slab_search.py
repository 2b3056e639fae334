"""The search for the worst slab over many directions: most are ruled out by counts in bins, a few are looked at."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.judging.features import project
from aptset.kernels import engines
from aptset.kernels.blocks import least_and_most, looked_up, over_blocks, thread_count
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import order_upward
from aptset.kernels.slabs import Slab, find_slab

_FIRST = 32  # directions that tell roughly how bad the worst one is
_FEWEST_DIRECTIONS, _DIRECTIONS_AT_ONCE = 2, 64  # that share a look at the rows
_BINS_AT_ONCE = 2**18  # of all directions together: they stay near the core
_POINTS_IN_BIN = 5
_COARSE, _FINE = 2**12, 2**15  # bins at the most: for a first look at all directions, and for those that are left
_WORTH_THREADS = 200_000  # rows times directions
_FAR = 1e300


def search(matrix: Any, covered: NDArray[np.bool_], vectors: Floats, delta: Fraction) -> tuple[Slab, Floats]:
    """Return the worst slab over all directions (the first of equal ones)."""
    least = max(1, -int(-delta * len(covered) // 1))  # ceil, exactly
    low, high = (0.0, np.inf) if hasattr(matrix, "tocsr") else least_and_most(matrix)
    points = _Points(matrix, covered.astype(np.uint8), least, max(float(high), -float(low)))
    bounds = points.bounds(vectors[:_FIRST], Fraction(1), _COARSE)
    best = points.worse(vectors, int(np.argmin(bounds)), None)
    if len(vectors) > _FIRST:
        bounds = np.append(bounds, points.bounds(vectors[_FIRST:], best.mean, _COARSE))
        best = points.worse(vectors, int(np.argmin(bounds)), best)
    close = np.flatnonzero(bounds <= float(best.mean) + 1e-9)
    if len(close) > 1 and len(covered) > _POINTS_IN_BIN * _COARSE:  # many points in a bin: a closer look is worth it
        bounds[close] = points.bounds(vectors[close], best.mean, _FINE)
    for number in np.argsort(bounds, kind="stable").tolist():
        if bounds[number] > float(best.mean) + 1e-9:
            break  # neither this direction nor any later one can be worse
        best = points.worse(vectors, number, best)
    return find_slab(best.position, best.flags, least, best.mean), vectors[best.number]


class _Found(NamedTuple):
    """The least mean of a slab so far, the number of its direction, and the points along it."""

    number: int
    mean: Fraction
    position: Floats
    flags: NDArray[np.uint8]


class _Points(NamedTuple):
    """Rows, whether they are covered, how many a slab holds at least, and the largest value (infinite if unknown)."""

    matrix: Any
    flags: NDArray[np.uint8]
    least: int
    largest: float

    def worse(self, vectors: Floats, number: int, best: _Found | None) -> _Found:
        """Return the worst slab of a direction, or the one before if that is worse, or as bad and came first."""
        if best is not None and number == best.number:
            return best
        (projection,) = project(self.matrix, vectors[number : number + 1])
        order = order_upward(projection)
        position, flags = looked_up(projection, order), looked_up(self.flags, order)
        mean = engines.chosen.least_mean(position, flags, self.least)
        if best is not None and (best.mean, best.number) < (mean, number):
            return best
        return _Found(number, mean, position, flags)

    def bounds(self, vectors: Floats, known: Fraction, most_bins: int) -> Floats:
        """Return what no slab of each direction falls below, some directions at a time on every core."""
        n_bins = min(max(len(self.flags) // _POINTS_IN_BIN, 16), most_bins)
        fair = max(_FEWEST_DIRECTIONS, -(-len(vectors) // (2 * thread_count())))
        at_once = max(1, min(fair, _DIRECTIONS_AT_ONCE, _BINS_AT_ONCE // n_bins))
        is_safe = self.largest * float(np.abs(vectors).sum(axis=1).max()) < _FAR  # no sum can overflow

        def work(start: int, stop: int) -> Floats:
            # A sparse matrix is projected before, and what came out is its own direction.
            some = vectors[start:stop]
            rows, seen = (self.matrix, some) if is_safe else (project(self.matrix, some).T, np.eye(len(some)))
            return engines.chosen.least_mean_bounds(rows, seen, self.flags, self.least, known, n_bins)

        if len(self.flags) * len(vectors) < _WORTH_THREADS:
            return np.concatenate([work(k, k + at_once) for k in range(0, len(vectors), at_once)])
        return np.concatenate(over_blocks(len(vectors), at_once, work))
