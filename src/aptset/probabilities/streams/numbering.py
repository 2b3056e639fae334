"""Which copy a row is along a stream, or in many files: rows get the chance that they would have in one call."""

from __future__ import annotations

import numpy as np

from aptset.kernels.copies import BLOCK_ROWS, PREDICTION, own_seeds
from aptset.kernels.rowhash import Words


class Numbering:
    """The number of the block that the rows of a side have reached, and the contents that came in it so far."""

    def __init__(self, block: int = 0, seen: Words | None = None, side: int = PREDICTION) -> None:
        self.block, self.side = block, side
        self.seen: Words = np.empty(0, dtype=np.uint64) if seen is None else seen

    def own_seeds(self, keys: Words) -> Words:
        """Return the seeds of rows that come next, where copies have their own."""
        if len(keys) == 1 and not (self.seen == keys[0]).any():
            return keys
        joined = np.concatenate([self.seen, keys])
        return own_seeds(joined, self.side, self.block * BLOCK_ROWS)[len(self.seen) :]

    def next_seeds(self, keys: Words) -> Words:
        """Return the seeds of rows that come next, and count them."""
        seeds = self.own_seeds(keys)
        self.go_on(keys)
        return seeds

    def go_on(self, keys: Words) -> None:
        """Count rows: in a stream, those whose labels are known."""
        joined = np.concatenate([self.seen, keys])
        n_blocks = len(joined) // BLOCK_ROWS
        self.block, self.seen = self.block + n_blocks, joined[n_blocks * BLOCK_ROWS :]
