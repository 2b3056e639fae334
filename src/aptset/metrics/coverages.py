"""How often sets hold the true label: overall, by label, by group, by size, and how evenly.

Coverage by size is that of Angelopoulos, Bates, Malik and Jordan 2021, the gap over labels that of Ding,
Angelopoulos, Bates, Jordan and Tibshirani 2023, macro coverage that of Ding, Fermanian and Salmon 2025.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aptset.core import validate
from aptset.core.labels import hashable
from aptset.core.levels import levels_of_mapping
from aptset.kernels.formula import Floats
from aptset.metrics.estimates import Estimate, ManyIntervals, check_confidence, share_of_count, shares_of_counts
from aptset.metrics.outcome import Outcome


def coverage(sets: Any, labels: ArrayLike, *, classes: ArrayLike | None = None, confidence: float = 0.95) -> Estimate:
    """Return the share of rows whose set holds the true label.

    Parameters
    ----------
    sets : PredictionSets, boolean mask or list of label arrays
        The prediction sets.
    labels : array
        The true labels. A label that no set can hold counts as missed.
    classes : array, optional
        The label of each column of a mask; by default the column numbers.
    confidence : float, default=0.95
        Of the interval.

    Examples
    --------
    >>> import aptset
    >>> aptset.coverage([["a"], ["a", "b"]], ["a", "b"])
    1 [0.1581, 1] (2 of 2)
    """
    outcome = Outcome.of(sets, labels, classes)
    return outcome.share(outcome.covered, confidence)


def coverage_by(
    sets: Any, labels: ArrayLike, by: Any = "label", *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> dict[Any, Estimate]:
    """Return the coverage within each true label, each value of a discrete feature, or each group.

    Parameters
    ----------
    sets, labels, classes, confidence
        As in :func:`coverage`.
    by : "label" or array, default="label"
        The true label, or a value for each row.

    Examples
    --------
    >>> import aptset
    >>> by_label = aptset.coverage_by([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
    >>> {label: float(value) for label, value in by_label.items()}
    {'a': 0.5, 'b': 1.0}
    """
    return Outcome.of(sets, labels, classes).shares_covered(by, confidence)


def coverage_to_reach(level: Any, alpha: Fraction | None) -> float:
    """Return the coverage that labels should reach: as given, or twice the misses promised."""
    if level is None:
        return max(0.0, float(1 - 2 * (Fraction(1, 10) if alpha is None else alpha)))
    way_out = "Pass level=0.8, for instance."
    return validate.number(level, "level", "a coverage in [0, 1]", lambda share: 0 <= share <= 1, way_out)


def size_stratified_coverage(
    sets: Any,
    labels: ArrayLike,
    bins: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> dict[Any, Estimate]:
    """Return the coverage among sets of each size.

    Where u decides about a label, the smaller sets cover less and the larger ones more by construction: the oracle's
    own sets, which cover 1 - alpha in every row, do. To see whether doubtful rows are covered like others, group rows
    by something that does not depend on u, with :func:`coverage_by`; a report does so.

    Parameters
    ----------
    sets, labels, classes, confidence
        As in :func:`coverage`.
    bins : array of int, optional
        Smallest size of each class of sizes, upward; by default every size is its own. Keys are then (low, high), where
        high is None for the last.

    Examples
    --------
    >>> import aptset
    >>> strata = aptset.size_stratified_coverage([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
    >>> {size: float(value) for size, value in strata.items()}
    {1: 0.5, 2: 1.0}
    """
    outcome = Outcome.of(sets, labels, classes)
    if bins is None and outcome.clusters is not None:
        return outcome.shares_covered(outcome.sizes, confidence)
    if bins is None:
        sizes, rows, covered = outcome.counts_of_sizes
        return dict(zip(sizes, shares_of_counts(covered, rows, check_confidence(confidence)), strict=True))
    starts = np.asarray(bins)
    are_numbers = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) > 0
    if not are_numbers or starts[0] != 0 or (np.diff(starts) <= 0).any():
        raise ValueError(f"bins must be whole numbers that start at 0 and rise, e.g. [0, 1, 2, 4]; got {bins!r}.")
    starts = starts.astype(np.int64)
    which = np.searchsorted(starts, outcome.sizes, side="right") - 1
    ends = [int(end) - 1 for end in starts[1:]] + [None]
    pairs = zip(starts.tolist(), ends, strict=True)
    return {pair: outcome.share(outcome.covered, confidence, which == number) for number, pair in enumerate(pairs)}


def coverage_gap(
    sets: Any,
    labels: ArrayLike,
    alpha: float | Mapping[Any, float] | None = None,
    by: Any = "label",
    *,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return how unevenly coverage is shared out over labels or groups.

    With ``alpha``, which may be a mapping with one level for each label or group: the mean distance of the groups'
    coverages from 1 - alpha. Without: the largest coverage minus the
    smallest. The interval is what simultaneous Clopper-Pearson intervals of the groups allow: wide, but valid.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.coverage_gap([["a"], ["a", "b"], ["b"]], ["a", "b", "a"]))
    0.5
    """
    outcome, sure = Outcome.of(sets, labels, classes), check_confidence(confidence)
    shares, names = outcome.intervals_at_once(by, sure), outcome.sums(by).names
    if not names:
        return Estimate(math.nan, 0.0, 1.0, 0)
    return _gap(shares, None if alpha is None else 1 - levels_by_name(alpha, names))


def levels_by_name(alpha: Any, names: Sequence[Any]) -> Floats:
    """Return the level of each label or group that occurs: its own of a mapping, else one for all."""
    if not isinstance(alpha, Mapping):
        return np.full(len(names), float(validate.alpha(alpha)))
    levels = levels_of_mapping(alpha)
    missing = [name for name in names if hashable(name) not in levels]
    if missing:
        raise ValueError(
            f"alpha must name the level of every label or group that occurs; {missing[0]!r} is missing, and "
            f"{list(levels)[:8]} came."
        )
    return np.array([levels[hashable(name)] for name in names])


def _gap(shares: ManyIntervals, target: Floats | None) -> Estimate:
    """Return the gap over coverages whose intervals hold at once; so does what they allow for the gap."""
    n, low, high = int(shares.n.sum()), shares.low, shares.high
    if target is None:
        widest = high.max() - low.min() if len(low) > 1 else 0.0
        return Estimate(np.ptp(shares.value), max(0.0, low.max() - high.min()), widest, n)
    nearest = np.maximum(np.maximum(low - target, target - high), 0.0)
    furthest = np.maximum(high - target, target - low)
    return Estimate(np.abs(shares.value - target).mean(), nearest.mean(), furthest.mean(), n)


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
    sure, outcome = check_confidence(confidence), Outcome.of(sets, labels, classes)
    if outcome.clusters is not None:
        return _mean_of_shares(outcome, sure)
    covered, rows = outcome.sums().covered, outcome.sums().rows
    n, n_labels = int(rows.sum()), len(rows)
    if n_labels < 2:
        return share_of_count(int(covered.sum()), n, sure)
    value = math.fsum((covered / rows).tolist()) / n_labels
    # A row of a label with m rows moves the mean by at most 1 / (m labels): Hoeffding's bound for such sums.
    steps = math.fsum((1 / rows).tolist()) / n_labels**2
    half = math.sqrt(math.log(2 / (1 - sure)) / 2 * steps)
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), n)


def _mean_of_shares(outcome: Outcome, confidence: float) -> Estimate:
    """Return the mean coverage of labels over clusters, with what intervals that hold at once allow for it."""
    shares = outcome.intervals_at_once("label", confidence)
    if not len(shares.n):
        return Estimate(math.nan, 0.0, 1.0, 0)
    value, low, high = (float(np.mean(ends)) for ends in shares[:3])
    return Estimate(value, low, high, int(shares.n.sum()))


def labels_below(
    sets: Any,
    labels: ArrayLike,
    level: float | None = None,
    *,
    alpha: float | Mapping[Any, float] | None = None,
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
    alpha : float or mapping, optional
        The level of the sets, or of each label, from which 1 - 2 alpha is taken if no ``level`` is given; by default
        0.1.

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
    differ = isinstance(alpha, Mapping) and level is None
    one = coverage_to_reach(level, None if alpha is None or isinstance(alpha, Mapping) else validate.alpha(alpha))
    outcome = Outcome.of(sets, labels, classes)
    shares, names = outcome.intervals_at_once("label", check_confidence(confidence)), outcome.sums().names
    alphas = levels_by_name(alpha, names).tolist() if differ else []
    wanted = np.array([coverage_to_reach(None, validate.alpha(part)) for part in alphas]) if differ else one
    if not names:
        return Estimate(math.nan, 0.0, 1.0, 0)
    value, low, high = (float(np.mean(ends < wanted)) for ends in (shares.value, shares.high, shares.low))
    return Estimate(value, low, high, int(shares.n.sum()))


def mean_size(sets: Any, *, confidence: float = 0.95) -> Estimate:
    """Return the mean number of labels in a set.

    The interval allows for huge sets that did not come, up to all labels: those of a PredictionSets, the columns of a
    mask, or the labels that occur in a list.

    Examples
    --------
    >>> import aptset
    >>> aptset.mean_size([["a"], ["a", "b"], []])
    1 [0, 2] (n=3)
    """
    return Outcome.of(sets).mean_size(confidence)


def size_given_coverage(
    sets: Any, labels: ArrayLike, *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> Estimate:
    """Return the mean size of the sets that hold the true label.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.size_given_coverage([["a"], ["a", "b"], ["b"]], ["a", "b", "a"]))
    1.5
    """
    outcome = Outcome.of(sets, labels, classes)
    return outcome.mean_size(confidence, outcome.covered, least=1)


def size_distribution(sets: Any, *, confidence: float = 0.95) -> dict[int, Estimate]:
    """Return the share of each size that occurs.

    Examples
    --------
    >>> import aptset
    >>> aptset.size_distribution([["a"], ["a", "b"], ["b"], []])[1]
    0.5 [0.06759, 0.9324] (2 of 4)
    """
    outcome = Outcome.of(sets)
    if outcome.clusters is not None:
        present = np.unique(outcome.sizes).tolist()
        return {size: outcome.share(outcome.sizes == size, confidence) for size in present}
    sizes, rows, _ = outcome.counts_of_sizes
    shares = shares_of_counts(rows, np.full(len(rows), rows.sum()), check_confidence(confidence))
    return dict(zip(sizes, shares, strict=True))


def mean_size_by(
    sets: Any, labels: ArrayLike, by: Any = "label", *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> dict[Any, Estimate]:
    """Return the mean size within each true label or group; arguments as in :func:`coverage_by`.

    Examples
    --------
    >>> import aptset
    >>> sizes = aptset.mean_size_by([["a"], ["a", "b"], ["b"]], ["a", "b", "a"], by=["x", "x", "y"])
    >>> {group: float(value) for group, value in sizes.items()}
    {'x': 1.5, 'y': 1.0}
    """
    return Outcome.of(sets, labels, classes).mean_sizes(by, confidence)


def size_given_coverage_by(
    sets: Any, labels: ArrayLike, by: Any = "label", *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> dict[Any, Estimate]:
    """Return the mean size of covering sets within each true label or group; arguments as in :func:`coverage_by`.

    Examples
    --------
    >>> import aptset
    >>> sizes = aptset.size_given_coverage_by([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
    >>> {label: float(value) for label, value in sizes.items()}
    {'a': 1.0, 'b': 2.0}
    """
    return Outcome.of(sets, labels, classes).mean_sizes(by, confidence, covering=True)


def empty_rate(sets: Any, *, confidence: float = 0.95) -> Estimate:
    """Return the share of sets without any label.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.empty_rate([["a"], []]))
    0.5
    """
    outcome = Outcome.of(sets)
    return outcome.share(outcome.sizes == 0, confidence)


def singleton_rate(sets: Any, *, confidence: float = 0.95) -> Estimate:
    """Return the share of sets with exactly one label.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.singleton_rate([["a"], ["a", "b"]]))
    0.5
    """
    outcome = Outcome.of(sets)
    return outcome.share(outcome.sizes == 1, confidence)


def singleton_accuracy(
    sets: Any, labels: ArrayLike, *, classes: ArrayLike | None = None, confidence: float = 0.95
) -> Estimate:
    """Return the share of one-label sets whose label is the true one.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.singleton_accuracy([["a"], ["b"], ["a", "b"]], ["a", "a", "a"]))
    0.5
    """
    outcome = Outcome.of(sets, labels, classes)
    return outcome.share(outcome.covered, confidence, outcome.sizes == 1)
