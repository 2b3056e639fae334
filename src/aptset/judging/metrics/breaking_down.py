"""Any metric within each label, group or value of a feature."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from aptset.data.label_checks import as_labels
from aptset.data.sets import PredictionSets
from aptset.judging.outcome import Outcome

Value = TypeVar("Value")


def breakdown(
    metric: Callable[..., Value], sets: Any, labels: ArrayLike, by: Any = "label", *, classes: ArrayLike | None = None
) -> dict[Any, Value]:
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
        for name, rows in Outcome.of(found, labels).parts(by)
    }
