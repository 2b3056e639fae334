"""The softmax of many rows of logits, on several threads."""

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.blocks import contiguous, over_blocks
from aptset.kernels.formula import Floats

_BLOCK_CELLS = 2**14  # some temporary matrices of so many float64 stay in the cache of a core


def softmax_by_blocks(logits: NDArray[np.generic]) -> Floats:
    """Return the probabilities of logits in float64; rows that have none come out as NaN."""
    found = np.empty(logits.shape)

    def work(start: int, stop: int) -> None:
        engines.chosen.softmax(contiguous(logits[start:stop]), found[start:stop])

    over_blocks(len(logits), max(1, _BLOCK_CELLS // logits.shape[1]), work)
    return found
