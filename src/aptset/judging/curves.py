"""Coverage at every level against the level itself, with the band that valid calibrations stay in."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from aptset.judging.displays import Display
from aptset.judging.estimates import beta_binomial
from aptset.judging.evidence import Evidence
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

# Levels that are drawn: every half percent up to one half.
LEVELS = tuple(Fraction(number, 200) for number in range(1, 101))


def coverage_curve(evidence: Evidence, levels: tuple[Fraction, ...] = LEVELS) -> dict[str, Any]:
    """Return nominal and measured coverage, and the central 95 % of the Beta-binomial law where it is known.

    Where coverage may exceed the law (never-empty sets, no randomisation) only the lower end says something.
    """
    alphas = [float(level) for level in levels]
    rows = len(evidence.labels)
    columns: dict[str, Any] = {"nominal": np.array([float(1 - level) for level in levels])}
    columns["coverage"] = np.array([np.count_nonzero(evidence.covered_at(alpha)) / rows for alpha in alphas])
    n = evidence.origin.n_of_law
    if n is not None:
        band = np.array([beta_binomial_range(rows, n, level) for level in levels])
        columns |= {"low": band[:, 0], "high": np.ones(len(levels)) if evidence.origin.is_upper_open else band[:, 1]}
    return columns


def beta_binomial_range(rows: int, n: int, level: Fraction, confidence: float = 0.95) -> Floats:
    """Return where the central part of the measured coverages of valid calibrations lies."""
    k = rank_at(n, level)
    if k > n:  # every set holds every label
        return np.ones(2)
    tail = (1 - confidence) / 2
    below = np.cumsum(beta_binomial(rows, n, k))
    return np.minimum(np.searchsorted(below, [tail, 1 - tail]), rows) / rows


def show_curve(evidence: Evidence) -> Display:
    """Return the curve as a figure."""
    columns = coverage_curve(evidence)
    nominal = columns["nominal"].tolist()
    return Display(columns, "line", "coverage against the promise", "1 - alpha", "coverage", diagonal=nominal)
