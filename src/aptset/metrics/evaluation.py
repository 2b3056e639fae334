"""Everything about a collection of sets in one frozen value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from aptset.core import validate
from aptset.core.labels import hashable
from aptset.core.tables import Backend, Display, bars_of, html_table, make_table
from aptset.metrics import BREAKDOWNS, METRICS, ON_REQUEST, Measured, Metric, as_estimate
from aptset.metrics.coverages import coverage_to_reach
from aptset.metrics.estimates import Estimate, percent, share_of_count
from aptset.metrics.evaluation_rows import EvaluationRows, ModelWords, coverage_curve
from aptset.metrics.worst_slice import WorstSlice

_MOST_JUDGED = 12  # labels or groups that are printed one by one
# What a figure is drawn from that an evaluation may lack.
_NEEDS = {
    "curve": "p_values: pass p_values=classifier.p_values(X) to evaluate",
    "reliability": "probabilities: pass probabilities=classifier.predict_proba(X) to evaluate",
    **{name: "groups: pass groups=... to evaluate" for name, one in BREAKDOWNS.items() if one.by == "group"},
}


# What is said where the model is right more often than was asked for: the promise is then kept by empty sets. The
# page's script fills in the same sentences.
BETTER_THAN_ASKED: dict[str, str] = {
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
        metrics, by, groups, estimates = (list(column) for column in zip(*self.rows(), strict=True))
        columns = {"metric": metrics, "by": by, "group": groups, "value": list(map(float, estimates))}
        for name in ("low", "high", "n", "count", *(["standard_error"] if self.over_clusters is not None else [])):
            columns[name] = [getattr(estimate, name) for estimate in estimates]
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
        known += [name for name, is_known in can.items() if is_known]
        if isinstance(kind, str) and kind not in known and kind in _NEEDS:
            raise ValueError(f"kind {kind!r} needs {_NEEDS[kind]}. Without it there are {', '.join(known)}.")
        validate.one_of(kind, tuple(known), "kind")
        if kind == "curve" and self.evidence is not None:
            columns = coverage_curve(self.evidence)
            nominal = columns["nominal"].tolist()
            return Display(columns, "line", "Coverage against level", "1 - alpha", "coverage", diagonal=nominal)
        one = BREAKDOWNS["by_size" if kind == "reliability" else kind]
        marks = [1 - self.alpha] if one.words == "coverage" and isinstance(self.alpha, float) else []
        shown = bars_of(self.parts[one.name] or {}, one.words, one.by, marks)
        if kind != "reliability" or self.model is None:
            return shown
        claimed = {"probability by the model": [self.model.claimed[size] for size in self.by_size]}
        columns, title = {**shown.columns, **claimed}, "Reliability of set sizes"
        return replace(shown, columns=columns, title=title, points="probability by the model")

    def advice(self) -> str:
        """Return one line where the model is better than asked for, so that sets come out empty; else nothing."""
        empty = self.overall.get("empty_rate")
        if not isinstance(self.alpha, float) or not isinstance(empty, Estimate) or not empty.count:
            return ""
        facts = {"asked": f"{100 * (1 - self.alpha):.4g} %", "empty": percent(empty, self.n)}
        if self.model is None:
            return self._seems_better(self.alpha, empty.count, facts)
        right = self.model.accuracy
        if right.n - (right.count or 0) >= self.alpha * right.n * (1 - 1e-12):  # as many wrong guesses as sets may miss
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
        return f"labels below {coverage_to_reach(None, None):g}" if is_assumed else metric.words

    def _title(self) -> str:
        alpha = f"{self.alpha:g}" if isinstance(self.alpha, float) else repr(self.alpha)
        return f"Evaluation of {self.n} prediction sets{'' if self.alpha is None else f' at alpha={alpha}'}"

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
        rows = []
        for name, value, whom in self._lines():
            behind = f"{value.n}" if value.count is None else f"{value.count} of {value.n}"
            rows.append((name, f"{float(value):.4g}", f"{value.low:.4g} to {value.high:.4g}", behind, whom))
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


def about_new_labels(labels: Iterable[Any], classes: Iterable[Any], is_frozen: bool = False) -> tuple[str, ...]:
    """Say how many labels a fitted classifier does not know; unless it is frozen, every split fits it anew."""
    then = (
        "The model gives {them} no probability." if is_frozen else "Each split fits the model anew, on such rows, too."
    )
    return about_unknown(Counter(labels), classes, then=then)


def rows_of_labels(by_label: dict[Any, Estimate] | None) -> dict[Any, int]:
    """Return how many rows have each label."""
    return {label: estimate.n for label, estimate in (by_label or {}).items()}
