"""Scores of labels from where they stand in their rows: one label a row in one pass, or every label."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import BLOCK_CELLS, contiguous, over_blocks
from aptset.kernels.copies import PREDICTION, Copies, find_copies, own_seeds
from aptset.kernels.formula import Floats, Formula, mass_score, raised, zero_score
from aptset.kernels.opened import free_order_and_scores, open_block, ordered_scores
from aptset.kernels.rowhash import Words, column_keys, hash_rows


@dataclass(frozen=True)
class Rows:
    """Rows of probabilities and all that their scores depend on.

    ``seeds`` default to a keyed hash of the probabilities and of which copy a row is (so of its ``side`` and of where
    the rows start, ``first_row``), ``u`` to uniforms drawn from the seeds. A row is bad if a value is not in [0, 2] (so
    also if it is missing) or its sum is further than ``tolerance`` from 1.
    """

    probabilities: NDArray[np.generic]
    formula: Formula
    key: int
    tolerance: float
    seeds: Words | None = None
    u: Floats | None = None
    normalize: bool = False
    side: int = PREDICTION
    first_row: int = 0

    def block(self, start: int, stop: int) -> "Rows":
        """Return rows start .. stop - 1 as contiguous arrays, normalised and raised if that was asked for."""
        values = contiguous(self.probabilities[start:stop])
        if self.normalize:
            values = _normalised(values.astype(np.float64))
        if self.formula.power != 1.0:
            wide = values.astype(np.float64)
            with np.errstate(all="ignore"):  # what is bad before it is raised stays bad
                total = ((wide + 2.0) - 2.0).sum(axis=1, keepdims=True)
                is_good = (np.abs(total - 1.0) <= self.tolerance) & (wide >= 0.0).all(axis=1, keepdims=True)
            values = _normalised(raised(np.where(is_good, wide, np.nan), self.formula.power))
        return replace(
            self,
            probabilities=values,
            formula=replace(self.formula, power=1.0),
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
        changes = self.normalize or self.formula.power != 1.0
        step = max(1, BLOCK_CELLS // self.n_columns) if changes else len(self)
        for start in range(0, len(self), step):
            some = self.block(start, start + step) if changes else self
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
        as_it_is = not self.normalize and self.formula.power == 1.0
        return bool(self.is_compiled and readable and as_it_is)

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled loops score these rows."""
        return backend.compiled is not None and self.formula.weights is not None


def _normalised(values: Floats) -> Floats:
    """Divide each row by its sum; one that cannot be divided turns bad, and is reported as such."""
    with np.errstate(all="ignore"):
        total = values.sum(axis=1, keepdims=True)
        can_be = (values >= 0.0).all(axis=1, keepdims=True) & (total > 0.0)
        return values / np.where(can_be, total, np.nan)


def first_bad_row(rows_of_blocks: list[int]) -> int:
    """Return the first bad row that any block reported, or -1."""
    return min((row for row in rows_of_blocks if row >= 0), default=-1)


def compiled_arguments(block: Rows, keys: Words, noted: Words | None = None) -> tuple[object, ...]:
    """Return the arguments that every compiled loop takes first (``JOB_FORMAT`` in ``c/compiled.c``)."""
    assert block.formula.weights is not None
    of_rows = (block.probabilities, block.n_columns, block.formula.weights.flat, keys, block.key, block.tolerance)
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
        seeds_of_block = piece_of(noted, start, stop)
        if backend.compiled is not None and rows.is_compiled:
            arguments = compiled_arguments(block, keys, seeds_of_block)
            bad = backend.compiled.label_scores(*arguments, chosen, scores[start:stop])
        elif rows.formula.weights is not None:
            bad = _label_scores_of_block(block, keys, chosen, scores[start:stop], seeds_of_block)
        else:
            _, every, bad = free_order_and_scores(block, keys, seeds_of_block)
            scores[start:stop] = np.take_along_axis(every, chosen[:, None], axis=1)[:, 0]
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
    if backend.compiled is not None and rows.is_compiled:
        bad = int(backend.compiled.all_scores(*compiled_arguments(block, keys), scores))
    elif rows.formula.weights is None:
        _, scores, bad = free_order_and_scores(block, keys)
    else:
        opened = open_block(block, keys)
        bad = opened.first_bad
        if bad < 0:
            order, ordered = ordered_scores(opened, rows.formula.weights)
            np.put_along_axis(scores, order, ordered, axis=1)
    return scores, start + bad if bad >= 0 else -1


def _label_scores_of_block(
    block: Rows, keys: Words, labels: NDArray[np.int64], out: Floats, noted: Words | None
) -> int:
    opened, weights = open_block(block, keys, noted), block.formula.weights
    assert weights is not None
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
    second, top = np.partition(mass, -2, axis=1)[:, -2:].T
    out[:] = mass_score(weights, above, own, top, second, opened.total, rank, u)
    if weights.behind:
        with_mass = (mass > 0.0).sum(axis=1)
        zeros = np.maximum(values.shape[1] - with_mass, 1)
        out[:] = np.where(own > 0.0, out, zero_score(weights, greater - with_mass + before, zeros, rank, u))
    return -1
