"""Scores of labels from where they stand in their rows: one label a row in one pass, or every label."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

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
_MANY_BLOCK_ROWS = 8


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
        if self.is_plain and stop - start == len(self.probabilities):
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
        n_rows = len(self.probabilities)
        if self.probabilities.size <= blocks.BLOCK_CELLS:  # one block for every engine
            return [work(self.block(0, n_rows), 0, n_rows)]
        return over_blocks(n_rows, self._step(), lambda start, stop: work(self.block(start, stop), start, stop))

    def _step(self) -> int:
        """Return how many rows a block has."""
        step = self.engine.step(self)
        return shared_out(len(self), step, self.n_columns) if self.probabilities.size > ALONE else step

    def run(self, work: "Work[Result]") -> "Run[Result]":
        """Call ``work(block, start, stop, noted)`` on consecutive blocks, and find the rows that are copies of others.

        It returns the first bad row of its block, or -1, and what it made. The loops write the seeds that they hash
        into ``noted``, which is None where rows have theirs; copies are found among them, block by block where blocks
        are long enough.
        """
        n_rows, noted = len(self.probabilities), None
        if self.seeds is None:
            noted = np.empty(n_rows, dtype=np.uint64)
        if self.probabilities.size <= blocks.BLOCK_CELLS:  # one block for every engine
            bad, result = work(self if self.is_plain else self.block(0, n_rows), 0, n_rows, noted)
            if noted is None or n_rows < 2:
                return Run([result], (0,), bad, None, noted)
            same = engines.chosen.copies(noted, self.side, self.first_row)
            return Run([result], (0,), bad, same if len(same.rows) else None, noted)
        return self._run_blocks(work, noted)

    def _run_blocks(self, work: "Work[Result]", noted: Words | None) -> "Run[Result]":
        """Do so with many rows."""
        n_rows, step = len(self.probabilities), self._step()
        is_long = _MANY_BLOCK_ROWS * BLOCK_ROWS <= step < n_rows  # else rounding up would leave threads without rows
        by_block = noted is not None and self.probabilities.size > ALONE and is_long
        step = -(-step // BLOCK_ROWS) * BLOCK_ROWS if by_block else step

        def on_block(start: int, stop: int) -> tuple[int, Result, Copies | None]:
            seeds, same = None if noted is None else noted[start:stop], None
            bad, result = work(self.block(start, stop), start, stop, seeds)
            if by_block and seeds is not None:
                same = engines.chosen.copies(seeds, self.side, self.first_row + start)
                same = Copies(same.rows + start, same.seeds)
            return start + bad if bad >= 0 else -1, result, same

        bads, results, several = zip(*over_blocks(n_rows, step, on_block), strict=True)
        copies: Copies | None = None
        if by_block:
            copies = Copies(*(np.concatenate(parts) for parts in zip(*several, strict=True)))
        elif noted is not None:
            copies = find_copies(noted, self.side, self.first_row)
        copies = copies if copies is not None and len(copies.rows) else None
        return Run(list(results), range(0, n_rows, step), first_bad_row(bads), copies, noted)

    def again(self, copies: Copies) -> "Rows":
        """Return the copies alone. They are looked at anew, and may have changed meanwhile: some may be bad now."""
        u = None if self.u is None else self.u[copies.rows]
        return replace(self, probabilities=self.probabilities[copies.rows], seeds=copies.seeds, u=u)

    def some(self, which: Any) -> "Rows":
        """Return some rows, with what goes with them."""
        seeds, u = (None if of_rows is None else of_rows[which] for of_rows in (self.seeds, self.u))
        return replace(self, probabilities=self.probabilities[which], seeds=seeds, u=u)

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
        return engines.chosen.for_functions if self.formula.linear is None else engines.chosen


Work = Callable[[Rows, int, int, Words | None], tuple[int, Result]]


class Run(NamedTuple, Generic[Result]):
    """What a run over rows gave: of each block, the first bad row or -1, the copies, and the seeds that were hashed."""

    results: list[Result]
    starts: Sequence[int]  # the first row of each block
    first_bad: int
    copies: Copies | None  # to be looked at again, each with a seed of its own
    noted: Words | None


def first_bad_row(rows_of_blocks: Iterable[int]) -> int:
    """Return the first bad row that any block reported, or -1."""
    return min((row for row in rows_of_blocks if row >= 0), default=-1)


class LabelScores(NamedTuple):
    """Score of one label per row, the first bad row or -1, how many rows are copies of others, and the seed of each."""

    scores: Floats
    first_bad: int
    n_copies: int
    seeds: Words


def label_scores(rows: Rows, labels: NDArray[np.int64]) -> LabelScores:
    """Score one label (a column number) per row."""
    scores = np.empty(len(labels))

    def work(block: Rows, start: int, stop: int, noted: Words | None) -> tuple[int, None]:
        chosen = np.ascontiguousarray(labels[start:stop], dtype=np.int64)
        return block.engine.label_scores(block, chosen, scores[start:stop], noted), None

    run = rows.run(work)
    seeds, copies = rows.seeds if run.noted is None else run.noted, run.copies
    assert seeds is not None  # there is room for them if none came
    if rows.formula.grid is not None and run.first_bad < 0:
        scores = rows.formula.on_grid(scores)
    if copies is None or run.first_bad >= 0:
        return LabelScores(scores, run.first_bad, rows.n_copies, seeds)
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
        block = values[start:stop]
        engines.chosen.hash_rows(block if in_place else blocks.contiguous(block), key, seeds[start:stop])

    if len(values) <= step:
        work(0, len(values))
    else:
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
