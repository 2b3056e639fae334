"""Scores of labels from where they stand in their rows: one label a row in one pass, or every label."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import blocks, engines
from aptset.kernels.blocks import ALONE, contiguous, over_blocks, shared_out
from aptset.kernels.engines.interface import BLOCK_ROWS, Copies, Engine
from aptset.kernels.formula import Floats, Formula, normalised, tempered
from aptset.kernels.rowhash import Words

__all__ = ["BLOCK_ROWS", "CALIBRATION", "PREDICTION", "Copies", "find_copies", "own_seeds"]

CALIBRATION, PREDICTION = 0, 1  # the sides
_STEP = 16 * BLOCK_ROWS


def find_copies(seeds: Words, side: int, first_row: int = 0) -> Copies:
    """Return the copies among rows with these seeds, the first of which is row ``first_row`` (the start of a block)."""

    def work(start: int, stop: int) -> Copies:
        copies = engines.chosen.copies(seeds[start:stop], side, first_row + start)
        return Copies(copies.rows + start, copies.seeds)

    if len(seeds) <= _STEP:
        return work(0, len(seeds))
    parts = over_blocks(len(seeds), _STEP, work)
    return Copies(np.concatenate([part.rows for part in parts]), np.concatenate([part.seeds for part in parts]))


def own_seeds(seeds: Words, side: int, first_row: int = 0) -> Words:
    """Return the seeds with every copy's own in its place."""
    copies = find_copies(seeds, side, first_row)
    if len(copies.rows):
        seeds = seeds.copy()
        seeds[copies.rows] = copies.seeds
    return seeds


Result = TypeVar("Result")

_READ = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Rows:
    """Rows of probabilities and all that their scores depend on.

    ``seeds`` default to a keyed hash of the probabilities and of which copy a row is (so of its ``side`` and of where
    the rows start, ``first_row``), ``u`` to uniforms drawn from the seeds. A row is bad if a value is not in [0, 2] (so
    also if it is missing) or its sum is further than ``tolerance`` from 1. ``n_copies`` says how many rows are copies,
    where seeds that came with them have that in them.
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
    n_copies: int = 0
    rooms: list[Any] = field(default_factory=list, compare=False, repr=False)  # that blocks let go of, for others

    def block(self, start: int, stop: int) -> "Rows":
        """Return rows start .. stop - 1 as contiguous arrays, normalised and raised if that was asked for."""
        if stop - start == len(self.probabilities) and self.is_plain and self.seeds is None and self.u is None:
            return self
        if self.is_plain:  # nothing but other arrays: threads wait while one makes a block
            block = object.__new__(Rows)
            seeds, u = (None if of_rows is None else of_rows[start:stop] for of_rows in (self.seeds, self.u))
            block.__dict__.update(self.__dict__, probabilities=self.probabilities[start:stop], seeds=seeds, u=u)
            return block
        values = contiguous(self.probabilities[start:stop])
        if self.normalize:
            with np.errstate(all="ignore"):
                values = normalised(values.astype(np.float64))
        if self.formula.power != 1.0:
            with np.errstate(all="ignore"):
                values = tempered(values.astype(np.float64), self.formula.power, self.tolerance)
        return replace(
            self,
            probabilities=values,
            formula=replace(self.formula, power=1.0),
            normalize=False,
            seeds=None if self.seeds is None else np.ascontiguousarray(self.seeds[start:stop]),
            u=None if self.u is None else np.ascontiguousarray(self.u[start:stop]),
        )

    def over_blocks(self, work: Callable[["Rows", int, int], Result]) -> list[Result]:
        """Call ``work(block, start, stop)`` on consecutive blocks of about the size that the engine takes."""
        n_rows, step = len(self.probabilities), self.engine.step(self)
        if self.probabilities.size > ALONE:
            step = shared_out(n_rows, step, self.n_columns)
        if n_rows <= step:
            return [work(self.block(0, n_rows), 0, n_rows)]
        return over_blocks(n_rows, step, lambda start, stop: work(self.block(start, stop), start, stop))

    def over_blocks_and_copies(
        self, work: Callable[["Rows", int, int], Result], noted: Words | None
    ) -> tuple[list[Result], Copies | None]:
        """Do so, and return the rows that must be looked at again as well, if there are any.

        Copies are found among the seeds that ``work`` noted, block by block where blocks are long enough.
        """
        if noted is None or self.probabilities.size <= ALONE:
            return self.over_blocks(work), self.copies(noted)
        n_rows = len(self.probabilities)
        fair = shared_out(n_rows, self.engine.step(self), self.n_columns)
        step = -(-fair // BLOCK_ROWS) * BLOCK_ROWS
        if fair < BLOCK_ROWS or n_rows <= step:
            return self.over_blocks(work), self.copies(noted)

        def both(start: int, stop: int) -> tuple[Result, Copies]:
            result = work(self.block(start, stop), start, stop)
            copies = engines.chosen.copies(noted[start:stop], self.side, self.first_row + start)
            return result, Copies(copies.rows + start, copies.seeds) if len(copies.rows) else copies

        results = over_blocks(n_rows, step, both)
        rows, seeds = (np.concatenate([copies[k] for _, copies in results]) for k in range(2))
        return [result for result, _ in results], Copies(rows, seeds) if len(rows) else None

    def room_for_seeds(self) -> Words | None:
        """Return where the loops note the seeds that they hash, if they do: copies are found among them afterwards."""
        return np.empty(len(self.probabilities), dtype=np.uint64) if self.seeds is None else None

    def copies(self, noted: Words | None) -> Copies | None:
        """Return the rows that must be looked at again, with a seed of their own, or None."""
        if noted is None or len(noted) < 2:
            return None
        look = self.engine.copies if len(noted) <= BLOCK_ROWS else find_copies
        copies = look(noted, self.side, self.first_row)
        return copies if len(copies.rows) else None

    def again(self, copies: Copies) -> "Rows":
        """Return the copies alone. They are looked at anew, and may have changed meanwhile: some may be bad now."""
        u = None if self.u is None else self.u[copies.rows]
        return replace(self, probabilities=self.probabilities[copies.rows], seeds=copies.seeds, u=u)

    def content_seeds(self) -> Words:
        """Return the seed of each row's content, whichever copy it is."""
        seeds, key = np.empty(len(self), dtype=np.uint64), self.key
        self.over_blocks(lambda block, start, stop: block.engine.hash_rows(block.probabilities, key, seeds[start:stop]))
        return seeds

    def seeded(self) -> "Rows":
        """Return the rows with their seeds worked out beforehand, for what looks at them in several ways."""
        if self.seeds is not None:
            return self
        return replace(self, seeds=own_seeds(self.content_seeds(), self.side, self.first_row))

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def n_columns(self) -> int:
        """Number of labels."""
        return int(self.probabilities.shape[1])

    @cached_property
    def is_plain(self) -> bool:
        """Whether the matrix can be read where it lies."""
        readable = self.probabilities.dtype in _READ and self.probabilities.flags.c_contiguous
        return readable and not self.normalize and self.formula.power == 1.0

    @property
    def engine(self) -> Engine:
        """What runs the loops over these rows."""
        return engines.chosen.for_functions if self.formula.weights is None else engines.chosen


