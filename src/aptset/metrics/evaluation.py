"""Everything about a collection of sets in one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import ArrayLike

from aptset.core import validate
from aptset.core.displays import Display, drawable
from aptset.core.labels import as_labels, check_length, distinct, hashable
from aptset.core.levels import levels_of_mapping
from aptset.core.overlapping import Overlapping
from aptset.core.tables import Backend, html_table, make_table
from aptset.core.validate import check_alpha
from aptset.metrics import BREAKDOWNS, METRICS, Measured, Metric, as_estimate
from aptset.metrics.coverages import check_level, levels_by_name
from aptset.metrics.estimates import Estimate, check_confidence, share_of_count
from aptset.metrics.evaluation_rows import EvaluationRows, as_group_list, show_curve
from aptset.metrics.outcome import Outcome
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
    alpha : float, dict or None
        The level of the sets, or of each label or group, if given.
    judged : dict
        For levels of labels or groups: the coverage that was asked of each, beside the one that was measured.
    n : int
        Number of rows.
    evidence : EvaluationRows or None
        The rows themselves, if p-values were given: what ``plot("curve")`` and :func:`report` need.
    confidence : float
        Of each interval by itself.
    remarks : tuple of str
        What is to be known about the rows: labels that the model does not know, rows that were left out.

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
    alpha: float | dict[Any, float] | None
    n: int
    evidence: EvaluationRows | None = field(default=None, repr=False, compare=False)
    confidence: float = 0.95
    remarks: tuple[str, ...] = ()

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

    @property
    def one_level(self) -> float:
        """The level of all sets, for what can show no more than one; 0 where none was given."""
        return self.alpha if isinstance(self.alpha, float) else 0.0

    @property
    def judged_by(self) -> Literal["label", "group"]:
        """Whether levels that differ are those of labels or of groups."""
        levels, labels = self.alpha if isinstance(self.alpha, dict) else {}, self.parts.get("by_label") or {}
        return "label" if all(hashable(label) in levels for label in labels) else "group"

    @property
    def judged(self) -> dict[Any, tuple[float, Estimate]]:
        """For levels of labels or groups: 1 - alpha of each that occurs, and its coverage."""
        if not isinstance(self.alpha, dict):
            return {}
        measured = self.parts.get(f"by_{self.judged_by}") or {}
        return {name: (1 - self.alpha[hashable(name)], estimate) for name, estimate in measured.items()}

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
        are left out of the sizes. Where labels or groups have levels of their own it is the one that falls shortest of
        its own. (The smallest sets cover least by construction where u decides about a label: see
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
        asked = {name: promised for name, (promised, _) in self.judged.items()} if by == self.judged_by else {}
        name = min(values, key=lambda name: (values[name] != values[name], values[name] - asked.get(name, 0.0)))
        return name, share_of_count(values[name].count or 0, values[name].n, each)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return everything as one tidy data frame: metric, by, group, value, low, high, n, count."""
        rows = list(self.rows())
        columns: dict[str, Any] = {"metric": [row[0] for row in rows], "by": [row[1] for row in rows]}
        columns["group"] = [row[2] for row in rows]
        columns["value"] = [float(row[3]) for row in rows]
        for name in ("low", "high", "n", "count"):
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
        marks = [1 - self.alpha] if what == "coverage" and isinstance(self.alpha, float) else []
        return Display(columns, "bar", f"{what} by {by}", by, what, marks)

    def _words(self, metric: Metric) -> str:
        """Return the words for a metric; where no alpha was given, the level that was taken instead."""
        is_assumed = metric.name == "labels_below" and self.alpha is None
        return f"labels below {check_level(None, None):g}" if is_assumed else metric.words

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        at_alpha = "" if self.alpha is None else f" at alpha={_shown(self.alpha)}"
        rows = [
            (self._words(metric), f"{float(value):.4g}", f"{value.low:.4g} to {value.high:.4g}")
            for metric, value in self.estimates()
        ]
        notes = [*self.remarks] + ([] if self.worst_slice is None else [f"Worst slice: {self.worst_slice.describe()}"])
        head = ("", "value", "interval")
        return html_table(f"Evaluation of {self.n} prediction sets{at_alpha}", head, rows, notes)

    def __repr__(self) -> str:
        at_alpha = "" if self.alpha is None else f" at alpha={_shown(self.alpha)}"
        head = f"Evaluation of {self.n} prediction sets{at_alpha}"
        known = ((metric, value) for metric, value in self.estimates() if metric.name != "worst_slice")
        lines = [f"  {self._words(metric):<28} {value!r}" for metric, value in known]
        for by in ("label", "group"):
            lowest = self.lowest(by)
            if lowest is not None:
                lines.append(f"  {'lowest coverage by ' + by:<28} {lowest[1]!r} for {lowest[0]}")
        for name, (promised, estimate) in list(self.judged.items())[:_MOST_JUDGED]:
            lines.append(f"  {f'coverage of {name}':<28} {estimate!r}, at least {promised:g} was asked for")
        if self.worst_slice is not None:
            lines.append(f"  {'worst slice':<28} {self.worst_slice.describe()}")
        return "\n".join([head, *lines, *(f"  {remark}" for remark in self.remarks)])


