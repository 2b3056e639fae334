"""Everything about a collection of sets in one frozen value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from numpy.typing import ArrayLike

from aptset.core import validate
from aptset.core.clusters import check_clusters, check_votes, plural, refuse_votes_and_labels
from aptset.core.displays import Display, drawable
from aptset.core.labels import check_length
from aptset.core.overlapping import Overlapping
from aptset.core.tables import Backend, html_table, make_table, without_column
from aptset.core.validate import check_alpha
from aptset.metrics import BREAKDOWNS, METRICS, Measured, Metric, as_estimate
from aptset.metrics.coverages import check_level
from aptset.metrics.estimates import Estimate, check_confidence, share_of_count
from aptset.metrics.evaluation_rows import EvaluationRows, as_group_list, show_curve
from aptset.metrics.outcome import Outcome, RowClusters
from aptset.metrics.worst_slice import WorstSlice
from aptset.sets import PredictionSets


def check_needs_p_values(p_values: Any, **others: Any) -> None:
    """Refuse what means something only beside p-values."""
    given = [name for name, value in others.items() if value is not None]
    if p_values is None and given:
        raise ValueError(f"p_values must be given with {given[0]}, which says how they came about; got none.")


_NEEDS = {
    "curve": "p_values: pass p_values=classifier.p_values(X) to evaluate",
    "by_group": "groups: pass groups=... to evaluate",
    "size_by_group": "groups: pass groups=... to evaluate",
}


def check_what_is_needed(kind: Any, known: list[str]) -> None:
    """Say what is missing for a figure that there would be."""
    if isinstance(kind, str) and kind not in known and kind in _NEEDS:
        raise ValueError(f"kind {kind!r} needs {_NEEDS[kind]}. Without it there are {', '.join(known)}.")


@dataclass(frozen=True)
class Evaluation:
    """What a collection of sets is worth; made by :func:`evaluate`. Every number carries its interval and counts.

    The numbers are those of the table of metrics (``aptset.metrics``), each an attribute.

    Attributes
    ----------
    coverage, mean_size, size_given_coverage, empty_rate, singleton_rate, singleton_accuracy, coverage_gap : Estimate
        Over all rows; the gap is the largest coverage of a label minus the smallest, or, if alpha was given, the mean
        distance of the labels' coverages from 1 - alpha.
    sizes, by_size, by_label, size_by_label : dict of Estimate
        Shares of sizes; coverage by size and by true label; mean size by true label.
    by_group, size_by_group : dict of Estimate, or None
        Coverage and mean size by group, if groups were given.
    covering_size_by_label, covering_size_by_group : dict of Estimate
        Mean size of the sets that hold the true label, by label and by group.
    worst_slice : WorstSlice or None
        If X was given.
    overall, parts : dict
        The same numbers by name.
    alpha : float or None
        The level of the sets, if given.
    n : int
        Number of rows.
    evidence : EvaluationRows or None
        The rows themselves, if p-values were given: what ``plot("curve")`` and :func:`report` need.
    confidence : float
        Of each interval by itself.
    over_clusters : callable or None
        Where rows belong together: from the name of a break-down and a confidence to its numbers.

    Examples
    --------
    >>> import aptset
    >>> evaluation = aptset.evaluate([["a"], ["a", "b"], []], ["a", "b", "a"])
    >>> evaluation.empty_rate
    0.3333 [0.008404, 0.9057] (1 of 3)
    >>> {label: float(value) for label, value in evaluation.by_label.items()}
    {'a': 0.5, 'b': 1.0}
    """

    overall: dict[str, Measured | None]
    parts: dict[str, dict[Any, Estimate] | None]
    alpha: float | None
    n: int
    evidence: EvaluationRows | None = field(default=None, repr=False, compare=False)
    confidence: float = 0.95
    over_clusters: Any = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        """Return a number, or the numbers of a break-down, by the name in the tables."""
        if name in METRICS and "overall" in self.__dict__:
            return self.overall.get(name)
        if name in BREAKDOWNS and "parts" in self.__dict__:
            return self.parts.get(name)
        raise AttributeError(f"an Evaluation has no {name!r}; it has {', '.join([*METRICS, *BREAKDOWNS])}.")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *METRICS, *BREAKDOWNS]

    @property
    def coverage(self) -> Estimate:
        """The share of rows whose set holds the true label."""
        return self._estimate("coverage")

    @property
    def mean_size(self) -> Estimate:
        """The mean number of labels in a set."""
        return self._estimate("mean_size")

    @property
    def worst_slice(self) -> WorstSlice | None:
        """The slab of rows where coverage is worst, if X was given."""
        measured = self.overall.get("worst_slice")
        return measured if isinstance(measured, WorstSlice) else None

    def _estimate(self, name: str) -> Estimate:
        measured = self.overall[name]
        assert measured is not None, "metrics of all rows without features are always known"
        return as_estimate(measured)

    def estimates(self) -> Iterator[tuple[Metric, Estimate]]:
        """Yield every metric over all rows that is known, those of features last."""
        for metric in sorted(METRICS.values(), key=lambda metric: metric.needs_features):
            measured = self.overall.get(metric.name)
            if measured is not None:
                yield metric, as_estimate(measured)

    def rows(self) -> Iterator[tuple[str, str, str, Estimate]]:
        """Yield every number as (metric, by, group, estimate)."""
        for metric, estimate in self.estimates():
            is_slice = isinstance(self.overall[metric.name], WorstSlice)
            yield metric.name, "slice" if is_slice else "all", "", estimate
        for name, broken_down in BREAKDOWNS.items():
            for group, estimate in (self.parts.get(name) or {}).items():
                yield name, broken_down.by, str(group), estimate

    def lowest(self, by: Literal["label", "group", "size"] = "label") -> tuple[Any, Estimate] | None:
        """Return the label, group or size with the lowest coverage, and that coverage; None if there is none.

        The lowest of many is low by chance too. Its interval is therefore the one that holds for all of them at once
        (Bonferroni), and so for the one that was chosen because it came out lowest. Empty sets, which cover nothing,
        are left out of the sizes. (The smallest sets cover least by construction where u decides about a label: see
        :func:`size_stratified_coverage`. What is printed leaves sizes out.)

        Examples
        --------
        >>> import aptset
        >>> evaluation = aptset.evaluate([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
        >>> evaluation.by_label["a"]
        0.5 [0.01258, 0.9874] (1 of 2)
        >>> evaluation.lowest()
        ('a', 0.5 [0.00627, 0.9937] (1 of 2))
        """
        validate.one_of(by, ("label", "group", "size"), "by")
        values = {name: one for name, one in (self.parts.get(f"by_{by}") or {}).items() if by != "size" or name != 0}
        if not values:
            return None
        each = 1 - (1 - self.confidence) / len(values)
        name = min(values, key=lambda name: (values[name] != values[name], float(values[name])))
        if self.over_clusters is not None:
            return name, self.over_clusters(f"by_{by}", each)[name]
        return name, share_of_count(values[name].count or 0, values[name].n, each)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return everything as one tidy data frame: metric, by, group, value, low, high, n, count."""
        rows = list(self.rows())
        columns: dict[str, Any] = {"metric": [row[0] for row in rows], "by": [row[1] for row in rows]}
        columns["group"] = [row[2] for row in rows]
        columns["value"] = [float(row[3]) for row in rows]
        for name in ("low", "high", "n", "count", *(["standard_error"] if self.over_clusters is not None else [])):
            columns[name] = [getattr(row[3], name) for row in rows]
        return make_table(columns, backend)

    def plot(self, kind: str = "by_label") -> Display:
        """Return a figure; ``.draw()`` draws it, ``.frame()`` gives its table back.

        Parameters
        ----------
        kind : str, default="by_label"
            One of the break-downs, or "curve": coverage at every level, if p-values were given.
        """
        known = [name for name in BREAKDOWNS if self.parts.get(name) is not None]
        check_what_is_needed(kind, [*known, *(["curve"] if self.evidence is not None else [])])
        validate.one_of(kind, (*known, *(["curve"] if self.evidence is not None else [])), "kind")
        if kind == "curve" and self.evidence is not None:
            return show_curve(self.evidence)
        what, by = BREAKDOWNS[kind].words, BREAKDOWNS[kind].by
        values = self.parts[kind] or {}
        columns: dict[str, Any] = {by: drawable(list(values)), what: [float(v) for v in values.values()]}
        for name in ("low", "high", "n"):
            columns[name] = [getattr(v, name) for v in values.values()]
        marks = [1 - self.alpha] if what == "coverage" and self.alpha is not None else []
        return Display(columns, "bar", f"{what} by {by}", by, what, marks)

    def _words(self, metric: Metric) -> str:
        """Return the words for a metric; where no alpha was given, the level that was taken instead."""
        is_assumed = metric.name == "labels_below" and self.alpha is None
        return f"labels below {check_level(None, None):g}" if is_assumed else metric.words

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        at_alpha = "" if self.alpha is None else f" at alpha={self.alpha:g}"
        rows = [
            (self._words(metric), f"{float(value):.4g}", f"{value.low:.4g} to {value.high:.4g}")
            for metric, value in self.estimates()
        ]
        notes = [] if self.worst_slice is None else [f"Worst slice: {self.worst_slice.describe()}"]
        head = ("", "value", "interval")
        return html_table(f"Evaluation of {self.n} prediction sets{at_alpha}", head, rows, notes)

    def __repr__(self) -> str:
        at_alpha = "" if self.alpha is None else f" at alpha={self.alpha:g}"
        head = f"Evaluation of {self.n} prediction sets{at_alpha}"
        known = ((metric, value) for metric, value in self.estimates() if metric.name != "worst_slice")
        lines = [f"  {self._words(metric):<28} {value!r}" for metric, value in known]
        for by in ("label", "group"):
            lowest = self.lowest(by)
            if lowest is not None:
                lines.append(f"  {'lowest coverage by ' + by:<28} {lowest[1]!r} for {lowest[0]}")
        if self.worst_slice is not None:
            lines.append(f"  {'worst slice':<28} {self.worst_slice.describe()}")
        return "\n".join([head, *lines])


def evaluate(
    sets: Any,
    labels: ArrayLike | None = None,
    X: Any = None,
    groups: ArrayLike | Overlapping | None = None,
    *,
    alpha: float | None = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: Any = 0,
    p_values: ArrayLike | None = None,
    probabilities: Any = None,
    n: int | None = None,
    allow_empty: bool | None = None,
    clusters: Any = None,
    votes: Any = None,
) -> Evaluation:
    """Judge prediction sets against the true labels.

    Parameters
    ----------
    sets : PredictionSets, boolean mask or list of label arrays
        The prediction sets.
    labels : array
        The true labels; left out where ``votes`` are passed.
    X : array or data frame, optional
        Features, to look for the worst slice.
    groups : array or Overlapping, optional
        A group for each row, or those that it is in, to break coverage and size down.
    alpha : float, optional
        The level of the sets: drawn as a reference, and the target of the coverage gap.
    classes : array, optional
        The label of each column of a mask; by default the column numbers.
    confidence : float, default=0.95
        Of the intervals.
    random_state : None, int or numpy random generator, default=0
        For the worst slice.
    p_values : array, shape (rows, classes), optional
        The p-value of every label, as ``p_values`` gives them: lets :func:`report` and ``plot("curve")`` see every
        level. They must be those of the sets at ``alpha``.
    probabilities : array, shape (rows, classes), optional
        What the model said, to be shown beside the p-values.
    n : int, optional
        Number of rows that calibrated, for sets of one split without groups: coverage then has an exact law. Without it
        a report has no verdict.
    allow_empty : bool, optional
        With p-values: False if empty sets get their most likely label (then pass ``probabilities`` too), True if they
        stay empty. By default True, unless some set at this level was filled.
    clusters : array or name of a column of X, optional
        The id of each row's cluster, where rows belong together, such as images of one patient. Every number is then a
        mean of cluster means, with a standard error and an interval over clusters: the promise of a calibration with
        ``clusters`` is about a row of a new cluster, not about the share of rows. (The worst slice is about rows.)
    votes : array or data frame, shape (rows, classes), optional
        How many annotators chose each label of each row: every row counts once, shared out over its answers. Without
        ``labels``, ``X`` and ``p_values``.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import aptset
    >>> evaluation = aptset.evaluate([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
    >>> evaluation.coverage
    0.6667 [0.0943, 0.9916] (2 of 3)
    >>> evaluation.by_label["b"].n
    1
    """
    if labels is None or votes is not None:
        refuse_votes_and_labels(labels, votes)
    checked = PredictionSets.of(sets, classes)
    level = None if alpha is None else float(check_alpha(alpha))
    if groups is not None:
        check_length(as_group_list(groups) or groups, len(checked), "groups")
    check_needs_p_values(p_values, probabilities=probabilities, n=n, allow_empty=allow_empty)
    rows = None
    if p_values is not None:
        rows = EvaluationRows.of(checked, labels, p_values, probabilities, groups, X, level, n, allow_empty)
    outcome, X, groups = _outcome(checked, labels, X, groups, clusters, votes, p_values)
    kinds, common = outcome.by_kind(), {"alpha": alpha, "X": X, "random_state": random_state, "confidence": confidence}
    return Evaluation(
        overall={
            name: one.measure(outcome if one.needs_features or not one.streams else kinds, **common)
            for name, one in METRICS.items()
        },
        parts={
            name: one.measure(outcome if one.by == "group" else kinds, groups, confidence)
            for name, one in BREAKDOWNS.items()
        },
        alpha=level,
        n=len(checked),
        evidence=rows,
        confidence=check_confidence(confidence),
        over_clusters=None if outcome.clusters is None else partial(_broken_down, outcome, groups),
    )


def _broken_down(outcome: Outcome, groups: Any, name: str, confidence: float) -> dict[Any, Estimate] | None:
    """Return the numbers of a break-down at another confidence."""
    return BREAKDOWNS[name].measure(outcome, groups, confidence)


def _outcome(
    sets: PredictionSets, labels: Any, X: Any, groups: Any, clusters: Any, votes: Any, p_values: Any
) -> tuple[Outcome, Any, Any]:
    """Return what sets did with the true labels, or with all answers; X and groups as they go with it."""
    if votes is not None:
        others = {"X": X, "p_values": p_values, "clusters": clusters}
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]} must be left out where votes are passed: a row has no one label then.")
        answers = check_votes(votes, sets.classes, len(sets))
        outcome = Outcome.of(sets[answers.rows], sets.classes[answers.columns])
        by = as_group_list(groups)
        by = groups if by is None else [by[row] for row in answers.rows.tolist()]
        return replace(outcome, clusters=RowClusters(answers.rows, answers.votes, "rows")), None, by
    outcome = Outcome.of(sets, labels)
    if clusters is None:
        return outcome, X, groups
    members = check_clusters(clusters, X, len(sets), 0)
    X = without_column(X, clusters) if isinstance(clusters, str) else X
    return replace(outcome, clusters=RowClusters(members.numbers(), nouns=plural(members.noun))), X, groups
