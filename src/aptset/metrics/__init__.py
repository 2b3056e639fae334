"""What a collection of sets is worth: coverage and size, overall and by label, by group, by size.

Every metric takes the sets as a PredictionSets, a boolean mask (rows, classes) or a list of label arrays, and the
true labels. Shares come with exact Clopper-Pearson intervals, mean sizes with intervals for sizes between 0 and the
number of labels.

To add a metric, write its function and put a line into ``_TABLE``: evaluations, reports, audits, comparisons,
experiments and scorers read this table. One that costs a fit goes into ``_COSTLY`` instead: it is measured where
``extra_metrics`` name it. A break-down is a function and a line of ``_BROKEN_DOWN``. Both tables are read
for files that stream, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, Literal, TypeVar

from numpy.typing import ArrayLike

from aptset import PredictionSets
from aptset.core import validate
from aptset.core.labels import as_labels
from aptset.metrics import coverages
from aptset.metrics.estimates import Estimate
from aptset.metrics.outcome import Outcome
from aptset.metrics.unevenness import coverage_unevenness
from aptset.metrics.worst_slice import WorstSlice, worst_slice_coverage

Measured = Estimate | WorstSlice
Value = TypeVar("Value")


@dataclass(frozen=True)
class Metric:
    """One metric: what it computes, which way is better, how it is called. Names and words have defaults.

    Attributes
    ----------
    of : callable
        Takes sets (as an :class:`Outcome`) and, by these names and as far as it has them, ``labels``, ``X``, ``alpha``,
        ``confidence`` and ``random_state``; returns an Estimate. ``alpha`` is None where no level is known.
    unit : {"share", "labels", "difference"}
        A share lies between 0 and 1; a number of labels does not; a difference of shares may be negative.
    better : {"higher", "lower"}
        Which way is better; scorers turn the sign where lower is.
    name : str
        By default the name of the function.
    column : str
        The name in tables of splits and experiments, by default ``name``.
    words, heading, short : str
        In a line of an evaluation, over a figure, over a narrow column.
    aims_at_level : bool
        Whether 1 - alpha is drawn beside it.
    in_splits : bool
        Whether audits, comparisons and experiments show it. (An evaluation, a report and a scorer always do.)
    streams : bool
        False if it asks the outcome for more than shares, mean sizes and counts by label: files that are read in pieces
        are then judged without it.
    """

    of: Callable[..., Measured]
    unit: Literal["share", "labels", "difference"]
    better: Literal["higher", "lower"]
    name: str = ""
    column: str = ""
    words: str = ""
    heading: str = ""
    short: str = ""
    aims_at_level: bool = False
    in_splits: bool = True
    streams: bool = True

    def __post_init__(self) -> None:
        """Fill in names that follow from others."""
        name = self.name or self.of.__name__
        column, words = self.column or name, self.words or name.replace("_", " ")
        defaults = {"name": name, "column": column, "words": words, "heading": words.capitalize()}
        for key, value in {**defaults, "short": column.replace("_", " ")}.items():
            object.__setattr__(self, key, getattr(self, key) or value)

    @cached_property
    def takes(self) -> dict[str, Parameter]:
        """The parameters of the function by name."""
        return dict(signature(self.of).parameters)

    @property
    def needs_features(self) -> bool:
        """Whether there is nothing to compute without X."""
        return "X" in self.takes and self.takes["X"].default is Parameter.empty

    @property
    def of_kinds(self) -> bool:
        """Whether counts of kinds of rows will do, instead of the rows themselves."""
        return self.streams and not self.needs_features

    @property
    def sentence(self) -> str:
        """What it is, in words: the first line of the function's docstring."""
        first = (self.of.__doc__ or self.words).strip().splitlines()[0].removeprefix("Return ")
        return first[:1].upper() + first[1:]

    @property
    def digits(self) -> int:
        """Digits behind the point in printed tables."""
        return 2 if self.unit == "labels" else 3

    def measure(self, outcome: Outcome, **others: Any) -> Measured | None:
        """Return the value; None if it needs X, or rows that have gone by. ``others`` are what functions may take."""
        is_gone = outcome.times is not None and not self.streams
        if is_gone or (self.needs_features and others.get("X") is None):
            return None
        known = {"labels": outcome.labels, "alpha": None, **others}
        return self.of(outcome, **{name: value for name, value in known.items() if name in self.takes})

    def value(self, outcome: Outcome, **others: Any) -> float:
        """Return the value as a plain number, NaN if there is none."""
        measured = self.measure(outcome, **others)
        return float("nan") if measured is None else float(measured)


