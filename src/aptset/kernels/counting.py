"""How many calibration scores lie below a score, and what p-values that makes."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.buckets import Buckets, buckets_between
from aptset.kernels.engines.interface import NO_INDEX, Calibrated, Copies, Groups, Index
from aptset.kernels.engines.numpy_engine import count_below
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import pointers_of
from aptset.kernels.p_value_rounding import POWERS, TENTHS, by_pairs
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import Rows, first_bad_row

__all__ = ["NO_INDEX", "Calibrated", "Index", "add_counts", "count_below", "index_of", "lower", "p_values_of"]
__all__ += ["p_values_of_rows"]

_FEWEST = 64  # scores of a group that an index pays for


def index_of(sorted_scores: Floats, offsets: NDArray[np.int64]) -> Index:
    """Return an index of the scores of each group; of none where all groups are small, or all scores the same."""
    of_groups = [_buckets_of(sorted_scores[start:stop]) for start, stop in pairwise(offsets.tolist())]
    lists = [buckets.starts for buckets in of_groups]
    starts = lists[0] if len(lists) == 1 else np.concatenate(lists or [np.empty(0, dtype=np.int32)])
    if not len(starts):
        return NO_INDEX
    low, scale = np.array([[buckets.low, buckets.scale] for buckets in of_groups]).T
    return Index(starts, pointers_of(np.array([len(starts) for starts in lists])), low.copy(), scale.copy())


_CROWDED = 64  # scores in the bucket of a score, on average, from which on narrower ranges are tried
_RANGES = ((0.001, 0.999), (0.01, 0.99), (0.1, 0.9), (0.25, 0.75), (0.0, 0.5), (0.5, 1.0), (0.0, 0.1), (0.9, 1.0))


def _buckets_of(scores: Floats) -> Buckets:
    """Return the buckets of a group, none for a small one or where all scores are the same.

    Buckets cover the range of the scores, or of most of them where a few lie far away: those go into the buckets at
    the ends.
    """
    if len(scores) < _FEWEST:
        return Buckets(np.empty(0, dtype=np.int32), 0.0, 0.0)
    loops, last = engines.chosen.loops, len(scores) - 1
    best = buckets_between(loops, scores, 0, last)
    if best is None or best.crowding > _CROWDED:
        for low, high in _RANGES:
            tried = buckets_between(loops, scores, int(low * last), int(high * last))
            if tried is not None and (best is None or tried.crowding < best.crowding):
                best = tried
    return Buckets(np.empty(0, dtype=np.int32), 0.0, 0.0) if best is None else best


def add_counts(rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
    """Add to the count of every label the calibration scores of its group that are strictly below its score.

    The group of a label is the one of its row (-1 for none, which adds nothing), or that of its column if
    ``row_groups`` is None. Returns the first bad row or -1.
    """
    if calibrated.n_by_label:
        return _by_row_group(rows, calibrated, row_groups, counts, add_counts)

    def work(block: Rows, start: int, stop: int) -> int:
        groups = None if row_groups is None else np.ascontiguousarray(row_groups[start:stop])
        bad = block.engine.add_counts(block, calibrated, groups, counts[start:stop])
        return start + bad if bad >= 0 else -1

    return first_bad_row(rows.over_blocks(work))


def p_values_of_rows(rows: Rows, calibrated: Calibrated, row_groups: Groups) -> tuple[Floats, int]:
    """Return the p-value of every label, and the first bad row or -1."""
    if calibrated.n_by_label:
        p_values = np.ones(rows.probabilities.shape)
        return p_values, _by_row_group(rows, calibrated, row_groups, p_values, _write_p_values)
    p_values = np.empty(rows.probabilities.shape)

    def work(block: Rows, start: int, stop: int, noted: Words | None) -> tuple[int, None]:
        groups = None if row_groups is None else np.ascontiguousarray(row_groups[start:stop])
        return block.engine.p_values(block, calibrated, groups, p_values[start:stop], noted), None

    run = rows.run(work)
    if run.copies is None or run.first_bad >= 0:
        return p_values, run.first_bad
    copies = run.copies.rows
    groups_of_copies = None if row_groups is None else row_groups[copies]
    p_values[copies], bad = p_values_of_rows(rows.again(run.copies), calibrated, groups_of_copies)
    return p_values, run.copies.row_of(bad)


def _write_p_values(rows: Rows, calibrated: Calibrated, row_groups: Groups, out: Floats) -> int:
    out[:], first_bad = p_values_of_rows(rows, calibrated, row_groups)
    return first_bad


def _by_row_group(rows: Rows, calibrated: Calibrated, row_groups: Groups, out: NDArray[Any], work: Any) -> int:
    """Do what labels alone decide for the rows of each group; rows of a group never seen stay as they are."""
    rows, bads = rows.seeded(), []  # copies may stand in other groups
    assert row_groups is not None
    assert rows.seeds is not None
    for group in np.unique(row_groups).tolist():
        inside = np.flatnonzero(row_groups == group)
        same, part = rows.again(Copies(inside, rows.seeds[inside])), out[inside]
        if group < 0:  # rows that are looked at for no other reason than that some may be bad
            bad = lower(same, np.full(same.probabilities.shape, np.inf))
        else:
            bad = work(same, calibrated.of_row_group(group), None, part)
        out[inside] = part
        bads.append(int(inside[bad]) if bad >= 0 else -1)
    return first_bad_row(bads or [-1])


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


def weight_needed_of_sums(first: NDArray[Any], second: NDArray[Any], alpha: Fraction) -> NDArray[Any]:
    """Return the same of sums of an entry of each: what is divided is the entries, not the sums."""
    part, whole = alpha.numerator, alpha.denominator
    if object in (first.dtype, second.dtype) or whole >= _NARROW:
        return weight_needed(first + second, alpha)
    (quotient, left), (also, more) = (_times_part(totals, part, whole) for totals in (first, second))
    return np.asarray(((first - quotient) + (second - also)) - (left + more >= whole))


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
    result, is_open = rounded_ratios(numerators, denominators)
    is_open |= denominators >= _WIDE
    if is_open.any():
        result[is_open] = _by_rationals(numerators[is_open], denominators[is_open])
    return result


def rounded_ratios(numerators: NDArray[np.int64], denominators: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the ratios so rounded, and which of them are too close to call."""
    if engines.chosen.loops is None:
        with np.errstate(all="ignore"):  # what is odd is worked out again
            return by_pairs(numerators, denominators)
    result, is_open = np.empty(numerators.shape), np.empty(numerators.shape, dtype=np.bool_)
    pair = np.ascontiguousarray(numerators), np.ascontiguousarray(denominators)
    engines.chosen.loops.ratios(*pair, POWERS, TENTHS, result, is_open)
    return result, is_open


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
