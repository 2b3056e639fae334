"""What a collection of sets is worth: coverage and size, overall and by label, by group, by size.

Every function takes the sets as a PredictionSets, a boolean mask (rows, classes) or a list of label arrays, and the
true labels. Shares come with exact Clopper-Pearson intervals, mean sizes with intervals for sizes between 0 and the
number of labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.judging.estimates import Estimate, mean_of_sizes, share, share_of_count
from aptset.sets import PredictionSets
from aptset.validation.labels import as_labels, columns_of
from aptset.validation.outcomes import check_bins, check_by, check_confidence, distinct
from aptset.validation.settings import check_alpha


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
    _, covered = _outcome(sets, labels, classes)
    return share(covered, check_confidence(confidence))


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
    return _mean_size(PredictionSets.of(sets), slice(None), 0, confidence)


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
    found, covered = _outcome(sets, labels, classes)
    return _mean_size(found, covered, 1, confidence)


def size_distribution(sets: Any, *, confidence: float = 0.95) -> dict[int, Estimate]:
    """Return the share of each size that occurs.

    Examples
    --------
    >>> import aptset
    >>> aptset.size_distribution([["a"], ["a", "b"], ["b"], []])[1]
    0.5 [0.06759, 0.9324] (2 of 4)
    """
    sizes = PredictionSets.of(sets).sizes
    return {int(size): share(sizes == size, check_confidence(confidence)) for size in np.unique(sizes)}


def empty_rate(sets: Any, *, confidence: float = 0.95) -> Estimate:
    """Return the share of sets without any label.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.empty_rate([["a"], []]))
    0.5
    """
    return share(PredictionSets.of(sets).sizes == 0, check_confidence(confidence))


def singleton_rate(sets: Any, *, confidence: float = 0.95) -> Estimate:
    """Return the share of sets with exactly one label.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.singleton_rate([["a"], ["a", "b"]]))
    0.5
    """
    return share(PredictionSets.of(sets).sizes == 1, check_confidence(confidence))


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
    found, covered = _outcome(sets, labels, classes)
    return share(covered[found.sizes == 1], check_confidence(confidence))


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
    _, covered = _outcome(sets, labels, classes)
    return {name: share(covered[rows], check_confidence(confidence)) for name, rows in _parts(by, labels)}


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
    found, _ = _outcome(sets, labels, classes)
    return {name: _mean_size(found, rows, 0, confidence) for name, rows in _parts(by, labels)}


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
    found, covered = _outcome(sets, labels, classes)
    return {name: _mean_size(found, rows[covered[rows]], 1, confidence) for name, rows in _parts(by, labels)}


def size_stratified_coverage(
    sets: Any,
    labels: ArrayLike,
    bins: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> dict[Any, Estimate]:
    """Return the coverage among sets of each size; a score that hides its doubt covers less where sets are small.

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
    found, covered = _outcome(sets, labels, classes)
    level = check_confidence(confidence)
    if bins is None:
        return {int(size): share(covered[found.sizes == size], level) for size in np.unique(found.sizes)}
    starts = check_bins(bins)
    which = np.searchsorted(starts, found.sizes, side="right") - 1
    ends = [int(end) - 1 for end in starts[1:]] + [None]
    pairs = zip(starts.tolist(), ends, strict=True)
    return {pair: share(covered[which == number], level) for number, pair in enumerate(pairs)}


def coverage_gap(
    sets: Any,
    labels: ArrayLike,
    alpha: float | None = None,
    by: Any = "label",
    *,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Return how unevenly coverage is shared out over labels or groups.

    With ``alpha``: the mean distance of the groups' coverages from 1 - alpha. Without: the largest coverage minus the
    smallest. The interval is what simultaneous Clopper-Pearson intervals of the groups allow: wide, but valid.

    Examples
    --------
    >>> import aptset
    >>> float(aptset.coverage_gap([["a"], ["a", "b"], ["b"]], ["a", "b", "a"]))
    0.5
    """
    _, covered = _outcome(sets, labels, classes)
    target = None if alpha is None else float(1 - check_alpha(alpha))
    counts = [(int(np.count_nonzero(covered[rows])), len(rows)) for _, rows in _parts(by, labels)]
    return gap_of_counts(counts, target, check_confidence(confidence))


def gap_of_counts(counts: list[tuple[int, int]], target: float | None, confidence: float) -> Estimate:
    """Return the coverage gap over parts of which so many of so many rows are covered."""
    if not counts:
        return Estimate(math.nan, 0.0, 1.0, 0)
    # All intervals hold at once with the wanted confidence, so what they allow for the gap does too.
    each, n = 1 - (1 - confidence) / len(counts), sum(rows for _, rows in counts)
    shares = [share_of_count(count, rows, each) for count, rows in counts]
    values, low, high = (np.array([get(s) for s in shares]) for get in (float, lambda s: s.low, lambda s: s.high))
    if target is None:
        widest = high.max() - low.min() if len(counts) > 1 else 0.0
        return Estimate(np.ptp(values), max(0.0, low.max() - high.min()), widest, n)
    nearest = np.maximum(np.maximum(low - target, target - high), 0.0)
    furthest = np.maximum(high - target, target - low)
    return Estimate(np.abs(values - target).mean(), nearest.mean(), furthest.mean(), n)


def breakdown(
    metric: Callable[..., Any], sets: Any, labels: ArrayLike, by: Any = "label", *, classes: ArrayLike | None = None
) -> dict[Any, Any]:
    """Return any metric of this module within each true label, value of a feature, or group.

    Parameters
    ----------
    metric : callable
        Takes sets and labels, or sets only, such as :func:`empty_rate` or :func:`singleton_accuracy`.
    sets, labels, by, classes
        As in :func:`coverage_by`.

    Examples
    --------
    >>> import aptset
    >>> rates = aptset.breakdown(aptset.empty_rate, [["a"], [], []], ["a", "a", "b"])
    >>> {label: float(rate) for label, rate in rates.items()}
    {'a': 0.5, 'b': 1.0}
    """
    found, truth = PredictionSets.of(sets, classes), as_labels(labels, "labels")
    takes_labels = "labels" in signature(metric).parameters
    return {
        name: metric(found[rows], truth[rows]) if takes_labels else metric(found[rows])
        for name, rows in _parts(by, labels)
    }


def _mean_size(sets: PredictionSets, rows: Any, least: int, confidence: float) -> Estimate:
    """Return the mean size of some sets; one that holds the true label has at least one."""
    return mean_of_sizes(sets.sizes[rows], least, max(least, len(sets.classes)), check_confidence(confidence))


def _parts(by: Any, labels: ArrayLike) -> list[tuple[Any, NDArray[np.intp]]]:
    """Return each group with its rows."""
    values = check_by(by, labels)
    names = distinct(values)
    number = columns_of(values, names)
    order = np.argsort(number, kind="stable")
    rows = np.split(order, np.searchsorted(number[order], np.arange(1, max(len(names), 1))))
    return list(zip(names.tolist(), rows, strict=False))


def _outcome(sets: Any, labels: ArrayLike, classes: ArrayLike | None) -> tuple[PredictionSets, NDArray[np.bool_]]:
    """Return the sets, and which of them hold their true label."""
    found = PredictionSets.of(sets, classes)
    return found, found.covers(labels)
