"""Was the promise kept over many random splits? Exactly, where the calibration has an exact law."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from aptset.estimates import Estimate, beta_binomial, resampled_mean
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

# Verdicts speak against the promise at this level.
LEVEL = 0.01
_MOST_ROWS = 2**23  # test rows over all splits that the exact law is worked out for


def chances_of_sum(laws: list[tuple[int, int]], alpha: Fraction) -> Floats:
    """Return the chance of each total of independent Beta-binomial counts, (test rows, calibration rows) each.

    Given the rows, random splits are independent of each other, and each covers a Beta-binomial number of its test rows
    whatever the rows are, if scores do not tie: the total is the convolution of these laws, worked out by Fourier
    transforms, to about 1e-15 in every chance.
    """
    total = sum(rows for rows, _ in laws)
    length = 1 << (total + 1).bit_length()
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for (rows, n), times in Counter(laws).items():
        transform *= np.fft.rfft(beta_binomial(rows, n, rank_at(n, alpha)), length) ** times
    chances = np.clip(np.fft.irfft(transform, length)[: total + 1], 0.0, None)
    return np.asarray(chances / chances.sum())


@dataclass(frozen=True)
class Verdict:
    """What the splits say about the promise.

    Attributes
    ----------
    kept : bool
        False if the coverage is lower than the promise allows, at level 0.01.
    coverage : Estimate
        Mean coverage over the splits; its interval knows that splits share rows.
    promise : float
        What the theorem promises.
    chance : float or None
        With an exact law: the chance, under a valid calibration, of a total as low as the one found.
    low, high : float or None
        With an exact law: where 95 of 100 valid audits lie.
    """

    kept: bool
    coverage: Estimate
    promise: float
    chance: float | None
    low: float | None
    high: float | None

    def sentence(self) -> str:
        """Return the verdict in words."""
        found = f"Coverage {float(self.coverage):.4g} on average"
        if self.chance is None:
            words = "is at least the promise" if self.kept else "is LOWER than the promise"
            return (
                f"{found} {words}, {self.promise:.4g} (interval {self.coverage.low:.4g} to {self.coverage.high:.4g})."
            )
        law = f"95 of 100 valid audits lie between {self.low:.4g} and {self.high:.4g}, chance of so low a count"
        end = f"{law} {self.chance:.3g} (exact)."
        return f"{found}: the promise of {self.promise:.4g} is {'kept' if self.kept else 'NOT kept'}; {end}"


def judge(rows: list[dict[str, Any]], alpha: Fraction, test_share: float) -> Verdict:
    """Return the verdict on the splits of one candidate."""
    coverage = resampled_mean(np.array([row["covered"] / row["rows"] for row in rows]), test_share, 1 - 2 * LEVEL)
    promise = min(row["promise"] for row in rows)
    if any(row["laws"] is None for row in rows):
        return Verdict(coverage.high >= promise, coverage, promise, None, None, None)
    used = rows[: max(1, _MOST_ROWS // max(row["rows"] for row in rows))]
    laws = [(int(m), int(n)) for row in used for m, n in row["laws"]]
    total, covered = sum(m for m, _ in laws), sum(row["covered"] for row in used)
    below = np.cumsum(chances_of_sum(laws, alpha))
    low, high = np.searchsorted(below, [0.025, 0.975]) / total
    chance = float(min(1.0, below[covered]))
    return Verdict(chance >= LEVEL, coverage, promise, chance, float(low), float(high))
