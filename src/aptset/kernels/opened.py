"""A block of rows as numpy sees it: exact masses, the order of the labels, where each of them stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats, Places, Weights, mass_score, zero_score
from aptset.kernels.rowhash import Words, column_keys, hash_words, seeds_of, ties, uniforms

if TYPE_CHECKING:
    from aptset.kernels.places import Rows

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


def open_block(block: Rows, noted: Words | None = None) -> OpenBlock:
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
    return OpenBlock(block.probabilities, values, mass, total, seeds, u, first_bad)


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


def order_and_scores(block: Rows, noted: Words | None = None) -> tuple[NDArray[np.intp], Floats, int]:
    """Order of the labels of each row, their scores in that order, and the first bad row (then the others are none)."""
    opened = open_block(block, noted)
    if opened.first_bad >= 0:
        none = np.zeros(block.probabilities.shape)
        return none.astype(np.intp), none, opened.first_bad
    if block.formula.weights is not None:
        return *ordered_scores(opened, block.formula.weights), -1
    assert block.formula.of is not None
    order, mass = order_of(opened)
    return order, np.take_along_axis(block.formula.of(places_of(opened, order, mass)), order, axis=1), -1


def label_scores_of(opened: OpenBlock, weights: Weights, labels: NDArray[np.int64]) -> Floats:
    """Score of one label a row, without an order of the others."""
    values, mass, u = opened.values, opened.mass, opened.u
    at = np.arange(len(values)), labels
    mine, own = values[at][:, None], mass[at]
    is_greater = values > mine
    greater, equal = _count(is_greater), _count(values == mine)
    before = np.zeros(len(values))
    tied = np.flatnonzero(equal > 1)
    if len(tied):
        breakers = opened.ties(tied)
        my_breaker = np.take_along_axis(breakers, labels[tied, None], axis=1)
        before[tied] = ((values[tied] == mine[tied]) & (breakers < my_breaker)).sum(axis=1)
    above = np.where(is_greater, mass, 0.0).sum(axis=1) + before * own
    rank = greater + before + 1.0
    top, second = _top_two(mass, weights)
    scores = mass_score(weights, above, own, top, second, opened.total, rank, u)
    none = np.flatnonzero(own == 0.0)
    if weights.behind and len(none):
        with_mass = (mass[none] > 0.0).sum(axis=1)
        zeros = np.maximum(values.shape[1] - with_mass, 1)
        position = greater[none] - with_mass + before[none]
        scores[none] = zero_score(weights, position, zeros, rank[none], u[none])
    return scores


def _count(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the flags of each row; those of short rows in bytes."""
    in_bytes = flags.view(np.uint8).sum(axis=1, dtype=np.uint8 if flags.shape[1] < _SHORT else np.int64)
    return np.asarray(in_bytes, dtype=np.int64)


def _top_two(mass: Floats, weights: Weights) -> tuple[Floats, Floats]:
    """Return the two largest masses of each row, or zeros if no weight asks for them."""
    if weights.top == 0.0 and weights.first is None:
        return np.zeros(len(mass)), np.zeros(len(mass))
    second, top = np.partition(mass, -2, axis=1)[:, -2:].T
    return top, second
