"""Exact conformal ranks, and how many calibration scores lie below a score."""

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.buckets import buckets_between
from aptset.kernels.engines.interface import NO_INDEX, Calibrated, Groups, Index
from aptset.kernels.engines.numpy_engine import count_below
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import pointers_of
from aptset.kernels.rows import Rows, first_bad_row, piece_of

__all__ = ["NO_INDEX", "Calibrated", "Index", "add_counts", "count_below", "index_of", "lower", "p_values_of"]
__all__ += ["p_values_of_rows", "rank_at", "size_needed"]


def rank_at(n: int, alpha: Fraction) -> int:
    """Return ceil((1 - alpha)(n + 1)): which smallest score of n is the threshold; above n, every label is in."""
    return ceil((1 - alpha) * (n + 1))


@lru_cache(maxsize=1024)
def size_needed(alpha: Fraction) -> int:
    """Return the smallest n whose rank at ``alpha`` is at most n."""
    return ceil((1 - alpha) / alpha)


_FEWEST = 64  # scores of a group that an index pays for


def index_of(sorted_scores: Floats, offsets: NDArray[np.int64]) -> Index:
    """Return an index of the scores of each group; of none where all groups are small, or all scores the same."""
    found = [_starts_of(sorted_scores[start:stop]) for start, stop in pairwise(offsets.tolist())]
    starts = np.concatenate([starts for starts, _, _ in found] or [np.empty(0, dtype=np.int32)])
    if not len(starts):
        return NO_INDEX
    firsts = np.concatenate([[0], np.cumsum([len(starts) for starts, _, _ in found], dtype=np.int64)])
    return Index(starts, firsts, np.array([low for _, low, _ in found]), np.array([scale for _, _, scale in found]))


_CROWDED = 64  # scores in the bucket of a score, on average, from which on narrower ranges are tried
_RANGES = ((0.001, 0.999), (0.01, 0.99), (0.1, 0.9), (0.25, 0.75), (0.0, 0.5), (0.5, 1.0), (0.0, 0.1), (0.9, 1.0))


def _starts_of(scores: Floats) -> tuple[NDArray[np.int32], float, float]:
    """Return where the buckets of a group start, and what finds the bucket of a score.

    Buckets cover the range of the scores, or of most of them where a few lie far away: those go into the buckets at
    the ends.
    """
    if len(scores) < _FEWEST:
        return np.empty(0, dtype=np.int32), 0.0, 0.0
    best = buckets_between(scores, 0, len(scores) - 1)
    if best is None or best[0] > _CROWDED:
        for low, high in _RANGES:
            tried = buckets_between(scores, int(low * (len(scores) - 1)), int(high * (len(scores) - 1)))
            if tried is not None and (best is None or tried[0] < best[0]):
                best = tried
    if best is None:
        return np.empty(0, dtype=np.int32), 0.0, 0.0
    _, sizes, low_end, scale = best
    return pointers_of(sizes).astype(np.int32), low_end, scale


def add_counts(rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
    """Add to the count of every label the calibration scores of its group that are strictly below its score.

    The group of a label is the one of its row (-1 for none, which adds nothing), or that of its column if
    ``row_groups`` is None. Returns the first bad row or -1.
    """

    def work(block: Rows, start: int, stop: int) -> int:
        groups = None if row_groups is None else np.ascontiguousarray(row_groups[start:stop])
        bad = block.engine.add_counts(block, calibrated, groups, counts[start:stop])
        return start + bad if bad >= 0 else -1

    return first_bad_row(rows.over_blocks(work))


def p_values_of_rows(rows: Rows, calibrated: Calibrated, row_groups: Groups) -> tuple[Floats, int]:
    """Return the p-value of every label, and the first bad row or -1."""
    noted, p_values = rows.room_for_seeds(), np.empty(rows.probabilities.shape)

    def work(block: Rows, start: int, stop: int) -> int:
        groups = None if row_groups is None else np.ascontiguousarray(row_groups[start:stop])
        bad = block.engine.p_values(block, calibrated, groups, p_values[start:stop], piece_of(noted, start, stop))
        return start + bad if bad >= 0 else -1

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row(results)
    if copies is not None and first_bad < 0:
        groups_of_copies = None if row_groups is None else row_groups[copies.rows]
        p_values[copies.rows], bad = p_values_of_rows(rows.again(copies), calibrated, groups_of_copies)
        first_bad = copies.row_of(bad)
    return p_values, first_bad


def lower(rows: Rows, lowest: Floats) -> int:
    """Lower each entry of a matrix to the score of its label; return the first bad row or -1."""

    def work(block: Rows, start: int, stop: int) -> int:
        scores = np.empty(block.probabilities.shape)
        bad = block.engine.all_scores(block, scores)
        np.minimum(lowest[start:stop], scores, out=lowest[start:stop])
        return start + bad if bad >= 0 else -1

    return first_bad_row(rows.over_blocks(work))


_SHORT = 2**12  # cells up to here are looked up at once


def p_values_of(counts: NDArray[np.int32], n: int) -> Floats:
    """Return (n + 1 - count) / (n + 1) for every count, rounded as :mod:`aptset.kernels.p_value_rounding` says."""
    table = engines.chosen.p_value_table(n, counts)
    if counts.size <= _SHORT:
        return table[counts]
    p_values = np.empty(counts.shape)

    def work(start: int, stop: int) -> None:
        table.take(counts[start:stop], out=p_values[start:stop], mode="clip")  # in place; counts are never beyond n

    over_blocks(len(counts), max(1, BLOCK_CELLS // max(1, counts.size // len(counts))), work)
    return p_values


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
