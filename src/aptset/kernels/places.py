"""Scores of labels from where they stand in their rows: one label a row in one pass, or every label."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import contiguous, over_blocks
from aptset.kernels.formula import Floats, Formula, Places, Weights, mass_score, raised, zero_score
from aptset.kernels.rowhash import Words, canonical_words, column_keys, hash_words, seeds_of, ties, uniforms


@dataclass(frozen=True)
class Rows:
    """Rows of probabilities and all that their scores depend on.

    ``seeds`` default to a keyed hash of the probabilities, ``u`` to uniforms drawn from the seeds. A row is bad if a
    value is not in [0, 2] (so also if it is missing) or its sum is further than ``tolerance`` from 1.
    """

    probabilities: NDArray[np.generic]
    formula: Formula
    key: int
    tolerance: float
    seeds: Words | None = None
    u: Floats | None = None
    normalize: bool = False

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


def compiled_arguments(block: Rows, keys: Words) -> tuple[object, ...]:
    """Return the arguments that every compiled loop takes first (``JOB_FORMAT`` in ``c/compiled.c``)."""
    assert block.formula.weights is not None
    weights = block.formula.weights.flat
    return (block.probabilities, block.n_columns, weights, keys, block.key, block.tolerance, block.seeds, block.u)


def label_scores(rows: Rows, labels: NDArray[np.int64]) -> tuple[Floats, int]:
    """Score of one label (a column number) per row, and the first bad row or -1."""
    scores = np.empty(len(rows))
    keys = column_keys(rows.key, rows.n_columns)

    def work(start: int, stop: int) -> int:
        block = rows.block(start, stop)
        chosen = np.ascontiguousarray(labels[start:stop], dtype=np.int64)
        if backend.compiled is not None and rows.is_compiled:
            bad = backend.compiled.label_scores(*compiled_arguments(block, keys), chosen, scores[start:stop])
        elif rows.formula.weights is not None:
            bad = _label_scores_of_block(block, keys, chosen, scores[start:stop])
        else:
            every, bad = _free_scores(block, keys)
            scores[start:stop] = np.take_along_axis(every, chosen[:, None], axis=1)[:, 0]
        return start + int(bad) if bad >= 0 else -1

    return scores, first_bad_row(over_blocks(len(rows), rows.n_columns, work, rows.in_place))


def all_scores_of_block(rows: Rows, start: int, stop: int) -> tuple[Floats, int]:
    """Score of every label of rows start .. stop - 1, and the first bad row or -1."""
    block = rows.block(start, stop)
    keys = column_keys(rows.key, rows.n_columns)
    scores = np.empty((stop - start, rows.n_columns))
    if backend.compiled is not None and rows.is_compiled:
        bad = int(backend.compiled.all_scores(*compiled_arguments(block, keys), scores))
    elif rows.formula.weights is None:
        scores, bad = _free_scores(block, keys)
    else:
        opened = open_block(block, keys)
        bad = opened.first_bad
        if bad < 0:
            order, ordered = ordered_scores(opened, rows.formula.weights)
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


def open_block(block: Rows, keys: Words) -> OpenBlock:
    """Widen, put on the grid, sum and check a block (``load_row`` in ``c/order.h``)."""
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
    u = uniforms(seeds) if block.u is None else block.u
    return OpenBlock(block.probabilities, values, mass, total, seeds, u, int(np.argmax(bad)) if bad.any() else -1)


def order_of(block: OpenBlock) -> tuple[NDArray[np.intp], Floats]:
    """Labels of each row in order: probability downward, equal ones by their keyed tie; and their masses."""
    order = np.argsort(np.negative(block.raw), axis=1)  # equal ones are put in order right below
    ordered = np.take_along_axis(block.values, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(tied):
        order[tied] = np.lexsort((block.ties(tied), -block.values[tied]), axis=1)
    return order, (ordered + 2.0) - 2.0


def ordered_scores(block: OpenBlock, weights: Weights) -> tuple[NDArray[np.intp], Floats]:
    """Order of the labels of each row, and their scores in that order (upward)."""
    order, mass = order_of(block)
    above = np.cumsum(mass, axis=1) - mass
    rank = np.arange(1.0, mass.shape[1] + 1.0)[None, :]
    top_two = mass[:, 0:1], mass[:, 1:2]
    scores = mass_score(weights, above, mass, *top_two, block.total[:, None], rank, block.u[:, None])
    some = np.flatnonzero(mass[:, -1] == 0.0)  # rows with labels without mass: those stand last
    if len(some) and weights.behind:
        with_mass = (mass[some] > 0.0).sum(axis=1, keepdims=True)
        zeros = np.maximum(mass.shape[1] - with_mass, 1)
        behind = zero_score(weights, rank - 1.0 - with_mass, zeros, rank, block.u[some, None])
        scores[some] = np.where(mass[some] > 0.0, scores[some], behind)
    return order, scores


def places_of(block: OpenBlock, order: NDArray[np.intp], mass: Floats) -> Places:
    """Where every label stands, in the order of the columns."""
    rank, above = np.empty(mass.shape), np.empty(mass.shape)
    np.put_along_axis(rank, order, np.arange(1.0, mass.shape[1] + 1.0)[None, :], axis=1)
    np.put_along_axis(above, order, np.cumsum(mass, axis=1) - mass, axis=1)
    with_mass = (mass > 0.0).sum(axis=1, keepdims=True).astype(np.float64)
    of_rows = mass[:, 0:1], mass[:, 1:2], block.total[:, None], with_mass, block.u[:, None]
    return Places(np.ascontiguousarray(block.mass), above, rank, *of_rows, mass.shape[1])


def free_order_and_scores(block: Rows, keys: Words) -> tuple[NDArray[np.intp], Floats, int]:
    """Order of the labels of each row, their scores by column under any function of places, and the first bad row."""
    opened = open_block(block, keys)
    if opened.first_bad >= 0:
        none = np.zeros(block.probabilities.shape)
        return none.astype(np.intp), none, opened.first_bad
    assert block.formula.of is not None
    order, mass = order_of(opened)
    return order, block.formula.of(places_of(opened, order, mass)), -1


def _free_scores(block: Rows, keys: Words) -> tuple[Floats, int]:
    _, scores, bad = free_order_and_scores(block, keys)
    return scores, bad


def _label_scores_of_block(block: Rows, keys: Words, labels: NDArray[np.int64], out: Floats) -> int:
    opened, weights = open_block(block, keys), block.formula.weights
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
