"""Buckets of sorted scores: where the scores in a small range stand, so that few are compared."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.blocks import over_numbers
from aptset.kernels.engines.interface import Index
from aptset.kernels.formula import Floats

_IN_A_BUCKET = 4  # scores on average


class Buckets(NamedTuple):
    """Where buckets of some sorted scores start, the last of which is an end, and what finds the bucket of a score."""

    starts: NDArray[np.int32]
    low: float
    scale: float

    crowding: float = 0.0  # how many scores the bucket of a score has, on average


def buckets_between(loops: Any, scores: Floats, first: int, last: int) -> Buckets | None:
    """Return buckets over the range of some sorted scores; None where they are alike, or too many.

    ``loops`` are the compiled ones, or None.
    """
    n_buckets, low, span = len(scores) // _IN_A_BUCKET, float(scores[first]), float(scores[last]) - float(scores[first])
    with np.errstate(over="ignore"):
        scale = float(np.float64(n_buckets * (1 - 2.0**-20)) / span) if 0.0 < span < np.inf else np.inf
    if not np.isfinite(scale) or len(scores) > np.iinfo(np.int32).max:
        return None
    starts = np.empty(n_buckets + 1, dtype=np.int32)

    def work(start: int, stop: int) -> None:
        loops.bucket_starts(scores, start, stop, low, scale, starts)

    if loops is not None:
        over_numbers(len(scores), work)
    else:
        with np.errstate(over="ignore"):
            numbers = np.clip((scores - low) * scale, 0, n_buckets - 1).astype(np.int64)
        starts[:] = np.searchsorted(numbers, np.arange(n_buckets + 1))
    return Buckets(starts, low, scale, crowding_of(loops, starts)[0] / len(scores))


def crowding_of(loops: Any, starts: NDArray[np.int32]) -> tuple[int, int]:
    """Return the sum of the squares of the sizes of buckets, and the largest size."""
    if loops is not None:
        of_blocks = over_numbers(len(starts) - 1, lambda start, stop: loops.crowding(starts[start : stop + 1]))
        return sum(squares for squares, _ in of_blocks), max((most for _, most in of_blocks), default=0)
    sizes = np.diff(starts).astype(np.int64)
    return int(np.square(sizes).sum()), int(sizes.max(initial=0))


class FinerIndex(NamedTuple):
    """An index whose crowded buckets have buckets of their own, and those again. Twin of the one in C.

    The lists of finer buckets stand behind those of the groups; ``finer`` names the list of each bucket, or is 0.
    Starts are counted from the first score of the group everywhere.
    """

    starts: NDArray[np.int32] | None
    firsts: NDArray[np.int64] | None
    low: Floats | None
    scale: Floats | None
    finer: NDArray[np.int32] | None


_CROWDED = 64  # scores of a bucket from which on it has finer ones
_DEEPEST = 8  # lists from a group downward: halving does the rest


def refined(loops: Any, scores: Floats, offsets: NDArray[np.int64], index: Index) -> FinerIndex:
    """Return the index with finer buckets where scores crowd: on many scales at once, say, as 1 - 1e-2 to 1 - 1e-8."""
    if index.starts is None or index.firsts is None or index.low is None or index.scale is None:
        return FinerIndex(*index, finer=None)
    lists = [index.starts[start:stop] for start, stop in pairwise(index.firsts.tolist())]
    if all(crowding_of(loops, starts)[1] <= _CROWDED for starts in lists):
        return FinerIndex(*index, finer=None)
    groups, depths, low, scale = list(range(len(lists))), [1] * len(lists), index.low.tolist(), index.scale.tolist()
    finer: list[NDArray[np.int32]] = []
    while len(finer) < len(lists):  # lists that are added wait for their turn
        number = len(finer)
        starts, first, depth = lists[number], int(offsets[groups[number]]), depths[number]
        finer.append(np.zeros(len(starts), dtype=np.int32))
        crowded = np.flatnonzero(np.diff(starts) > _CROWDED).tolist() if depth < _DEEPEST else []
        for bucket in crowded:
            start, stop = int(starts[bucket]), int(starts[bucket + 1])
            of_bucket = buckets_between(loops, scores[first + start : first + stop], 0, stop - start - 1)
            if of_bucket is None:  # all the same
                continue
            finer[number][bucket] = len(lists)
            lists.append(of_bucket.starts + np.int32(start))
            groups.append(groups[number])
            depths.append(depth + 1)
            low.append(of_bucket.low)
            scale.append(of_bucket.scale)
    if len(lists) == len(index.low):
        return FinerIndex(*index, finer=None)
    firsts = np.concatenate([[0], np.cumsum([len(starts) for starts in lists], dtype=np.int64)])
    return FinerIndex(np.concatenate(lists), firsts, np.array(low), np.array(scale), np.concatenate(finer))
