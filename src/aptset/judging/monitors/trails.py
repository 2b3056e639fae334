"""What is remembered of the evidence along the rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aptset.judging.monitors.bets import Evidence, log_of

_MOST_POINTS = 4096  # of the path that are kept


@dataclass
class Trail:
    """Evidence at no more than so many rows, every other point goes when there are too many; and its peak of all."""

    every: int = 1
    points: list[tuple[int, float, int]] = field(default_factory=list)
    log_peak: float = 0.0

    def add(self, row: int, evidence: Evidence, misses: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Keep the points that are kept among rows from ``row`` on, counted from 1; misses are those up to each."""
        at = -row % self.every
        while at < len(misses):
            number, exponent = float(evidence.numbers[at]), int(evidence.exponents[at])
            self._keep(row + at, log_of(number, exponent), int(misses[at]))
            at += self.every - (row + at) % self.every  # which may have grown
        last = 0
        for stop in [*(np.flatnonzero(np.diff(evidence.exponents)) + 1).tolist(), len(misses)]:  # of one exponent each
            highest, exponent = float(evidence.numbers[last:stop].max()), int(evidence.exponents[last])
            self.log_peak, last = max(self.log_peak, log_of(highest, exponent)), stop

    def _keep(self, row: int, log_evidence: float, misses: int) -> None:
        self.points.append((row, log_evidence, misses))
        if len(self.points) > _MOST_POINTS:
            self.every *= 2
            self.points = [point for point in self.points if point[0] % self.every == 0]
