"""Everything about a collection of sets in one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aptset.core import validate
from aptset.core.labels import as_labels, check_length, distinct, hashable
from aptset.core.levels import levels_of_mapping
from aptset.core.overlapping import Overlapping
from aptset.core.row_groups import check_clusters, check_votes, plural, refuse_votes_and_labels
from aptset.core.tables import Backend, Display, bars_of, html_table, make_table, without_column
from aptset.metrics import BREAKDOWNS, METRICS, ON_REQUEST, Measured, Metric, as_estimate, check_extra
from aptset.metrics.coverages import check_level, levels_by_name
from aptset.metrics.estimates import Estimate, check_confidence, percent, share_of_count
from aptset.metrics.evaluation_rows import (
    EvaluationRows,
    ModelWords,
    as_group_list,
    check_matrix,
    show_curve,
    words_of_model,
)
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
    "reliability": "probabilities: pass probabilities=classifier.predict_proba(X) to evaluate",
    "by_group": "groups: pass groups=... to evaluate",
    "size_by_group": "groups: pass groups=... to evaluate",
    "covering_size_by_group": "groups: pass groups=... to evaluate",
}


def check_kind(kind: Any, known: list[str]) -> str:
    """Return what is to be drawn; say what is missing for a figure that there would be."""
    if isinstance(kind, str) and kind not in known and kind in _NEEDS:
        raise ValueError(f"kind {kind!r} needs {_NEEDS[kind]}. Without it there are {', '.join(known)}.")
    return validate.one_of(kind, tuple(known), "kind")


# What is said where the model is right more often than was asked for: the promise is then kept by empty sets. The
# page's script fills in the same sentences.
BETTER_THAN_ASKED = {
    "better": (
        "The model is right in {right} of these rows, more than the {asked} asked for, so {empty} of the sets are "
        "empty. {way_out}"
    ),
    "seems_better": (
        "{empty} of the sets are empty, since the model seems to be right in more than the {asked} asked for. {way_out}"
    ),
    "stops": "Ask for alpha = {stops}, or for no empty sets (allow_empty=False, --no-empty).",
    "smaller": "Ask for a smaller alpha, or for no empty sets (allow_empty=False, --no-empty).",
    "never_stops": "Ask for no empty sets (allow_empty=False, --no-empty).",
}


def level_that_fits(right: Estimate, n: int | None) -> float | None:
    """Return the level, in one digit, from which on a model is not better than asked for; None if there is none.

    With so few calibration rows that every set would hold every label, there is none either.
    """
    wrong = right.n - (right.count or 0)
    if wrong == 0:
        return None
    missed = Fraction(wrong, right.n)
    digit = next(Fraction(1, 10**places) for places in range(20) if Fraction(1, 10**places) <= missed)
    level = missed // digit * digit
    return None if level >= 1 or (n is not None and level * (n + 1) < 1) else float(level)


def is_better_than_asked(right: Estimate, alpha: float) -> bool:
    """Tell whether fewer rows are guessed wrong than sets may miss."""
    return right.n - (right.count or 0) < alpha * right.n * (1 - 1e-12)


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
    coverage_unevenness : Unevenness or None
        If ``extra_metrics`` named it.
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
    model : ModelWords or None
        If probabilities were given: ``accuracy``, how often the most likely label is the true one, and ``claimed``, the
        mean probability of the labels in sets of each size.
    n_calibration : int or None
        Number of rows that calibrated, if known.
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
    alpha: float | dict[Any, float] | None
    n: int
    evidence: EvaluationRows | None = field(default=None, repr=False, compare=False)
    confidence: float = 0.95
    remarks: tuple[str, ...] = ()
    model: ModelWords | None = field(default=None, repr=False, compare=False)
    n_calibration: int | None = field(default=None, repr=False, compare=False)
    over_clusters: Any = field(default=None, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        """Return a number, or the numbers of a break-down, by the name in the tables."""
        if (name in METRICS or name in ON_REQUEST) and "overall" in self.__dict__:
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
        for metric in sorted((METRICS | ON_REQUEST).values(), key=lambda metric: metric.needs_features):
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
        """Return a figure; ``.draw()`` draws it, ``.frame()`` gives its table back, and notebooks show it by itself.

        Parameters
        ----------
        kind : str, default="by_label"
            What to draw:

            - "sizes": the share of sets of each size;
            - "by_size", "by_label", "by_group": coverage by size of the set, by true label, by group;
            - "size_by_label", "size_by_group": mean size by true label, by group;
            - "covering_size_by_label", "covering_size_by_group": mean size of the sets that hold the true label;
            - "reliability": by size of the set, the coverage and the probability that the model gives to the set, if
              ``probabilities`` were given;
            - "curve": coverage against level, at every alpha, if ``p_values`` were given.

            What is about groups needs ``groups``.

        Examples
        --------
        >>> import aptset
        >>> evaluation = aptset.evaluate([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
        >>> evaluation.plot("sizes").frame()[["size", "share of sets"]]
           size  share of sets
        0     1       0.666667
        1     2       0.333333
        """
        can = {"reliability": self.model is not None, "curve": self.evidence is not None}
        known = [name for name in BREAKDOWNS if self.parts.get(name) is not None]
        kind = check_kind(kind, [*known, *(name for name, is_known in can.items() if is_known)])
        if kind == "curve" and self.evidence is not None:
            return show_curve(self.evidence)
        if kind == "reliability" and self.model is not None:
            return self._reliability(self.model.claimed)
        one = BREAKDOWNS[kind]
        marks = [1 - self.alpha] if one.words == "coverage" and isinstance(self.alpha, float) else []
        return bars_of(self.parts[kind] or {}, one.words, one.by, marks)

    def _reliability(self, claimed: dict[int, float]) -> Display:
        """Return coverage by size beside what the model says of it."""
        shown = bars_of(self.by_size, "coverage", "size")
        columns = {**shown.columns, "probability by the model": [claimed[size] for size in self.by_size]}
        marks = [1 - self.alpha] if isinstance(self.alpha, float) else []
        title = "Reliability of set sizes"
        return Display(columns, "bar", title, "size", "coverage", marks, points="probability by the model")

    def advice(self) -> str:
        """Return one line where the model is better than asked for, so that sets come out empty; else nothing."""
        empty = self.overall.get("empty_rate")
        if not isinstance(self.alpha, float) or not isinstance(empty, Estimate) or not empty.count:
            return ""
        facts = {"asked": f"{100 * (1 - self.alpha):.4g} %", "empty": percent(empty, self.n)}
        if self.model is None:
            return self._seems_better(self.alpha, empty.count, facts)
        right = self.model.accuracy
        if not is_better_than_asked(right, self.alpha):
            return ""
        level = level_that_fits(right, self.n_calibration)
        way_out = BETTER_THAN_ASKED["never_stops" if level is None else "stops"].format(stops=f"{level or 0:g}")
        return BETTER_THAN_ASKED["better"].format(**facts, right=percent(right, right.n), way_out=way_out)

    def _seems_better(self, alpha: float, empty: int, facts: dict[str, str]) -> str:
        """Say so where only sets are known: one-label sets that cover are right guesses, and there are many."""
        one = self.overall.get("singleton_accuracy")
        if not isinstance(one, Estimate) or (one.count or 0) <= (1 - alpha) * (self.n - empty):
            return ""
        return BETTER_THAN_ASKED["seems_better"].format(**facts, way_out=BETTER_THAN_ASKED["smaller"])

    def _words(self, metric: Metric) -> str:
        """Return the words for a metric; where no alpha was given, the level that was taken instead."""
        is_assumed = metric.name == "labels_below" and self.alpha is None
        return f"labels below {check_level(None, None):g}" if is_assumed else metric.words

    def _title(self) -> str:
        at_alpha = "" if self.alpha is None else f" at alpha={_shown(self.alpha)}"
        return f"Evaluation of {self.n} prediction sets{at_alpha}"

    def _lines(self) -> Iterator[tuple[str, Estimate, str]]:
        """Yield what both displays hold: a name, a number with its interval, and whom it is about."""
        for metric, value in self.estimates():
            if metric.name != "worst_slice":
                yield self._words(metric), value, ""
        for by in ("label", "group"):
            lowest = self.lowest(by)
            if lowest is not None:
                yield f"lowest coverage by {by}", lowest[1], f"{lowest[0]}"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [
            (name, f"{float(value):.4g}", f"{value.low:.4g} to {value.high:.4g}", _behind(value), whom)
            for name, value, whom in self._lines()
        ]
        notes = [*self.remarks, *(line.strip() for line in self._judged())]
        worst = self.worst_slice
        notes += [f"Worst slice: {worst.describe()}"] if worst is not None and worst.is_shown else []
        return html_table(self._title(), ("", "value", "interval", "rows", "for"), rows, [*notes, self.advice()])

    def _judged(self) -> list[str]:
        """Return the coverage of labels or groups that have levels of their own."""
        judged = list(self.judged.items())[:_MOST_JUDGED]
        return [
            f"  {f'coverage of {name}':<28} {estimate!r}, at least {promised:g} was asked for"
            for name, (promised, estimate) in judged
        ]

    def __repr__(self) -> str:
        lines = [f"  {name:<28} {value!r}{whom and f' for {whom}'}" for name, value, whom in self._lines()]
        lines += self._judged()
        worst = self.worst_slice
        if worst is not None and worst.is_shown:
            lines.append(f"  {'worst slice':<28} {worst.describe()}")
        advice = self.advice()
        more = [*self.remarks, *([advice] if advice else [])]
        return "\n".join([self._title(), *lines, *(f"  {sentence}" for sentence in more)])


def about_unknown(
    counts: Mapping[Any, int], classes: Iterable[Any], then: str = "No set can hold {them}."
) -> tuple[str, ...]:
    """Say how many rows have labels that are no class, which labels these are, and what follows from it."""
    known = set(classes)
    unknown = {label: count for label, count in counts.items() if label not in known}
    if not unknown:
        return ()
    rows, first = sum(unknown.values()), list(unknown)[:5]
    named = ", ".join("missing" if label is None else repr(label) for label in first)
    more = f" and {len(unknown) - len(first)} others" if len(unknown) > len(first) else ""
    verb, them = ("is", "it") if rows == 1 else ("are", "them")
    said = f"{rows:,} of {sum(counts.values()):,} labels {verb} unknown to the model: {named}{more}."
    return (f"{said} {then.format(them=them)}",)


def rows_of_labels(by_label: dict[Any, Estimate] | None) -> dict[Any, int]:
    """Return how many rows have each label."""
    return {label: estimate.n for label, estimate in (by_label or {}).items()}


def _behind(value: Estimate) -> str:
    """Return the rows behind a number."""
    return f"{value.n}" if value.count is None else f"{value.count} of {value.n}"


_MOST_JUDGED = 12  # labels or groups that are printed one by one


def _shown(alpha: float | dict[Any, float]) -> str:
    return f"{alpha:g}" if isinstance(alpha, float) else repr(alpha)


def check_judged(alpha: Any, labels: Any, groups: Any, p_values: Any) -> tuple[float | dict[Any, float] | None, Any]:
    """Return the level, and that of labels alone: levels of groups say nothing about labels."""
    if not isinstance(alpha, Mapping):
        return None if alpha is None else float(validate.alpha(alpha)), alpha
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
    labels: ArrayLike | None = None,
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
    clusters: Any = None,
    votes: Any = None,
    extra_metrics: str | Sequence[str] = (),
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
        What the model said: to be shown beside the p-values, and to say whether the model is better than asked for.
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
    extra_metrics : str or sequence of str, optional
        Metrics that are measured on request only, since they fit a model: "coverage_unevenness", which needs ``X`` and
        ``alpha`` (:func:`coverage_unevenness`).

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
    _check_votes_alone(votes, X=X, p_values=p_values, clusters=clusters, probabilities=probabilities)
    checked = PredictionSets.of(sets, classes)
    level, of_labels = check_judged(alpha, checked.classes if labels is None else labels, groups, p_values)
    if groups is not None:
        check_length(as_group_list(groups) or groups, len(checked), "groups")
    check_needs_p_values(p_values, n=n, allow_empty=allow_empty)
    rows = None
    if p_values is not None and not isinstance(level, dict):
        rows = EvaluationRows.of(checked, labels, p_values, probabilities, groups, X, level, n, allow_empty)
    model = None
    if probabilities is not None:
        chances = check_matrix(probabilities, (len(checked), len(checked.classes)), "probabilities")
        model = words_of_model(checked, labels, chances, check_confidence(confidence))
    has_classes = classes is not None or isinstance(sets, PredictionSets)
    outcome, X, groups = _outcome(checked, labels, X, groups, clusters, votes)
    kinds, common = (
        outcome.by_kind(),
        {"alpha": of_labels, "X": X, "random_state": random_state, "confidence": confidence},
    )
    measured = {
        name: one.measure(outcome if one.needs_features or not one.streams else kinds, **common)
        for name, one in METRICS.items()
    }
    parts = {
        name: one.measure(outcome if one.by == "group" else kinds, groups, confidence)
        for name, one in BREAKDOWNS.items()
    }
    if extra_metrics and isinstance(level, dict) and of_labels is None:  # levels of groups: one for each row
        levels = [level[hashable(group)] for group in as_group_list(groups) or []]
        common = {**common, "alpha": np.array(levels)}
    overall = measured | measure_extra(extra_metrics, outcome, **common)
    return Evaluation(
        overall=overall,
        parts=parts,
        alpha=level,
        n=len(checked),
        evidence=rows,
        confidence=check_confidence(confidence),
        remarks=about_unknown(rows_of_labels(parts["by_label"]), checked.classes.tolist()) if has_classes else (),
        model=model,
        n_calibration=n,
        over_clusters=None if outcome.clusters is None else partial(_broken_down, outcome, groups),
    )


def measure_extra(extra_metrics: Any, outcome: Outcome, **others: Any) -> dict[str, Measured | None]:
    """Return the metrics that were asked for by name; ``others`` are what functions may take."""
    chosen = check_extra(extra_metrics)
    if chosen and others.get("X") is None:
        raise ValueError(f"extra_metrics must come with X, the features of the rows; {next(iter(chosen))} needs them.")
    return {name: metric.measure(outcome, **others) for name, metric in chosen.items()}


def with_extra(evaluation: Evaluation, extra_metrics: Any, random_state: Any) -> Evaluation:
    """Return an evaluation that knows its rows with more metrics of them."""
    rows = evaluation.evidence
    if not extra_metrics or rows is None:
        return evaluation
    others = {"X": rows.X, "alpha": evaluation.one_level, "confidence": evaluation.confidence}
    more = measure_extra(extra_metrics, Outcome.of(rows.sets, rows.labels), **others, random_state=random_state)
    return replace(evaluation, overall=evaluation.overall | more)


def _broken_down(outcome: Outcome, groups: Any, name: str, confidence: float) -> dict[Any, Estimate] | None:
    """Return the numbers of a break-down at another confidence."""
    return BREAKDOWNS[name].measure(outcome, groups, confidence)


def _check_votes_alone(votes: Any, **others: Any) -> None:
    """Refuse what goes by the one label of a row where several answers came."""
    given = [name for name, value in others.items() if value is not None]
    if votes is not None and given:
        raise ValueError(f"{given[0]} must be left out where votes are passed: a row has no one label then.")


def _outcome(
    sets: PredictionSets, labels: Any, X: Any, groups: Any, clusters: Any, votes: Any
) -> tuple[Outcome, Any, Any]:
    """Return what sets did with the true labels, or with all answers; X and groups as they go with it."""
    if votes is not None:
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
