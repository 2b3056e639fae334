"""How many labels sets hold: on average, when they cover, by label, by group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aptset.metrics.estimates import Estimate, check_confidence, means_of_sums, shares_of_counts
from aptset.metrics.outcome import Outcome


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
    sizes, rows, _ = Outcome.of(sets).counts_of_sizes()
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
    outcome = Outcome.of(sets, labels, classes)
    sums, ends = outcome.sums(by), (0, outcome.most, check_confidence(confidence))
    return dict(zip(sums.names, means_of_sums(sums.rows, sums.size, sums.squares, *ends), strict=True))


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
    outcome = Outcome.of(sets, labels, classes)
    sums, ends = outcome.sums(by), (1, max(1, outcome.most), check_confidence(confidence))
    means = means_of_sums(sums.covered, sums.covering_size, sums.covering_squares, *ends)
    return dict(zip(sums.names, means, strict=True))


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
