"""Exact conformal ranks, and how many calibration scores lie below a score."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import over_blocks, thread_count
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, all_scores_of_block, compiled_arguments, first_bad_row
from aptset.kernels.rowhash import column_keys

Groups = NDArray[np.int32] | None


_LONG = 2**17  # scores from here on are sorted in parts, on every core


def sort_upward(scores: Floats) -> Floats:
    """Return a sorted copy."""
    threads = thread_count() if len(scores) >= _LONG else 1
    if threads == 1:
        return np.sort(scores)
    with ThreadPoolExecutor(threads) as pool:
        joined = np.concatenate(list(pool.map(np.sort, np.array_split(scores, threads))))
    joined.sort(kind="stable")  # merges runs that are sorted already
    return joined


def rank_at(n: int, alpha: Fraction) -> int:
    """Return ceil((1 - alpha)(n + 1)): which smallest score of n is the threshold; above n, every label is in."""
    return ceil((1 - alpha) * (n + 1))


def size_needed(alpha: Fraction) -> int:
    """Return the smallest n whose rank at ``alpha`` is at most n."""
    return ceil((1 - alpha) / alpha)


class Index(NamedTuple):
    """Where to look first in many scores: those of bucket b stand from ``starts[b]`` on. Twin of the one in C."""

    starts: NDArray[np.int32] | None = None
    low: float = 0.0
    scale: float = 0.0


NO_INDEX = Index()
_FEWEST = 2**12  # scores that an index pays for
_IN_A_BUCKET = 8  # scores on average: one line of the cache


def index_of(sorted_scores: Floats) -> Index:
    """Return an index of the scores of one group; none where they are few, or all the same."""
    n = len(sorted_scores)
    span = float(sorted_scores[-1] - sorted_scores[0]) if n >= _FEWEST else 0.0
    scale = n // _IN_A_BUCKET * (1 - 2.0**-20) / span if span > 0.0 else np.inf
    if not np.isfinite(scale):
        return NO_INDEX
    low, n_buckets = float(sorted_scores[0]), n // _IN_A_BUCKET
    buckets = ((sorted_scores - low) * scale).astype(np.int64)
    return Index(np.searchsorted(buckets, np.arange(n_buckets + 1)).astype(np.int32), low, scale)


def add_counts(
    rows: Rows,
    sorted_scores: Floats,
    offsets: NDArray[np.int64],
    row_groups: Groups,
    counts: NDArray[np.int32],
    index: Index = NO_INDEX,
) -> int:
    """Add to the count of every label the calibration scores of its group that are strictly below its score.

    The scores of group g are ``sorted_scores[offsets[g]:offsets[g + 1]]``. The group of a label is the one of its row
    (-1 for none, which adds nothing), or its own column if ``row_groups`` is None. An index, of one group only, makes
    it faster and changes nothing. Returns the first bad row or -1.
    """
    keys = column_keys(rows.key, rows.n_columns)

    def work(start: int, stop: int) -> int:
        groups = None if row_groups is None else np.ascontiguousarray(row_groups[start:stop])
        if backend.compiled is not None and rows.is_compiled:
            arguments = (*compiled_arguments(rows.block(start, stop), keys), sorted_scores, offsets, groups, *index)
            bad = int(backend.compiled.add_counts(*arguments, counts[start:stop]))
            return start + bad if bad >= 0 else -1
        scores, bad = all_scores_of_block(rows, start, stop)
        if bad < 0:
            counts[start:stop] += count_below(scores, sorted_scores, offsets, groups)
        return bad

    return first_bad_row(over_blocks(len(rows), rows.n_columns, work, rows.in_place))


def count_below(
    scores: Floats, sorted_scores: Floats, offsets: NDArray[np.int64], row_groups: Groups
) -> NDArray[np.int32]:
    """Count the calibration scores of its group below each of a matrix of scores (rows, labels)."""
    counts = np.zeros(scores.shape, dtype=np.int32)
    for group, (start, stop) in enumerate(pairwise(offsets.tolist())):
        mine = np.s_[:, group] if row_groups is None else np.flatnonzero(row_groups == group)
        counts[mine] = np.searchsorted(sorted_scores[start:stop], scores[mine], side="left")
    return counts


def lower(rows: Rows, lowest: Floats) -> int:
    """Lower each entry of a matrix to the score of its label; return the first bad row or -1."""

    def work(start: int, stop: int) -> int:
        scores, bad = all_scores_of_block(rows, start, stop)
        np.minimum(lowest[start:stop], scores, out=lowest[start:stop])
        return bad

    return first_bad_row(over_blocks(len(rows), rows.n_columns, work))
