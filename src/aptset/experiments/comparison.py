"""Our results beside the numbers that the authors' code gave: do they agree within their standard errors?"""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from aptset.experiments.claims import Results
from aptset.experiments.published import METRICS, NOTEBOOK, PAIRED, RERUN
from aptset.judging.estimates import Estimate, mean

if TYPE_CHECKING:
    import pandas as pd

LARGEST_Z = 3.0  # in the 48 comparisons a larger one happens by chance in one run of eight
_NOTEBOOK_METRICS = ("coverage", "worst_slice", "size_given_coverage")
_CLEAR = 0.02  # medians of the notebook that differ by less are not called different


PUBLISHED_ALPHA = 0.1  # the level of all the numbers to compare with


class Beside(NamedTuple):
    """One number of theirs and the same of ours; z is the difference in combined standard errors."""

    box: str
    method: str
    metric: str
    theirs: float
    ours: float
    z: float

    @property
    def agrees(self) -> bool:
        """Tell whether chance explains the difference."""
        return abs(self.z) <= LARGEST_Z


def compare_rerun(frame: pd.DataFrame, alpha: float) -> list[Beside]:
    """Compare means on model 1, n = 1000, with the re-run of the authors' code."""
    results, found = Results(frame, alpha).some("model1", 1000), []
    for row in RERUN:
        for metric in METRICS:
            values = results.values(row.box, row.method, metric).to_numpy()
            if len(values) > 1:
                centre, deviation = getattr(row, metric)
                mine, theirs = len(values), row.repetitions
                pooled = ((mine - 1) * values.var(ddof=1) + (theirs - 1) * deviation**2) / (mine + theirs - 2)
                z = (float(values.mean()) - centre) / (pooled * (1 / mine + 1 / theirs)) ** 0.5
                found.append(Beside(row.box, row.method, metric, centre, float(values.mean()), z))
    return found


def compare_paired(frame: pd.DataFrame, alpha: float) -> list[tuple[str, str, Estimate, int]]:
    """Return paired differences of the re-run in words, beside ours, and how many of ours are positive."""
    results, found = Results(frame, alpha).some("model1", 1000), []
    for box, one, other, metric, theirs in PAIRED:
        values = results.difference((box, one), (box, other), metric)
        if len(values) > 1:
            what = f"{box}: {metric.replace('_', ' ')} of {one} minus {other}"
            found.append((what, theirs, mean(values, 0.95), int((values > 0).sum())))
    return found


def compare_notebook(frame: pd.DataFrame, alpha: float) -> list[tuple[str, str, str, bool]]:
    """Return, for pairs of one box whose medians clearly differ in the authors' notebook, whether ours do likewise."""
    results, found = Results(frame, alpha).some("model1", 1000), []
    for (number, metric), (one, other) in product(enumerate(_NOTEBOOK_METRICS), combinations(NOTEBOOK, 2)):
        theirs = NOTEBOOK[one][number] - NOTEBOOK[other][number]
        mine = [results.values(*pair, metric).median() for pair in (one, other)]
        if one[0] == other[0] and abs(theirs) > _CLEAR and not np.isnan(mine).any():
            larger, smaller = (one, other) if theirs > 0 else (other, one)
            same = (mine[0] - mine[1]) * theirs > 0
            found.append((metric, " ".join(larger), " ".join(smaller), bool(same)))
    return found
