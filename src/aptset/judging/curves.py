"""Coverage at every level against the level itself, with a band for the whole curve of a valid calibration."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from aptset.data.displays import Display
from aptset.judging.evidence import Evidence
from aptset.judging.laws import simultaneous_band

# Levels that are drawn: every half percent up to one half.
LEVELS = tuple(Fraction(number, 200) for number in range(1, 101))


def coverage_curve(evidence: Evidence, levels: tuple[Fraction, ...] = LEVELS) -> dict[str, Any]:
    """Return nominal and measured coverage, and the band that holds 95 of 100 valid curves where their law is known.

    Where coverage may exceed the law (never-empty sets, no randomisation) only the lower end says something.
    """
    alphas = [float(level) for level in levels]
    rows = len(evidence.labels)
    columns: dict[str, Any] = {"nominal": np.array([float(1 - level) for level in levels])}
    columns["coverage"] = np.array([np.count_nonzero(evidence.covered_at(alpha)) / rows for alpha in alphas])
    n = evidence.origin.n_of_law
    if n is not None:
        low, high = simultaneous_band(rows, n, levels, evidence.origin.is_upper_open)
        columns |= {"low": low, "high": high}
    return columns


def show_curve(evidence: Evidence) -> Display:
    """Return the curve as a figure."""
    columns = coverage_curve(evidence)
    nominal = columns["nominal"].tolist()
    return Display(columns, "line", "coverage against the promise", "1 - alpha", "coverage", diagonal=nominal)
