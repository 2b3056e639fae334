"""Scores of labels from where they stand in their rows: one label a row in one pass, or every label."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import BLOCK_CELLS, contiguous, over_blocks
from aptset.kernels.copies import PREDICTION, Copies, find_copies, own_seeds
from aptset.kernels.formula import Floats, Weights, mass_score, zero_score
from aptset.kernels.rowhash import Words, canonical_words, column_keys, hash_rows, hash_words, seeds_of, ties, uniforms


@dataclass(frozen=True)
class Rows:
    """Rows of probabilities and all that their scores depend on.

    ``seeds`` default to a keyed hash of the probabilities and of which copy a row is (so of its ``side`` and of where
    the rows start, ``first_row``), ``u`` to uniforms drawn from the seeds. A row is bad if a value is not in [0, 2] (so
    also if it is missing) or its sum is further than ``tolerance`` from 1.
    """

    probabilities: NDArray[np.generic]
    weights: Weights
    key: int
    tolerance: float
    seeds: Words | None = None
    u: Floats | None = None
    normalize: bool = False
    side: int = PREDICTION
    first_row: int = 0

    def block(self, start: int, stop: int) -> "Rows":
        """Return rows start .. stop - 1 as contiguous arrays, normalised if that was asked for."""
        values = contiguous(self.probabilities[start:stop])
        if self.normalize:
            values = values.astype(np.float64)
            with np.errstate(all="ignore"):  # a row that cannot be normalised turns bad and is reported as such
                total = values.sum(axis=1, keepdims=True)
                can_be = (values >= 0.0).all(axis=1, keepdims=True) & (total > 0.0)
                values = values / np.where(can_be, total, np.nan)
        return replace(
            self,
            probabilities=values,
            normalize=False,
            seeds=None if self.seeds is None else np.ascontiguousarray(self.seeds[start:stop]),
            u=None if self.u is None else np.ascontiguousarray(self.u[start:stop]),
        )

    def room_for_seeds(self) -> Words | None:
        """Return where the loops note the seeds that they hash, if they do: copies are found among them afterwards."""
        return np.empty(len(self), dtype=np.uint64) if self.seeds is None else None

    def copies(self, noted: Words | None) -> Copies | None:
        """Return the rows that must be looked at again, with a seed of their own, or None."""
        if noted is None or len(noted) < 2:
            return None
        found = find_copies(noted, self.side, self.first_row)
        return found if len(found.rows) else None

    def again(self, copies: Copies) -> "Rows":
        """Return the copies alone."""
        u = None if self.u is None else self.u[copies.rows]
        return replace(self, probabilities=self.probabilities[copies.rows], seeds=copies.seeds, u=u)

    def seeded(self) -> "Rows":
        """Return the rows with their seeds worked out beforehand, for what looks at them in several ways."""
        if self.seeds is not None:
            return self
        seeds = np.empty(len(self), dtype=np.uint64)
        step = max(1, BLOCK_CELLS // self.n_columns) if self.normalize else len(self)
        for start in range(0, len(self), step):
            some = self.block(start, start + step) if self.normalize else self
            seeds[start : start + step] = hash_rows(some.probabilities, self.key)
        return replace(self, seeds=own_seeds(seeds, self.side, self.first_row))

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        return int(self.probabilities.shape[1])

    @property
    def in_place(self) -> bool:
        """Whether the compiled loops read the matrix where it lies."""
        readable = self.probabilities.dtype in (np.float32, np.float64) and self.probabilities.flags.c_contiguous
        return bool(backend.compiled is not None and readable and not self.normalize)


def first_bad_row(rows_of_blocks: list[int]) -> int:
    """Return the first bad row that any block reported, or -1."""
    return min((row for row in rows_of_blocks if row >= 0), default=-1)


def compiled_arguments(block: Rows, keys: Words, noted: Words | None = None) -> tuple[object, ...]:
    """Return the arguments that every compiled loop takes first (``JOB_FORMAT`` in ``c/compiled.c``)."""
    weights = np.array(block.weights, dtype=np.float64)
    of_rows = (block.probabilities, block.n_columns, weights, keys, block.key, block.tolerance)
    return (*of_rows, block.seeds, block.u, noted)


def piece_of(noted: Words | None, start: int, stop: int) -> Words | None:
    """Return the part of the room for seeds that belongs to some rows."""
    return None if noted is None else noted[start:stop]


class LabelScores(NamedTuple):
    """Score of one label per row, the first bad row or -1, how many rows are copies of others, and the seed of each."""

    scores: Floats
    first_bad: int
    n_copies: int
    seeds: Words


def label_scores(rows: Rows, labels: NDArray[np.int64]) -> LabelScores:
    """Score one label (a column number) per row."""
    scores, noted = np.empty(len(rows)), rows.room_for_seeds()
    seeds = rows.seeds if noted is None else noted
    assert seeds is not None  # there is room for them if none came
    keys = column_keys(rows.key, rows.n_columns)

    def work(start: int, stop: int) -> int:
        block = rows.block(start, stop)
        chosen = np.ascontiguousarray(labels[start:stop], dtype=np.int64)
        if backend.compiled is not None:
            arguments = compiled_arguments(block, keys, piece_of(noted, start, stop))
            bad = backend.compiled.label_scores(*arguments, chosen, scores[start:stop])
        else:
            bad = _label_scores_of_block(block, keys, chosen, scores[start:stop], piece_of(noted, start, stop))
        return start + int(bad) if bad >= 0 else -1

    first_bad = first_bad_row(over_blocks(len(rows), rows.n_columns, work, rows.in_place))
    copies = None if first_bad >= 0 else rows.copies(noted)
    if copies is None:
        return LabelScores(scores, first_bad, 0, seeds)
    scores[copies.rows] = label_scores(rows.again(copies), labels[copies.rows]).scores
    seeds[copies.rows] = copies.seeds
    return LabelScores(scores, first_bad, len(copies.rows), seeds)


def all_scores_of_block(rows: Rows, start: int, stop: int) -> tuple[Floats, int]:
    """Score of every label of rows start .. stop - 1, and the first bad row or -1."""
    block = rows.block(start, stop)
    keys = column_keys(rows.key, rows.n_columns)
    scores = np.empty((stop - start, rows.n_columns))
    if backend.compiled is not None:
        bad = int(backend.compiled.all_scores(*compiled_arguments(block, keys), scores))
    else:
        opened = open_block(block, keys)
        bad = opened.first_bad
        if bad < 0:
            order, ordered = ordered_scores(opened, block.weights)
            np.put_along_axis(scores, order, ordered, axis=1)
    return scores, start + bad if bad >= 0 else -1


_SHORT = 64


@dataclass(frozen=True)
class OpenBlock:
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


def open_block(block: Rows, keys: Words, noted: Words | None = None) -> OpenBlock:
    """Widen, put on the grid, sum and check a block (``load_row`` in ``c/order.h``); note the seeds that are hashed."""
    # Short rows lie side by side, so that sums over them run along memory; sums are exact, so their order is free.
    values = block.probabilities.astype(np.float64, order="F" if block.n_columns < _SHORT else "C") + 0.0
    with np.errstate(all="ignore"):
        mass = (values + 2.0) - 2.0  # the grid of exact sums: see docs/design/0002
        total = mass.sum(axis=1)
        invalid = ~((values >= 0.0) & (values <= 2.0)).all(axis=1)
        bad = invalid | ~(np.abs(total - 1.0) <= block.tolerance)
    seeds = block.seeds
    if seeds is None:
        seeds = seeds_of(hash_words(canonical_words(values), keys).sum(axis=1, dtype=np.uint64), block.key)
        if noted is not None:
            noted[:] = seeds
    u = uniforms(seeds) if block.u is None else block.u
    return OpenBlock(block.probabilities, values, mass, total, seeds, u, int(np.argmax(bad)) if bad.any() else -1)


def ordered_scores(block: OpenBlock, weights: Weights) -> tuple[NDArray[np.intp], Floats]:
    """Order of the labels of each row, and their scores in that order (upward)."""
    order = np.argsort(np.negative(block.raw), axis=1)  # equal ones are put in order right below
    ordered = np.take_along_axis(block.values, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(tied):
        order[tied] = np.lexsort((block.ties(tied), -block.values[tied]), axis=1)
    mass = (ordered + 2.0) - 2.0
    above = np.cumsum(mass, axis=1) - mass
    rank = np.arange(1.0, mass.shape[1] + 1.0)[None, :]
    scores = mass_score(weights, above, mass, block.total[:, None], rank, block.u[:, None])
    some = np.flatnonzero(mass[:, -1] == 0.0)  # rows with labels without mass: those stand last
    if len(some):
        with_mass = (mass[some] > 0.0).sum(axis=1, keepdims=True)
        zeros = np.maximum(mass.shape[1] - with_mass, 1)
        behind = zero_score(weights, rank - 1.0 - with_mass, zeros, rank, block.u[some, None])
        scores[some] = np.where(mass[some] > 0.0, scores[some], behind)
    return order, scores


def _label_scores_of_block(
    block: Rows, keys: Words, labels: NDArray[np.int64], out: Floats, noted: Words | None
) -> int:
    opened = open_block(block, keys, noted)
    if opened.first_bad >= 0:
        return opened.first_bad
    values, mass, u = opened.values, opened.mass, opened.u
    mine = np.take_along_axis(values, labels[:, None], axis=1)
    own = np.take_along_axis(mass, labels[:, None], axis=1)[:, 0]
    is_greater = values > mine
    before = np.zeros(len(values))
    tied = np.flatnonzero((values == mine).sum(axis=1) > 1)
    if len(tied):
        breakers = opened.ties(tied)
        my_breaker = np.take_along_axis(breakers, labels[tied, None], axis=1)
        before[tied] = ((values[tied] == mine[tied]) & (breakers < my_breaker)).sum(axis=1)
    greater = is_greater.sum(axis=1)
    above = np.where(is_greater, mass, 0.0).sum(axis=1) + before * own
    rank = greater + before + 1.0
    with_mass = (mass > 0.0).sum(axis=1)
    behind = zero_score(
        block.weights, greater - with_mass + before, np.maximum(values.shape[1] - with_mass, 1), rank, u
    )
    out[:] = np.where(own > 0.0, mass_score(block.weights, above, own, opened.total, rank, u), behind)
    return -1
