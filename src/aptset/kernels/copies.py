"""Which rows came before: equal rows must not share one u, or whole classes would be in or out together.

Rows stand in blocks of :data:`BLOCK_ROWS` by their position in a call or a file. The first row of a block with some
content keeps the seed of that content, so distinct rows get the same seed in any batch; a later one mixes the side
(calibration or prediction), the number of the block and of the copy into it. Copies are told by their seeds, which are
hashes of the content.
"""

import numpy as np

from aptset.kernels import engines
from aptset.kernels.blocks import over_blocks
from aptset.kernels.engines.seam import BLOCK_ROWS, Copies
from aptset.kernels.rowhash import Words

__all__ = ["BLOCK_ROWS", "CALIBRATION", "PREDICTION", "Copies", "find_copies", "own_seeds"]

CALIBRATION, PREDICTION = 0, 1  # the sides
_STEP = 16 * BLOCK_ROWS


def find_copies(seeds: Words, side: int, first_row: int = 0) -> Copies:
    """Return the copies among rows with these seeds, the first of which is row ``first_row`` (the start of a block)."""

    def work(start: int, stop: int) -> Copies:
        found = engines.chosen.copies(seeds[start:stop], side, first_row + start)
        return Copies(found.rows + start, found.seeds)

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