@dataclass(frozen=True)
class Breakdown:
    """A metric by size, label, group or anything else: the attribute of an evaluation, the function, what it shows.

    ``by`` is what the parts are called in tables and figures. For "group" the function gets the groups that were passed
    as a third argument, and is left out where there are none. ``streams`` is as in :class:`Metric`.
    """

    name: str
    of: Callable[..., dict[Any, Estimate]]
    words: str
    by: str
    streams: bool = True

    def measure(self, outcome: Outcome, groups: Any, confidence: float) -> dict[Any, Estimate] | None:
        """Return the value of each part; None without groups, or without the rows that it needs."""
        if outcome.times is not None and not self.streams:
            return None
        if self.by == "group":
            return None if groups is None else self.of(outcome, outcome.labels, groups, confidence=confidence)
        return self.of(outcome, *([outcome.labels] if self._takes_labels else []), confidence=confidence)

    @cached_property
    def _takes_labels(self) -> bool:
        return "labels" in signature(self.of).parameters


def as_estimate(value: Measured) -> Estimate:
    """Return the number of a metric with its interval."""
    return value.coverage if isinstance(value, WorstSlice) else value


_TABLE = (
    Metric(coverages.coverage, "share", "higher", aims_at_level=True),
    Metric(
        worst_slice_coverage,
        "share",
        "higher",
        name="worst_slice",
        heading="Coverage in the worst slice",
        aims_at_level=True,
    ),
    Metric(coverages.macro_coverage, "share", "higher", words="macro coverage", short="macro"),
    Metric(
        coverages.labels_below,
        "share",
        "lower",
        words="labels below 1 - 2 alpha",
        heading="Labels covered too little",
        short="below",
    ),
    Metric(coverages.mean_size, "labels", "lower", column="size", heading="Labels in a set"),
    Metric(
        coverages.size_given_coverage,
        "labels",
        "lower",
        heading="Labels in a set that covers",
        short="size if covered",
    ),
    # How sets of no label and of one fare is detail, and the gap is about labels: pages about splits leave them out.
    Metric(coverages.empty_rate, "share", "lower", words="empty sets", in_splits=False),
    Metric(coverages.singleton_rate, "share", "higher", words="one-label sets", in_splits=False),
    Metric(coverages.singleton_accuracy, "share", "higher", words="accuracy of one-label sets", in_splits=False),
    Metric(coverages.coverage_gap, "share", "lower", words="coverage gap over labels", in_splits=False),
)
_COSTLY = (
    Metric(coverage_unevenness, "difference", "lower", words="unevenness of coverage", short="uneven", streams=False),
)
METRICS = {metric.name: metric for metric in _TABLE}
ON_REQUEST = {metric.name: metric for metric in _COSTLY}
OF_SPLITS = {metric.column: metric for metric in _TABLE if metric.in_splits}
_BROKEN_DOWN = (
    Breakdown("sizes", coverages.size_distribution, "share of sets", "size"),
    Breakdown("by_size", coverages.size_stratified_coverage, "coverage", "size"),
    Breakdown("by_label", coverages.coverage_by, "coverage", "label"),
    Breakdown("size_by_label", coverages.mean_size_by, "mean size", "label"),
    Breakdown("by_group", coverages.coverage_by, "coverage", "group"),
    Breakdown("size_by_group", coverages.mean_size_by, "mean size", "group"),
    Breakdown("covering_size_by_label", coverages.size_given_coverage_by, "size given coverage", "label"),
    Breakdown("covering_size_by_group", coverages.size_given_coverage_by, "size given coverage", "group"),
)
BREAKDOWNS: dict[str, Breakdown] = {one.name: one for one in _BROKEN_DOWN}


def check_extra(extra_metrics: Any) -> dict[str, Metric]:
    """Return the metrics that are measured on request, by the names that were passed."""
    names = [extra_metrics] if isinstance(extra_metrics, str) else list(extra_metrics)
    return {name: ON_REQUEST[validate.one_of(name, tuple(ON_REQUEST), "extra_metrics")] for name in names}


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
    checked, truth = PredictionSets.of(sets, classes), as_labels(labels, "labels")
    takes_labels = "labels" in signature(metric).parameters
    return {
        name: metric(checked[rows], truth[rows]) if takes_labels else metric(checked[rows])
        for name, rows in Outcome.of(checked, labels).parts(by)
    }
