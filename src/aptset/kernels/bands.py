"""Counts and p-values where labels share groups: the engine scores every label, and the scores are counted by band.

Sets need none of this: the loops take a threshold for every column. The bits are those of the loops, since the scores
and the tables of p-values are.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from aptset.kernels import engines
from aptset.kernels.engines.numpy_engine import count_below
from aptset.kernels.engines.seam import Calibrated, columns_in
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, first_bad_row


def add_counts_by_band(rows: Rows, calibrated: Calibrated, counts: NDArray[np.int32]) -> int:
    """Add to the count of every label the scores of its band that are strictly below its own; return the first bad row.

    Returns -1 if there is none.
    """

    def work(block: Rows, start: int, stop: int) -> int:
        scores = np.empty(block.probabilities.shape)
        bad = block.engine.all_scores(block, scores)
        if bad < 0:
            counts[start:stop] += count_below(scores, calibrated, None)
        return start + bad if bad >= 0 else -1

    return first_bad_row(rows.over_blocks(work))


def p_values_by_band(rows: Rows, calibrated: Calibrated) -> tuple[Floats, int]:
    """Return the p-value of every label, and the first bad row or -1."""
    counts = np.zeros(rows.probabilities.shape, dtype=np.int32)
    first_bad = add_counts_by_band(rows.seeded(), calibrated, counts)
    p_values = np.ones(counts.shape)
    for group, (start, stop) in enumerate(pairwise(calibrated.offsets.tolist())):
        mine = np.s_[:, columns_in(group, calibrated.of_columns)]
        p_values[mine] = engines.chosen.p_value_table(stop - start, counts[mine])[counts[mine]]
    return p_values, first_bad
