"""Buckets of sorted scores: where the scores in a small range stand, so that few are compared."""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.blocks import over_numbers
from aptset.kernels.engines.interface import Index
from aptset.kernels.formula import Floats

_IN_A_BUCKET = 4  # scores on average


def buckets_between(scores: Floats, first: int, last: int) -> tuple[float, NDArray[np.int64], float, float] | None:
    """Return buckets over the range of some scores: how crowded that of a score is on average, sizes, start, scale."""
    n_buckets, low, span = len(scores) // _IN_A_BUCKET, float(scores[first]), float(scores[last]) - float(scores[first])
    with np.errstate(over="ignore"):
        scale = float(np.float64(n_buckets * (1 - 2.0**-20)) / span) if 0.0 < span < np.inf else np.inf
        if not np.isfinite(scale):
            return None
        sizes = np.zeros(n_buckets, dtype=np.int64)
        for bucket, of_part in over_numbers(len(scores), partial(_sizes_between, scores, low, scale, n_buckets)):
            sizes[bucket : bucket + len(of_part)] += of_part
    return float(np.square(sizes).sum() / len(scores)), sizes, low, scale


def _sizes_between(
    scores: Floats, low: float, scale: float, n_buckets: int, start: int, stop: int
) -> tuple[int, NDArray[np.intp]]:
    """Return the first bucket of some sorted scores, and how many of them are in it and in each that follows."""
    with np.errstate(over="ignore"):
        numbers = np.clip((scores[start:stop] - low) * scale, 0, n_buckets - 1).astype(np.int64)
    ends = np.append(np.flatnonzero(numbers[1:] != numbers[:-1]), len(numbers) - 1)
    sizes = np.zeros(numbers[-1] - numbers[0] + 1, dtype=np.intp)
    sizes[numbers[ends] - numbers[0]] = np.diff(ends, prepend=-1)
    return int(numbers[0]), sizes


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


def refined(scores: Floats, offsets: NDArray[np.int64], index: Index) -> FinerIndex:
    """Return the index with finer buckets where scores crowd: on many scales at once, say, as 1 - 1e-2 to 1 - 1e-8."""
    if index.starts is None or index.firsts is None or index.low is None or index.scale is None:
        return FinerIndex(*index, finer=None)
    lists = [index.starts[start:stop] for start, stop in pairwise(index.firsts.tolist())]
    groups, depths, low, scale = list(range(len(lists))), [1] * len(lists), index.low.tolist(), index.scale.tolist()
    finer: list[NDArray[np.int32]] = []
    while len(finer) < len(lists):  # lists that are added wait for their turn
        number = len(finer)
        starts, first, depth = lists[number], int(offsets[groups[number]]), depths[number]
        finer.append(np.zeros(len(starts), dtype=np.int32))
        crowded = np.flatnonzero(np.diff(starts) > _CROWDED).tolist() if depth < _DEEPEST else []
        for bucket in crowded:
            start, stop = int(starts[bucket]), int(starts[bucket + 1])
            of_bucket = buckets_between(scores[first + start : first + stop], 0, stop - start - 1)
            if of_bucket is None:  # all the same
                continue
            finer[number][bucket] = len(lists)
            lists.append((start + np.concatenate([[0], np.cumsum(of_bucket[1])])).astype(np.int32))
            groups.append(groups[number])
            depths.append(depth + 1)
            low.append(of_bucket[2])
            scale.append(of_bucket[3])
    if len(lists) == len(index.low):
        return FinerIndex(*index, finer=None)
    firsts = np.concatenate([[0], np.cumsum([len(starts) for starts in lists], dtype=np.int64)])
    return FinerIndex(np.concatenate(lists), firsts, np.array(low), np.array(scale), np.concatenate(finer))
