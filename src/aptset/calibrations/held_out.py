"""Sorted calibration scores, and the sets and p-values that follow from counting them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.blocks import over_blocks
from aptset.kernels.counts import count_below_block, rank_at
from aptset.kernels.cuts import cut
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, first_bad_row, label_scores
from aptset.sets import PredictionSets
from aptset.validation.matrices import check_rows


@dataclass(frozen=True)
class HeldOut:
    """Scores of held-out samples, upward. Label y is in the set iff fewer than k of them are below its score."""

    scores: Floats

    @classmethod
    def score(cls, rows: Rows, columns: NDArray[np.int64], name: str) -> HeldOut:
        """Score the true label of each row."""
        scores, first_bad = label_scores(rows, columns)
        check_rows(rows.probabilities, first_bad, name, rows.normalize)
        scores.sort()
        scores.flags.writeable = False
        return cls(scores)

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return len(self.scores)

    def threshold(self, alpha: Fraction) -> float:
        """Return the k-th smallest score, infinite if k exceeds the sample."""
        rank = rank_at(self.n, alpha)
        return float(self.scores[rank - 1]) if rank <= self.n else float("inf")

    def sets(
        self, rows: Rows, alphas: list[Fraction], classes: NDArray[Any], allow_empty: bool, name: str
    ) -> list[PredictionSets]:
        """Return the sets at each level: count < k is the same as score <= k-th smallest score."""
        thresholds = np.array([self.threshold(alpha) for alpha in alphas])
        found = cut(rows, np.broadcast_to(thresholds, (len(rows), len(alphas))), at_least=0 if allow_empty else 1)
        check_rows(rows.probabilities, found.first_bad, name, rows.normalize)
        return [PredictionSets(*found.at(a), classes) for a in range(len(alphas))]

    def p_values(self, rows: Rows, name: str) -> Floats:
        """Return the share of n + 1 scores, the label's own among them, that are at least as large as the label's."""
        p_values = np.empty((len(rows), rows.n_columns))

        def work(start: int, stop: int) -> int:
            counts, bad = count_below_block(rows, start, stop, self.scores)
            p_values[start:stop] = (self.n + 1 - counts) / (self.n + 1)
            return bad

        bad = first_bad_row(over_blocks(len(rows), rows.n_columns, work))
        check_rows(rows.probabilities, bad, name, rows.normalize)
        return p_values