def first_bad_row(rows_of_blocks: list[int]) -> int:
    """Return the first bad row that any block reported, or -1."""
    if len(rows_of_blocks) == 1:
        return rows_of_blocks[0]
    return min((row for row in rows_of_blocks if row >= 0), default=-1)


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

    def work(block: Rows, start: int, stop: int) -> int:
        chosen = np.ascontiguousarray(labels[start:stop], dtype=np.int64)
        bad = block.engine.label_scores(block, chosen, scores[start:stop], piece_of(noted, start, stop))
        return start + bad if bad >= 0 else -1

    results, copies = rows.over_blocks_and_copies(work, noted)
    first_bad = first_bad_row(results)
    if first_bad < 0:
        scores = rows.formula.on_grid(scores)
    if copies is None or first_bad >= 0:
        return LabelScores(scores, first_bad, rows.n_copies, seeds)
    again = label_scores(rows.again(copies), labels[copies.rows])
    scores[copies.rows], seeds[copies.rows] = again.scores, copies.seeds
    return LabelScores(scores, copies.row_of(again.first_bad), len(copies.rows), seeds)


def all_scores_of_block(rows: Rows, start: int, stop: int) -> tuple[Floats, int]:
    """Score of every label of rows start .. stop - 1, and the first bad row or -1."""
    block, scores = rows.block(start, stop), np.empty((stop - start, rows.n_columns))
    bad = block.engine.all_scores(block, scores)
    return scores, start + bad if bad >= 0 else -1


def hash_rows(values: NDArray[np.generic], key: int) -> Words:
    """Seed of every row of a numeric matrix."""
    seeds = np.empty(len(values), dtype=np.uint64)
    in_place = values.flags.c_contiguous and values.dtype in (np.float32, np.float64)
    step = max(1, blocks.BLOCK_CELLS * (blocks.READ_IN_PLACE if in_place else 1) // max(1, values.shape[1]))

    def work(start: int, stop: int) -> None:
        engines.chosen.hash_rows(blocks.contiguous(values[start:stop]), key, seeds[start:stop])

    blocks.over_blocks(len(values), step, work)
    return seeds


_BLOCK_CELLS = 2**14  # some temporary matrices of so many float64 stay in the cache of a core


def softmax_by_blocks(logits: NDArray[np.generic]) -> Floats:
    """Return the probabilities of logits in float64; rows that have none come out as NaN."""
    probabilities = np.empty(logits.shape)

    def work(start: int, stop: int) -> None:
        engines.chosen.softmax(contiguous(logits[start:stop]), probabilities[start:stop])

    over_blocks(len(logits), max(1, _BLOCK_CELLS // logits.shape[1]), work)
    return probabilities
