"""The loops in numpy: what every other engine must equal, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import blocks
from aptset.kernels.engines.interface import BLOCK_ROWS, Calibrated, Columns, Copies, Groups, Members, columns_in
from aptset.kernels.formula import Floats, LinearScore, Places, mass_score, zero_score
from aptset.kernels.p_value_rounding import by_decimals
from aptset.kernels.rowhash import (
    GOLDEN,
    Words,
    canonical_words,
    column_keys,
    hash_words,
    mix,
    seeds_of,
    ties,
    uniforms,
)
from aptset.kernels.softmax import softmax

if TYPE_CHECKING:
    from aptset.kernels.rows import Rows


_SHORT = 64


@dataclass(frozen=True)
class PreparedBlock:
    """A block of rows as the numpy path sees it: exact masses, totals, uniforms, seeds."""

    raw: NDArray[np.generic]
    values: Floats
    mass: Floats
    total: Floats
    seeds: Words
    u: Floats
    first_bad: int

    def ties(self, rows: NDArray[np.intp]) -> Words:
        """Tie-breakers of the labels of some rows."""
        return ties(self.seeds[rows], self.u[rows], self.values.shape[1])


def prepare_block(block: Rows, noted: Words | None = None) -> PreparedBlock:
    """Widen, put on the grid, sum and check a block (``load_row`` in ``c/order.h``); note the seeds that are hashed."""
    # Short rows lie side by side, so that sums over them run along memory; sums are exact, so their order is free.
    values = block.probabilities.astype(np.float64, order="F" if block.n_columns < _SHORT else "C")
    values += 0.0
    with np.errstate(all="ignore"):
        mass = values + 2.0  # the grid of exact sums: see docs/design/0002
        mass -= 2.0
        total = mass.sum(axis=1)
        is_good = (values.min(axis=1) >= 0.0) & (values.max(axis=1) <= 2.0) & (np.abs(total - 1.0) <= block.tolerance)
    seeds = block.seeds
    if seeds is None:  # of a missing value any word will do: its row is bad
        hashes = hash_words(values.view(np.uint64), column_keys(block.key, block.n_columns))
        seeds = seeds_of(hashes.sum(axis=1, dtype=np.uint64), block.key)
        if noted is not None:
            noted[:] = seeds
    u = uniforms(seeds) if block.u is None else block.u
    first_bad = -1 if is_good.all() else int(np.argmin(is_good))
    return PreparedBlock(block.probabilities, values, mass, total, seeds, u, first_bad)


def order_of(block: PreparedBlock) -> tuple[NDArray[np.intp], Floats]:
    """Labels of each row in order: probability downward, equal ones by their keyed tie; and their masses."""
    order = np.argsort(np.negative(block.raw), axis=1)  # equal ones are put in order right below
    ordered = np.take_along_axis(block.values, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(tied):
        order[tied] = np.lexsort((block.ties(tied), -block.values[tied]), axis=1)
    return order, (ordered + 2.0) - 2.0


def ordered_scores(block: PreparedBlock, linear: LinearScore) -> tuple[NDArray[np.intp], Floats]:
    """Order of the labels of each row, and their scores in that order (upward)."""
    order, mass = order_of(block)
    above = np.cumsum(mass, axis=1) - mass
    rank = np.arange(1.0, mass.shape[1] + 1.0)[None, :]
    top_two = mass[:, 0:1], mass[:, 1:2]
    scores = mass_score(linear, above, mass, *top_two, block.total[:, None], rank, block.u[:, None])
    with_zeros = np.flatnonzero(mass[:, -1] == 0.0)  # rows with labels without mass: those stand last
    if len(with_zeros) and linear.behind:
        with_mass = (mass[with_zeros] > 0.0).sum(axis=1, keepdims=True)
        zeros = np.maximum(mass.shape[1] - with_mass, 1)
        behind = zero_score(linear, rank - 1.0 - with_mass, zeros, rank, block.u[with_zeros, None])
        scores[with_zeros] = np.where(mass[with_zeros] > 0.0, scores[with_zeros], behind)
    return order, scores


def places_of(block: PreparedBlock, order: NDArray[np.intp], mass: Floats) -> Places:
    """Where every label stands, in the order of the columns."""
    rank, above = np.empty(mass.shape), np.empty(mass.shape)
    np.put_along_axis(rank, order, np.arange(1.0, mass.shape[1] + 1.0)[None, :], axis=1)
    np.put_along_axis(above, order, np.cumsum(mass, axis=1) - mass, axis=1)
    with_mass = (mass > 0.0).sum(axis=1, keepdims=True).astype(np.float64)
    of_rows = mass[:, 0:1], mass[:, 1:2], block.total[:, None], with_mass, block.u[:, None]
    return Places(np.ascontiguousarray(block.mass), above, rank, *of_rows, mass.shape[1])


def order_and_scores(block: Rows, noted: Words | None = None) -> tuple[NDArray[np.intp], Floats, int]:
    """Order of the labels of each row, their scores in that order, and the first bad row (then the others are none)."""
    prepared = prepare_block(block, noted)
    if prepared.first_bad >= 0:
        none = np.zeros(block.probabilities.shape)
        return none.astype(np.intp), none, prepared.first_bad
    if block.formula.linear is not None:
        return *ordered_scores(prepared, block.formula.linear), -1
    assert block.formula.of is not None
    order, mass = order_of(prepared)
    return order, np.take_along_axis(block.formula.of(places_of(prepared, order, mass)), order, axis=1), -1


def label_scores_of(prepared: PreparedBlock, linear: LinearScore, labels: NDArray[np.int64]) -> Floats:
    """Score of one label a row, without an order of the others."""
    values, mass, u = prepared.values, prepared.mass, prepared.u
    at = np.arange(len(values)), labels
    value, own = values[at][:, None], mass[at]
    is_greater = values > value
    greater, equal = _count(is_greater), _count(values == value)
    before = np.zeros(len(values))
    tied = np.flatnonzero(equal > 1)
    if len(tied):
        breakers = prepared.ties(tied)
        my_breaker = np.take_along_axis(breakers, labels[tied, None], axis=1)
        before[tied] = ((values[tied] == value[tied]) & (breakers < my_breaker)).sum(axis=1)
    above = np.where(is_greater, mass, 0.0).sum(axis=1) + before * own
    rank = greater + before + 1.0
    top, second = _top_two(mass, linear)
    scores = mass_score(linear, above, own, top, second, prepared.total, rank, u)
    none = np.flatnonzero(own == 0.0)
    if linear.behind and len(none):
        with_mass = (mass[none] > 0.0).sum(axis=1)
        zeros = np.maximum(values.shape[1] - with_mass, 1)
        position = greater[none] - with_mass + before[none]
        scores[none] = zero_score(linear, position, zeros, rank[none], u[none])
    return scores


def _count(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the flags of each row; those of short rows in bytes."""
    in_bytes = flags.view(np.uint8).sum(axis=1, dtype=np.uint8 if flags.shape[1] < _SHORT else np.int64)
    return np.asarray(in_bytes, dtype=np.int64)