def about_unknown(by_label: dict[Any, Estimate], classes: Iterable[Any]) -> tuple[str, ...]:
    """Say how many rows have labels that the model does not know, and which labels these are."""
    known = set(classes)
    unknown = {label: estimate.n for label, estimate in by_label.items() if label not in known}
    if not unknown:
        return ()
    rows, of_all = sum(unknown.values()), sum(estimate.n for estimate in by_label.values())
    first = list(unknown)[:5]
    named = ", ".join("missing" if label is None else repr(label) for label in first)
    more = f" and {len(unknown) - len(first)} others" if len(unknown) > len(first) else ""
    verb = "label is" if rows == 1 else "labels are"
    return (f"{rows:,} of {of_all:,} {verb} unknown to the model: {named}{more}. No set can hold them.",)


_MOST_JUDGED = 12  # labels or groups that are printed one by one


def _shown(alpha: float | dict[Any, float]) -> str:
    return f"{alpha:g}" if isinstance(alpha, float) else repr(alpha)


def check_judged(alpha: Any, labels: Any, groups: Any, p_values: Any) -> tuple[float | dict[Any, float] | None, Any]:
    """Return the level, and that of labels alone: levels of groups say nothing about labels."""
    if not isinstance(alpha, Mapping):
        return None if alpha is None else float(check_alpha(alpha)), alpha
    if p_values is not None:
        raise ValueError("p_values must be left out where alpha is a mapping: what is drawn from them has one level.")
    levels = levels_of_mapping(alpha)
    of_labels = all(hashable(label) in levels for label in distinct(as_labels(labels, "labels")).tolist())
    if of_labels or groups is None:  # what is missing, metrics say
        return levels, alpha
    levels_by_name(alpha, list(dict.fromkeys(as_group_list(groups) or [])))
    return levels, None


def evaluate(
    sets: Any,
    labels: ArrayLike,
    X: Any = None,
    groups: ArrayLike | Overlapping | None = None,
    *,
    alpha: float | Mapping[Any, float] | None = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: Any = 0,
    p_values: ArrayLike | None = None,
    probabilities: Any = None,
    n: int | None = None,
    allow_empty: bool | None = None,
) -> Evaluation:
    """Judge prediction sets against the true labels.

    Parameters
    ----------
    sets : PredictionSets, boolean mask or list of label arrays
        The prediction sets.
    labels : array
        The true labels.
    X : array or data frame, optional
        Features, to look for the worst slice.
    groups : array or Overlapping, optional
        A group for each row, or those that it is in, to break coverage and size down.
    alpha : float or mapping, optional
        The level of the sets: drawn as a reference, and the target of the coverage gap. A mapping has a level for each
        label (or each of the ``groups``), and each is judged against its own.
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
    checked = PredictionSets.of(sets, classes)
    level, of_labels = check_judged(alpha, labels, groups, p_values)
    if groups is not None:
        check_length(as_group_list(groups) or groups, len(checked), "groups")
    check_needs_p_values(p_values, probabilities=probabilities, n=n, allow_empty=allow_empty)
    rows = None
    if p_values is not None and not isinstance(level, dict):
        rows = EvaluationRows.of(checked, labels, p_values, probabilities, groups, X, level, n, allow_empty)
    outcome, has_classes = Outcome.of(checked, labels), classes is not None or isinstance(sets, PredictionSets)
    kinds, common = (
        outcome.by_kind(),
        {"alpha": of_labels, "X": X, "random_state": random_state, "confidence": confidence},
    )
    parts = {
        name: one.measure(outcome if one.by == "group" else kinds, groups, confidence)
        for name, one in BREAKDOWNS.items()
    }
    return Evaluation(
        overall={
            name: one.measure(outcome if one.needs_features or not one.streams else kinds, **common)
            for name, one in METRICS.items()
        },
        parts=parts,
        alpha=level,
        n=len(checked),
        evidence=rows,
        confidence=check_confidence(confidence),
        remarks=about_unknown(parts["by_label"] or {}, checked.classes.tolist()) if has_classes else (),
    )
