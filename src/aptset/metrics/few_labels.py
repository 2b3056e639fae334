"""Sets of no label and of one: how many there are, and how often the one is right."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from aptset.metrics.estimates import Estimate
from aptset.metrics.outcome import Outcome


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
