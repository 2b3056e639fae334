"""What sets are worth, of rows at hand or of rows that go by: both are counted, and the same tables read the counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.core import validate
from aptset.core.groupings import Overlapping
from aptset.core.labels import as_labels, as_objects, check_length, distinct, hashable
from aptset.core.levels import levels_of_mapping
from aptset.core.row_groups import check_clusters, check_votes, plural, refuse_votes_and_labels
from aptset.core.tables import without_column
from aptset.metrics import BREAKDOWNS, METRICS, Measured, check_extra
from aptset.metrics.coverages import levels_by_name
from aptset.metrics.estimates import Estimate, check_confidence
from aptset.metrics.evaluation import Evaluation, about_unknown, rows_of_labels
from aptset.metrics.evaluation_rows import EvaluationRows, as_group_list, check_matrix, words_of_model
from aptset.metrics.outcome import Outcome, RowClusters


def _given(**arguments: Any) -> list[str]:
    """Return the names of the arguments that were passed."""
    return [name for name, value in arguments.items() if value is not None]


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
    of_one_label = _given(X=X, p_values=p_values, clusters=clusters, probabilities=probabilities)
    if votes is not None and of_one_label:
        raise ValueError(f"{of_one_label[0]} must be left out where votes are passed: a row has no one label then.")
    checked = PredictionSets.of(sets, classes)
    level, of_labels = check_judged(alpha, checked.classes if labels is None else labels, groups, p_values)
    if groups is not None:
        check_length(as_group_list(groups) or groups, len(checked), "groups")
    of_p_values = _given(n=n, allow_empty=allow_empty)
    if p_values is None and of_p_values:
        raise ValueError(f"p_values must be given with {of_p_values[0]}, which says how they came about; got none.")
    rows = model = None
    if p_values is not None and not isinstance(level, dict):
        rows = EvaluationRows.of(checked, labels, p_values, probabilities, groups, X, level, n, allow_empty)
    sure = check_confidence(confidence)
    if probabilities is not None:
        chances = check_matrix(probabilities, (len(checked), len(checked.classes)), "probabilities")
        model = words_of_model(checked, labels, chances, sure)
    outcome, X, groups = _outcome(checked, labels, X, groups, clusters, votes)
    others = {"alpha": of_labels, "X": X, "random_state": random_state, "confidence": sure}
    overall, parts = _measured(outcome.by_kind(), outcome, groups, **others)
    if extra_metrics and isinstance(level, dict) and of_labels is None:  # levels of groups: one for each row
        others["alpha"] = np.array([level[hashable(group)] for group in as_group_list(groups) or []])
    has_classes = classes is not None or isinstance(sets, PredictionSets)
    return Evaluation(
        overall=overall | measure_extra(extra_metrics, outcome, **others),
        parts=parts,
        alpha=level,
        n=len(checked),
        evidence=rows,
        confidence=sure,
        remarks=about_unknown(rows_of_labels(parts["by_label"]), checked.classes.tolist()) if has_classes else (),
        model=model,
        n_calibration=n,
        over_clusters=None if outcome.clusters is None else partial(_broken_down, outcome, groups),
    )


def _measured(
    counted: Outcome, rows: Outcome, groups: Any, confidence: float, **others: Any
) -> tuple[dict[str, Measured | None], dict[str, dict[Any, Estimate] | None]]:
    """Return every number of the tables: of kinds of rows where these will do, else of the rows that groups go with."""
    overall = {
        name: metric.measure(counted if metric.of_kinds else rows, confidence=confidence, **others)
        for name, metric in METRICS.items()
    }
    parts = {
        name: one.measure(counted if one.streams and one.by != "group" else rows, groups, confidence)
        for name, one in BREAKDOWNS.items()
    }
    return overall, parts


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


def _broken_down(outcome: Outcome, groups: Any, name: str, confidence: float) -> dict[Any, Estimate] | None:
    """Return the numbers of a break-down at another confidence."""
    return BREAKDOWNS[name].measure(outcome, groups, confidence)


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


class Codes(NamedTuple):
    """Values of rows as positions in a short list of them."""

    of_rows: NDArray[np.intp]
    names: list[Any]


class RowCounts:
    """How many rows each (value, size, covered) has, however many rows have gone by."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}  # of the values, in order of first appearance
        self._keys, self._times = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._waiting: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []

    @property
    def values(self) -> list[Any]:
        """The values that came, in order of first appearance."""
        return list(self._places)

    def add(self, codes: Codes, sizes: NDArray[np.int64], covered: NDArray[np.bool_]) -> None:
        """Count more rows: the value of each, the size of its set, and whether the set holds the true label."""
        if not len(sizes):
            return
        kinds = 2 * (int(sizes.max()) + 1)
        keys, times = _counted(codes.of_rows * kinds + (2 * sizes + covered), kinds * len(codes.names))
        first_row = np.full(len(codes.names), len(sizes))
        first_row[codes.of_rows[::-1]] = np.arange(len(sizes))[::-1]  # of several numbers the last one stays
        places = np.zeros(len(codes.names), dtype=np.int64)
        for code in np.argsort(first_row, kind="stable")[: np.count_nonzero(first_row < len(sizes))].tolist():
            places[code] = self._places.setdefault(codes.names[code], len(self._places))
        self._waiting.append((places[keys // kinds] * _KINDS + keys % kinds, times))
        if sum(len(keys) for keys, _ in self._waiting) > _LONG + len(self._keys):
            self._join()

    def outcome(self, most: int) -> tuple[Outcome, NDArray[Any]]:
        """Return what metrics look at, an entry for each (value, size, covered), and the value of each entry."""
        self._join()
        kinds = self._keys % _KINDS
        values = as_objects(self.values)[self._keys // _KINDS]
        return Outcome(kinds // 2, kinds % 2 == 1, most, labels=values, times=self._times), values

    def _join(self) -> None:
        """Make one entry of those that are alike."""
        pieces = [(self._keys, self._times), *self._waiting]
        keys, times = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
        self._keys, number = np.unique(keys, return_inverse=True)
        self._times, self._waiting = np.zeros(len(self._keys), dtype=np.int64), []
        np.add.at(self._times, number, times)


_KINDS = 2**32  # more than any size has, covered or not
_LONG = 2**20  # entries that may wait to be joined


def _counted(keys: NDArray[np.int64], end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys that come, upward, and how often each does; all are below the end."""
    if end > 16 * len(keys):
        return np.unique(keys, return_counts=True)
    times = np.bincount(keys)
    present = np.flatnonzero(times)
    return present, times[present]


@dataclass
class RunningSums:
    """What an evaluation needs to know of all rows that have gone by: counts, which the table of metrics reads."""

    by_label: RowCounts = field(default_factory=RowCounts)
    by_group: RowCounts | None = None
    members: set[Any] = field(default_factory=set)

    def add(
        self,
        sizes: NDArray[np.int64],
        covered: NDArray[np.bool_],
        members: set[Any],
        labels: Codes,
        groups: Codes | None,
    ) -> None:
        """Take in some rows: their sets' sizes, whether they cover, what they hold, true labels, and groups if any."""
        self.members |= members
        self.by_label.add(labels, sizes, covered)
        if groups is not None:
            self.by_group = self.by_group or RowCounts()
            self.by_group.add(groups, sizes, covered)

    def evaluation(
        self, alpha: Any = None, confidence: float = 0.95, classes: Iterable[Any] | None = None
    ) -> Evaluation:
        """Return what :func:`aptset.evaluate` says of the same rows at once; ``classes`` are those of the model."""
        sure = check_confidence(confidence)
        most = len(self.members.union(self.by_label.values))  # every label that came, in a set or as the truth
        outcome, _ = self.by_label.outcome(most)
        within, groups = (outcome, None) if self.by_group is None else self.by_group.outcome(most)
        level, alpha = check_judged(alpha, outcome.labels, groups, None)
        overall, parts = _measured(outcome, within, groups, sure, alpha=alpha)
        remarks = () if classes is None else about_unknown(rows_of_labels(parts["by_label"]), classes)
        return Evaluation(overall, parts, level, outcome.n, confidence=sure, remarks=remarks)
