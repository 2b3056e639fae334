"""The seed of every row of a matrix of numbers."""

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import blocks, engines
from aptset.kernels.rowhash import Words


def hash_rows(values: NDArray[np.generic], key: int) -> Words:
    """Seed of every row of a numeric matrix."""
    seeds = np.empty(len(values), dtype=np.uint64)
    in_place = values.flags.c_contiguous and values.dtype in (np.float32, np.float64)
    step = max(1, blocks.BLOCK_CELLS * (blocks.READ_IN_PLACE if in_place else 1) // max(1, values.shape[1]))

    def work(start: int, stop: int) -> None:
        engines.chosen.hash_rows(blocks.contiguous(values[start:stop]), key, seeds[start:stop])

    blocks.over_blocks(len(values), step, work)
    return seeds