def _top_two(mass: Floats, linear: LinearScore) -> tuple[Floats, Floats]:
    """Return the two largest masses of each row, or zeros if no weight asks for them."""
    if linear.top == 0.0 and linear.first is None:
        return np.zeros(len(mass)), np.zeros(len(mass))
    second, top = np.partition(mass, -2, axis=1)[:, -2:].T
    return top, second


@dataclass(frozen=True)
class NumpyEngine:
    """Loops in numpy; the only ones that also take any function of places."""

    name: str = "numpy"
    loops: ClassVar[None] = None

    @property
    def for_functions(self) -> NumpyEngine:
        """The same."""
        return self

    def step(self, rows: Rows) -> int:
        """Return blocks that stay in the cache of a core."""
        return max(1, blocks.BLOCK_CELLS // rows.n_columns)

    def label_scores(self, rows: Rows, labels: NDArray[np.int64], scores: Floats, noted: Words | None) -> int:
        """Score one label of each row."""
        if rows.formula.linear is None:
            all_scores = np.empty(rows.probabilities.shape)
            bad = self.all_scores(rows, all_scores, noted)
            scores[:] = np.take_along_axis(all_scores, labels[:, None], axis=1)[:, 0]
            return bad
        prepared = prepare_block(rows, noted)
        if prepared.first_bad < 0:
            scores[:] = label_scores_of(prepared, rows.formula.linear, labels)
        return prepared.first_bad

    def all_scores(self, rows: Rows, scores: Floats, noted: Words | None = None) -> int:
        """Score every label."""
        order, ordered, bad = order_and_scores(rows, noted)
        np.put_along_axis(scores, order, ordered, axis=1)
        return bad

    def cut(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members at the largest threshold."""
        order, scores, bad = order_and_scores(rows, noted)
        for a in range(thresholds.shape[1]):
            np.maximum((scores <= thresholds[:, a, None]).sum(axis=1), min_size, out=sizes[a], casting="unsafe")
        is_member = np.arange(order.shape[1])[None, :] < sizes.max(axis=0)[:, None]
        return bad, order[is_member].astype(np.int32)

    def mask(self, rows: Rows, thresholds: Floats, min_size: int, flags: NDArray[np.bool_], noted: Words | None) -> int:
        """Flag the members."""
        order, scores, bad = order_and_scores(rows, noted)
        at = thresholds if thresholds.shape[1] == 1 else thresholds[0][order]
        np.put_along_axis(flags, order, filled(scores <= at, min_size), axis=1)
        return bad

    def cut_by_label(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members at a threshold for every column."""
        order, scores, bad = order_and_scores(rows, noted)
        inside = filled(scores <= thresholds[order], min_size)
        sizes[:] = inside.sum(axis=1)
        return bad, order[inside].astype(np.int32)

    def cut_by_cell(self, rows: Rows, of_levels: Floats, min_size: int) -> tuple[int, list[Members]]:
        """Return the members at a threshold for every cell."""
        order, scores, bad = order_and_scores(rows)
        members = []
        for wanted in of_levels if bad < 0 else ():
            at = wanted if wanted.shape[1] == 1 else np.take_along_axis(wanted, order, axis=1)
            inside = filled(scores <= at, min_size)
            members.append((inside.sum(axis=1, dtype=np.int32), order[inside].astype(np.int32)))
        return bad, members

    def add_counts(self, rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
        """Count the scores below every label."""
        scores = np.empty(rows.probabilities.shape)
        bad = self.all_scores(rows, scores)
        if bad < 0:
            counts += count_below(scores, calibrated, row_groups)
        return bad

    def p_values(
        self, rows: Rows, calibrated: Calibrated, row_groups: Groups, p_values: Floats, noted: Words | None
    ) -> int:
        """Look the counts up, group by group."""
        scores = np.empty(rows.probabilities.shape)
        bad = self.all_scores(rows, scores, noted)
        if bad >= 0:
            return bad
        counts = count_below(scores, calibrated, row_groups)
        p_values[:] = 1.0
        for group, n in enumerate(np.diff(calibrated.offsets).tolist()):
            by_column = row_groups is None
            cells = _columns(group, calibrated) if by_column else np.flatnonzero(row_groups == group)
            p_values[cells] = self.p_value_table(n, counts[cells])[counts[cells]]
        return bad

    def hash_rows(self, values: NDArray[np.generic], key: int, seeds: Words) -> None:
        """Seed every row."""
        words = canonical_words(values.astype(np.float64))
        hashes = hash_words(words, column_keys(key, values.shape[1])).sum(axis=1, dtype=np.uint64)
        seeds[:] = seeds_of(hashes, key)

    def copies(self, seeds: Words, side: int, first_row: int) -> Copies:
        """Find the copies."""
        if not has_copies(seeds):
            return Copies(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.uint64))
        block = np.arange(len(seeds)) // BLOCK_ROWS
        order = np.lexsort((seeds, block))  # stable: equal ones stay in the order of the rows
        starts = np.flatnonzero(np.append(True, (np.diff(seeds[order]) != 0) | (np.diff(block[order]) != 0)))
        copy = np.arange(len(seeds)) - np.repeat(starts, np.diff(np.append(starts, len(seeds))))
        rows = np.sort(order[copy > 0])
        number = np.empty(len(seeds), dtype=np.uint64)
        number[order] = copy
        blocks_before = np.uint64(first_row // BLOCK_ROWS)
        place = (block[rows].astype(np.uint64) + blocks_before) * np.uint64(BLOCK_ROWS) + number[rows]
        return Copies(rows, mix(seeds[rows] + mix(place * np.uint64(2) + np.uint64(side) + np.uint64(GOLDEN))))

    def softmax(self, logits: NDArray[np.generic], probabilities: Floats) -> None:
        """Exponentiate and divide."""
        with np.errstate(all="ignore"):
            probabilities[:] = softmax(logits.astype(np.float64))

    def p_value_table(self, n: int, counts: NDArray[Any]) -> Floats:
        """Return a table that is right at these counts: a decimal for each of them."""
        return by_decimals(n, np.flatnonzero(np.bincount(counts.ravel(), minlength=n + 1)))


def filled(inside: NDArray[np.bool_], min_size: int) -> NDArray[np.bool_]:
    """Give empty sets their most likely label, if sets must hold one."""
    if min_size:
        inside[~inside.any(axis=1), 0] = True
    return inside


def _columns(group: int, calibrated: Calibrated) -> tuple[slice, slice | NDArray[np.intp]]:
    return np.s_[:, columns_in(group, calibrated.of_columns)]


def has_copies(seeds: Words) -> bool:
    """Tell whether some seed comes twice in a block of rows; sorting seeds alone is quick, and mostly all it takes."""
    whole = len(seeds) // BLOCK_ROWS * BLOCK_ROWS
    for in_blocks in (seeds[:whole].reshape(-1, BLOCK_ROWS), seeds[None, whole:]):
        in_order = np.sort(in_blocks, axis=1)
        if (in_order[:, 1:] == in_order[:, :-1]).any():
            return True
    return False


def count_below(scores: Floats, calibrated: Calibrated, row_groups: Groups) -> NDArray[np.int32]:
    """Count the calibration scores of its group below each of a matrix of scores (rows, labels)."""
    counts = np.zeros(scores.shape, dtype=np.int32)
    if calibrated.n_by_label and row_groups is not None:  # rows and labels decide together
        for group in np.unique(row_groups[row_groups >= 0]).tolist():
            inside = np.flatnonzero(row_groups == group)
            counts[inside] = count_below(scores[inside], calibrated.of_row_group(group), None)
        return counts
    for group, (start, stop) in enumerate(pairwise(calibrated.offsets.tolist())):
        by_column = row_groups is None
        cells = _columns(group, calibrated) if by_column else np.flatnonzero(row_groups == group)
        counts[cells] = np.searchsorted(calibrated.scores[start:stop], scores[cells], side="left")
    return counts
