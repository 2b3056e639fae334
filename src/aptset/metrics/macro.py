"""Coverage where every label counts the same, however rare it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aptset.core.validate import check_alpha
from aptset.metrics.checks import check_confidence, check_level
from aptset.metrics.estimates import Estimate, share_of_count, shares_of_counts
from aptset.metrics.outcome import Outcome


def macro_coverage(
    sets: Any, labels: ArrayLike, *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> Estimate:
    """Return the mean of the coverages of all labels: rare ones count as much as frequent ones.

    Over the labels that occur. The interval is Hoeffding's, for the labels as they came: wide, but valid.

    Examples
    --------
    >>> import aptset
    >>> sets = [["a"], ["a"], ["a", "b"], ["a"]]
    >>> float(aptset.coverage(sets, ["a", "a", "a", "b"])), float(aptset.macro_coverage(sets, ["a", "a", "a", "b"]))
    (0.75, 0.5)
    """
    sure, counts = check_confidence(confidence), Outcome.of(sets, labels, classes).counts()
    n = sum(rows for _, rows in counts)
    if len(counts) < 2:
        return share_of_count(sum(covered for covered, _ in counts), n, sure)
    value = math.fsum(covered / rows for covered, rows in counts) / len(counts)
    # A row of a label with m rows moves the mean by at most 1 / (m labels): Hoeffding's bound for such sums.
    steps = math.fsum(1 / rows for _, rows in counts) / len(counts) ** 2
    half = math.sqrt(math.log(2 / (1 - sure)) / 2 * steps)
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), n)


def labels_below(
    sets: Any,
    labels: ArrayLike,
    level: float | None = None,
    *,
    alpha: float | None = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return the share of labels whose coverage is below a level: by default 1 - 2 alpha, twice the misses promised.

    Parameters
    ----------
    sets, labels, classes, confidence
        As in :func:`coverage`.
    level : float, optional
        The coverage that labels should reach.
    alpha : float, optional
        The level of the sets, from which 1 - 2 alpha is taken if no ``level`` is given; by default 0.1.

    Returns
    -------
    Estimate
        Labels with few rows fall below by chance alone. The interval says for how many that can be told: from the
        share of labels that are below for sure to the share that may be, at this confidence for all labels together.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.labels_below([["a"], ["a"], ["a", "b"], ["a"]], ["a", "a", "a", "b"], level=0.8))
    0.5
    """
    wanted = check_level(level, None if alpha is None else check_alpha(alpha))
    sure, counts = check_confidence(confidence), Outcome.of(sets, labels, classes).counts()
    if not counts:
        return Estimate(math.nan, 0.0, 1.0, 0)
    each = 1 - (1 - sure) / len(counts)
    covered, rows = np.array(counts).T
    shares = shares_of_counts(covered, rows, each)
    value, low, high = (
        sum(bound < wanted for bound in bounds) / len(counts)
        for bounds in zip(*((share, share.high, share.low) for share in shares), strict=True)
    )
    return Estimate(value, low, high, sum(rows for _, rows in counts))
