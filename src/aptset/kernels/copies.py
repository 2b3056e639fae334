"""Which rows came before: equal rows must not share one u, or whole classes would be in or out together.

Rows stand in blocks of :data:`BLOCK_ROWS` by their position in a call or a file. The first row of a block with some
content keeps the seed of that content, so distinct rows get the same seed in any batch; a later one mixes the side
(calibration or prediction), the number of the block and of the copy into it. Copies are told by their seeds, which are
hashes of the content.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import backend
from aptset.kernels.blocks import BLOCK_CELLS, over_blocks
from aptset.kernels.rowhash import GOLDEN, Words, mix

BLOCK_ROWS = 4096  # COPY_BITS in c/copies.h
CALIBRATION, PREDICTION = 0, 1  # the sides
_COLUMNS = 2  # so that a piece of work is sixteen blocks


class Copies(NamedTuple):
    """The rows that are copies, upward, and a seed of its own for each."""

    rows: NDArray[np.int64]
    seeds: Words


def find_copies(seeds: Words, side: int, first_row: int = 0) -> Copies:
    """Return the copies among rows with these seeds, the first of which is row ``first_row`` (the start of a block)."""
    first_block = first_row // BLOCK_ROWS
    step = BLOCK_CELLS // _COLUMNS

    def work(start: int, stop: int) -> Copies:
        found = _copies_of_blocks(seeds[start:stop], side, first_block + start // BLOCK_ROWS)
        return Copies(found.rows + start, found.seeds)

    if len(seeds) <= step:
        return work(0, len(seeds))
    parts = over_blocks(len(seeds), _COLUMNS, work)
    return Copies(np.concatenate([part.rows for part in parts]), np.concatenate([part.seeds for part in parts]))


def own_seeds(seeds: Words, side: int, first_row: int = 0) -> Words:
    """Return the seeds with every copy's own in its place."""
    copies = find_copies(seeds, side, first_row)
    if len(copies.rows):
        seeds = seeds.copy()
        seeds[copies.rows] = copies.seeds
    return seeds


def _copies_of_blocks(seeds: Words, side: int, first_block: int) -> Copies:
    if backend.compiled is not None:
        rows, own = np.empty(len(seeds), dtype=np.int64), np.empty(len(seeds), dtype=np.uint64)
        found = backend.compiled.copies(np.ascontiguousarray(seeds), first_block, side, rows, own)
        return Copies(rows[:found].copy(), own[:found].copy())
    block = np.arange(len(seeds)) // BLOCK_ROWS
    order = np.lexsort((seeds, block))  # stable: equal ones stay in the order of the rows
    starts = np.flatnonzero(np.append(True, (np.diff(seeds[order]) != 0) | (np.diff(block[order]) != 0)))
    copy = np.arange(len(seeds)) - np.repeat(starts, np.diff(np.append(starts, len(seeds))))
    rows = np.sort(order[copy > 0])
    number = np.empty(len(seeds), dtype=np.uint64)
    number[order] = copy
    place = (block[rows].astype(np.uint64) + np.uint64(first_block)) * np.uint64(BLOCK_ROWS) + number[rows]
    return Copies(rows, mix(seeds[rows] + mix(place * np.uint64(2) + np.uint64(side) + np.uint64(GOLDEN))))
