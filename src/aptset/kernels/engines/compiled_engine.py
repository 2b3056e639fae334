"""The compiled loops: prepares their arguments. What they do is written in C, in ``c/``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import blocks
from aptset.kernels.buckets import FinerIndex, refined
from aptset.kernels.engines.interface import BLOCK_ROWS, Calibrated, Columns, Copies, Groups, Members, UnorderedMembers
from aptset.kernels.formula import Floats, LinearScore, Ordering, OwnMass, Places
from aptset.kernels.p_value_rounding import by_decimals, rounding_bits
from aptset.kernels.rowhash import Words, column_keys
from aptset.kernels.softmax import CONSTANTS

if TYPE_CHECKING:
    from aptset.kernels.rows import Rows


@dataclass(frozen=True)
class CompiledEngine:
    """Loops in C, for the level of this machine."""

    loops: Any  # the extension module
    name: str = "compiled"

    @cached_property
    def for_functions(self) -> CompiledEngine:
        """The same loops around scores that they do not know."""
        return FreeEngine(self.loops)

    def step(self, rows: Rows) -> int:
        """Return larger blocks where nothing is copied: calls are few, and memory is bounded all the same."""
        cells = blocks.BLOCK_CELLS * (blocks.READ_IN_PLACE if rows.is_plain else 1)
        return max(1, cells // int(rows.probabilities.shape[1]))

    def label_scores(self, rows: Rows, labels: NDArray[np.int64], scores: Floats, noted: Words | None) -> int:
        """Score one label of each row."""
        return int(self.loops.label_scores(*job_of(rows, noted), labels, scores))

    def all_scores(self, rows: Rows, scores: Floats) -> int:
        """Score every label."""
        return int(self.loops.all_scores(*job_of(rows, None), scores))

    def cut(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns | UnorderedMembers]:
        """Return the members at the largest threshold; many of them wait to be put in order."""
        n_cells, tie_seeds = rows.probabilities.size, None
        # Sets at several thresholds are beginnings of one order; members of narrow rows come out in order anyhow.
        may_wait = thresholds.shape[1] == 1 and rows.probabilities.shape[1] > _WIDEST_TILE and n_cells >= _FEW_CELLS
        room, values = take_room(rows, may_wait) if rows.rooms or may_wait else (room_for_members(rows), None)
        if may_wait:
            tie_seeds = np.empty(len(rows.probabilities), dtype=np.uint64)
        in_a_row = sizes if sizes.flags.c_contiguous else np.empty(sizes.shape, dtype=np.int32)
        where = (in_a_row, room, room.itemsize, None if values is None else values[:n_cells], tie_seeds)
        n_levels, stride = thresholds.shape[1], thresholds.shape[1] if len(thresholds) > 1 else 0
        bad, written = self.loops.cuts(*job_of(rows, noted), thresholds, n_levels, stride, min_size, *where)
        if in_a_row is not sizes:
            sizes[:] = in_a_row
        members, beside = room[:written], None if values is None else values[:written]
        if 2 * written < n_cells or values is None:  # else a copy would cost more than the room that stays empty
            members, beside = members.copy(), None if beside is None else beside.copy()
            rows.rooms.append((room, values))
        if beside is None or tie_seeds is None or bad >= 0:
            return bad, members
        waiting = WaitingMembers(self.loops, in_a_row[0], members, beside, tie_seeds)
        return bad, waiting if written >= _MANY * len(rows) else waiting.in_order()

    def mask(self, rows: Rows, thresholds: Floats, min_size: int, flags: NDArray[np.bool_], noted: Words | None) -> int:
        """Flag the members."""
        if thresholds.shape[1] == 1:
            stride = 1 if len(thresholds) > 1 else 0
            return int(self.loops.masks(*job_of(rows, noted), thresholds, 1, stride, min_size, flags))
        flags[:] = False
        bad, _ = self.loops.by_label(*job_of(rows, noted), len(rows), thresholds[0], min_size, None, None, 1, flags)
        return int(bad)

    def cut_by_label(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members at a threshold for every column."""
        room, _ = take_room(rows, with_values=False)
        where = (len(rows), thresholds, min_size, sizes, room, room.itemsize, None)
        bad, written = self.loops.by_label(*job_of(rows, noted), *where)
        members = room[:written].copy()
        rows.rooms.append((room, None))
        return bad, members

    def cut_by_cell(self, rows: Rows, of_levels: Floats, min_size: int) -> tuple[int, list[Members]]:
        """Score every label, and return the members at a threshold for every cell."""
        scores = np.empty(rows.probabilities.shape)
        bad = self.all_scores(rows, scores)
        return bad, [self._members(rows, scores, wanted, min_size) for wanted in of_levels if bad < 0]

    def _members(self, rows: Rows, scores: Floats, thresholds: Floats, min_size: int) -> Members:
        """Return the sizes and members of rows with seeds."""
        room, sizes = room_for_members(rows), np.empty(len(rows), dtype=np.int32)
        where = (*at_cells(thresholds), min_size, sizes, room, room.itemsize, None)
        written = self.loops.by_cell(*job_of(rows, None), len(rows), scores, *where)
        return sizes, room[:written].astype(np.int32)

    def add_counts(self, rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
        """Count the scores below every label."""
        return int(self.loops.add_counts(*job_of(rows, None), *self._known(calibrated, row_groups), None, counts))

    def p_values(
        self, rows: Rows, calibrated: Calibrated, row_groups: Groups, p_values: Floats, noted: Words | None
    ) -> int:
        """Divide, and go one step up where the table says so."""
        of_scores = (*self._known(calibrated, row_groups), self._rounding(calibrated))
        return int(self.loops.p_values(*job_of(rows, noted), *of_scores, p_values))

    def _known(self, calibrated: Calibrated, row_groups: Groups) -> tuple[object, ...]:
        """Return what is known of the calibration scores, but for the bits of rounding (``KNOWN_FORMAT``)."""
        of_columns = None if calibrated.of_columns is None else calibrated.of_columns.astype(np.int32)
        return calibrated.scores, calibrated.offsets, row_groups, of_columns, *self._index(calibrated)

    def _index(self, calibrated: Calibrated) -> FinerIndex:
        """Return the index with finer buckets, worked out once."""
        index: FinerIndex | None = calibrated.kept.get("finer index")
        if index is None:
            index = refined(self.loops, calibrated.scores, calibrated.offsets, calibrated.index)
            calibrated.kept["finer index"] = index
        return index

    def _rounding(self, calibrated: Calibrated) -> NDArray[np.uint8]:
        rounding: NDArray[np.uint8] | None = calibrated.kept.get(self.name)
        if rounding is None:
            rounding = calibrated.kept[self.name] = self._round(calibrated)
        return rounding

    def _round(self, calibrated: Calibrated) -> NDArray[np.uint8]:
        """Return the bits that go beside the nearest floats; none for offsets that the loops refuse."""
        sizes = np.diff(calibrated.offsets)
        if (sizes < 0).any() or calibrated.offsets[-1] > len(calibrated.scores):
            return np.empty(0, dtype=np.uint8)  # the loops refuse such offsets
        return rounding_bits(calibrated.offsets, lambda n: self.p_value_table(n, sizes[:0]))

    def hash_rows(self, values: NDArray[np.generic], key: int, seeds: Words) -> None:
        """Seed every row."""
        self.loops.hash_rows(values, column_keys(key, values.shape[1]), key, seeds)

    def copies(self, seeds: Words, side: int, first_row: int) -> Copies:
        """Find the copies."""
        rows, own = np.empty(len(seeds), dtype=np.int64), np.empty(len(seeds), dtype=np.uint64)
        n_copies = self.loops.copies(np.ascontiguousarray(seeds), first_row // BLOCK_ROWS, side, rows, own)
        return Copies(rows[:n_copies].copy(), own[:n_copies].copy())

    def softmax(self, logits: NDArray[np.generic], probabilities: Floats) -> None:
        """Exponentiate and divide."""
        self.loops.softmax(np.ascontiguousarray(logits), logits.shape[1], CONSTANTS, probabilities)

    def p_value_table(self, n: int, counts: NDArray[Any]) -> Floats:
        """Return the p-values of all counts, which depend on n alone and are kept."""
        return _large_table(self.loops, n) if n >= _LARGE else _table(self.loops, n)


@dataclass(frozen=True)
class WaitingMembers:
    """Members in any order, and what puts them in order: their probabilities, and the seed of the ties of each row."""

    loops: Any
    sizes: NDArray[np.int32]
    columns: Columns
    values: NDArray[np.floating[Any]]
    tie_seeds: Words

    def in_order(self) -> NDArray[np.int32]:
        """Return the members, most likely first."""
        ordered = np.empty(len(self.columns), dtype=np.int32)
        of_members = (self.columns, self.columns.itemsize, self.values, self.tie_seeds)
        self.loops.order(np.ascontiguousarray(self.sizes), *of_members, ordered)
        return ordered


def _compute(loops: Any, n: int) -> Floats:
    table = np.empty(n + 1)
    done = loops.p_value_table(table)  # the smallest p-values are left to the decimals
    table[done:] = by_decimals(n, np.arange(done, n + 1))[done:]
    table.flags.writeable = False
    return table


_LARGE = 2**14  # tables from here on take memory: few are kept
_table = lru_cache(maxsize=256)(_compute)
_large_table = lru_cache(maxsize=2)(_compute)

_MANY = 48  # members a row: fewer are in order at once
_FEW_CELLS = 2**14  # too few for waiting to be worth it
_NO_LINEAR_SCORE = LinearScore().flat  # of a score that the loops do not know


def job_of(rows: Rows, noted: Words | None) -> tuple[object, ...]:
    """Return the arguments that every loop over probabilities takes first (``JOB_FORMAT`` in ``c/compiled.c``)."""
    values, linear = rows.probabilities, rows.formula.linear
    flat = _NO_LINEAR_SCORE if linear is None else linear.flat
    keys = column_keys(rows.key, values.shape[1])
    return values, values.shape[1], flat, keys, rows.key, rows.tolerance, rows.seeds, rows.u, noted


_WIDEST_TILE = 40  # WIDEST_TILE in c/narrow_simd.h: narrow rows come out in order anyhow


def room_for_members(rows: Rows) -> Columns:
    """Return room in the smallest type for a column: what waits to be joined then takes little memory."""
    n_rows, n_columns = rows.probabilities.shape
    width = 1 if n_columns <= _WIDEST_TILE else 2 if n_columns <= 2**16 else 4
    return np.empty(n_rows * n_columns, dtype=f"u{width}" if width < 4 else np.int32)


def take_room(rows: Rows, with_values: bool) -> tuple[Columns, NDArray[np.floating[Any]] | None]:
    """Return room for members, and for the probability of each; of a block that is done, or new memory."""
    n_cells, room, values = rows.probabilities.size, None, None
    if rows.rooms:
        with suppress(IndexError):  # another thread may have been quicker
            room, values = rows.rooms.pop()
    if room is None or len(room) < n_cells:
        room, values = room_for_members(rows), None
    if with_values and (values is None or len(values) < n_cells):
        values = np.empty(n_cells, dtype=rows.probabilities.dtype)
    return room, values if with_values else None


def at_cells(thresholds: Floats) -> tuple[object, ...]:
    """Return the arguments of a threshold for every cell: whether rows, and labels, have their own."""
    return np.ascontiguousarray(thresholds), len(thresholds) > 1, thresholds.shape[1] > 1


@dataclass(frozen=True)
class FreeEngine(CompiledEngine):
    """The loops around scores that have no linear form: every label is scored first, and no order of scores is assumed.

    Scores of a label's own mass and of ordered labels are worked out in C; others are functions, which are told in C
    where labels stand.
    """

    def step(self, rows: Rows) -> int:
        """Return blocks whose scores stay in the cache of a core."""
        return max(1, blocks.BLOCK_CELLS // rows.n_columns)

    def label_scores(self, rows: Rows, labels: NDArray[np.int64], scores: Floats, noted: Words | None) -> int:
        """Score one label of each row."""
        if rows.formula.fast is not None:
            return self._fast(rows, rows.formula.fast, labels, scores, noted)
        all_scores = np.empty(rows.probabilities.shape)
        bad = self.all_scores(rows, all_scores, noted)
        scores[:] = np.take_along_axis(all_scores, labels[:, None], axis=1)[:, 0]
        return bad

    def all_scores(self, rows: Rows, scores: Floats, noted: Words | None = None) -> int:
        """Score every label."""
        of = rows.formula.of
        if rows.formula.fast is not None:
            return self._fast(rows, rows.formula.fast, None, scores, noted)
        assert of is not None
        of_labels, of_rows = np.empty((3, *scores.shape)), np.empty((5, len(scores), 1))
        bad = int(self.loops.standing(*job_of(rows, noted), of_labels, of_rows))
        if bad < 0:
            own, above, rank = of_labels
            top, second, total, with_mass, u = of_rows
            scores[:] = of(Places(own, above, rank, top, second, total, with_mass, u, scores.shape[1]))
        return bad

    def _fast(
        self,
        rows: Rows,
        form: OwnMass | Ordering,
        labels: NDArray[np.int64] | None,
        scores: Floats,
        noted: Words | None,
    ) -> int:
        """Score every label, or one of each row, by a form that the loops know."""
        job = job_of(rows, noted)
        if isinstance(form, Ordering):
            return int(self.loops.ordered(*job, form.columns, form.is_central, labels, scores))
        return int(self.loops.own_mass(*job, form.factors, form.constant, form.u, labels, scores))

    def mask(self, rows: Rows, thresholds: Floats, min_size: int, flags: NDArray[np.bool_], noted: Words | None) -> int:
        """Flag the members."""
        rows, scores, bad = self._scored(rows, noted)
        if bad < 0:
            flags[:] = False
            where = (*at_cells(thresholds), min_size, None, None, 1, flags)
            self.loops.by_cell(*job_of(rows, None), len(rows), scores, *where)
        return bad

    def cut_by_label(
        self, rows: Rows, thresholds: Floats, min_size: int, sizes: NDArray[np.int32], noted: Words | None
    ) -> tuple[int, Columns]:
        """Return the members at a threshold for every column."""
        rows, scores, bad = self._scored(rows, noted)
        if bad >= 0:
            return bad, np.empty(0, dtype=np.int32)
        sizes[:], members = self._members(rows, scores, thresholds[None, :], min_size)
        return bad, members

    def add_counts(self, rows: Rows, calibrated: Calibrated, row_groups: Groups, counts: NDArray[np.int32]) -> int:
        """Count the scores below every label."""
        _, scores, bad = self._scored(rows, None)
        if bad < 0:
            self.loops.counts_of_scores(scores, rows.n_columns, *self._known(calibrated, row_groups), None, counts)
        return bad

    def p_values(
        self, rows: Rows, calibrated: Calibrated, row_groups: Groups, p_values: Floats, noted: Words | None
    ) -> int:
        """Count, divide, and go one step up where the table says so."""
        _, scores, bad = self._scored(rows, noted)
        if bad < 0:
            of_scores = (*self._known(calibrated, row_groups), self._rounding(calibrated))
            self.loops.p_values_of_scores(scores, rows.n_columns, *of_scores, p_values)
        return bad

    def _scored(self, rows: Rows, noted: Words | None) -> tuple[Rows, Floats, int]:
        """Return the rows with their seeds, the scores of all labels, and the first bad row or -1."""
        scores = np.empty(rows.probabilities.shape)
        if rows.seeds is not None:
            return rows, scores, self.all_scores(rows, scores)
        seeds = np.empty(len(rows), dtype=np.uint64) if noted is None else noted
        bad = self.all_scores(rows, scores, seeds)
        return replace(rows, seeds=seeds), scores, bad
