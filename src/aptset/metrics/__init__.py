"""What a collection of sets is worth: coverage and size, overall and by label, by group, by size.

Every function takes the sets as a PredictionSets, a boolean mask (rows, classes) or a list of label arrays, and the
true labels. Shares come with exact Clopper-Pearson intervals, mean sizes with intervals for sizes between 0 and the
number of labels.

To add a metric, write its function and put a line into ``_TABLE``: evaluations, reports, audits, comparisons,
experiments and scorers read this table. One that costs a fit goes into ``ON_REQUEST`` instead: it is measured where
``extra_metrics`` name it. A break-down is a function and a line of ``_BROKEN_DOWN``. Both tables are read
for files that stream, too.
"""

from typing import Any

from aptset.core import validate
from aptset.metrics.coverages import (
    coverage,
    coverage_by,
    coverage_gap,
    empty_rate,
    labels_below,
    macro_coverage,
    mean_size,
    mean_size_by,
    singleton_accuracy,
    singleton_rate,
    size_distribution,
    size_given_coverage,
    size_given_coverage_by,
    size_stratified_coverage,
)
from aptset.metrics.outcome import Outcome
from aptset.metrics.table import Breakdown, Measured, Metric, as_estimate, breakdown
from aptset.metrics.unevenness import coverage_unevenness
from aptset.metrics.worst_slice import worst_slice_coverage

_TABLE = (
    Metric(coverage, "share", "higher", aims_at_level=True),
    Metric(
        worst_slice_coverage,
        "share",
        "higher",
        name="worst_slice",
        heading="Coverage in the worst slice",
        aims_at_level=True,
    ),
    Metric(macro_coverage, "share", "higher", words="macro coverage", short="macro"),
    Metric(
        labels_below,
        "share",
        "lower",
        words="labels below 1 - 2 alpha",
        heading="Labels covered too little",
        short="below",
    ),
    Metric(mean_size, "labels", "lower", column="size", heading="Labels in a set"),
    Metric(size_given_coverage, "labels", "lower", heading="Labels in a set that covers", short="size if covered"),
    # How sets of no label and of one fare is detail, and the gap is about labels: pages about splits leave them out.
    Metric(empty_rate, "share", "lower", words="empty sets", in_splits=False),
    Metric(singleton_rate, "share", "higher", words="one-label sets", in_splits=False),
    Metric(singleton_accuracy, "share", "higher", words="accuracy of one-label sets", in_splits=False),
    Metric(coverage_gap, "share", "lower", words="coverage gap over labels", in_splits=False),
)
METRICS = {metric.name: metric for metric in _TABLE}
ON_REQUEST = {
    metric.name: metric
    for metric in (
        Metric(
            coverage_unevenness, "difference", "lower", words="unevenness of coverage", short="uneven", streams=False
        ),
    )
}
OF_SPLITS = {metric.column: metric for metric in _TABLE if metric.in_splits}
_BROKEN_DOWN = (
    Breakdown("sizes", size_distribution, "share of sets", "size"),
    Breakdown("by_size", size_stratified_coverage, "coverage", "size"),
    Breakdown("by_label", coverage_by, "coverage", "label"),
    Breakdown("size_by_label", mean_size_by, "mean size", "label"),
    Breakdown("by_group", coverage_by, "coverage", "group"),
    Breakdown("size_by_group", mean_size_by, "mean size", "group"),
    Breakdown("covering_size_by_label", size_given_coverage_by, "size given coverage", "label"),
    Breakdown("covering_size_by_group", size_given_coverage_by, "size given coverage", "group"),
)
BREAKDOWNS = {one.name: one for one in _BROKEN_DOWN}


def check_extra(extra_metrics: Any) -> dict[str, Metric]:
    """Return the metrics that are measured on request, by the names that were passed."""
    names = [extra_metrics] if isinstance(extra_metrics, str) else list(extra_metrics)
    return {name: ON_REQUEST[validate.one_of(name, tuple(ON_REQUEST), "extra_metrics")] for name in names}


__all__ = [
    "BREAKDOWNS",
    "METRICS",
    "OF_SPLITS",
    "ON_REQUEST",
    "Breakdown",
    "Measured",
    "Metric",
    "Outcome",
    "as_estimate",
    "breakdown",
    "check_extra",
    "coverage",
    "coverage_by",
    "coverage_gap",
    "empty_rate",
    "labels_below",
    "macro_coverage",
    "mean_size",
    "mean_size_by",
    "singleton_accuracy",
    "singleton_rate",
    "size_distribution",
    "size_given_coverage",
    "size_given_coverage_by",
    "size_stratified_coverage",
]
