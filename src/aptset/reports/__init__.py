"""The report: its numbers and words are made here, as plain values; ``making`` draws one HTML file that works offline.

Nothing here knows HTML.
"""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset import CoverageMonitor, Estimate, Evaluation, Taxonomy, Unevenness, WorstSlice
from aptset.core import validate
from aptset.core.tables import is_table, iterate_columns, names_of_columns
from aptset.metrics import Metric
from aptset.metrics.coverage_distribution import FALSE_ALARMS, FEW_POINTS
from aptset.metrics.evaluation import level_that_fits
from aptset.metrics.evaluation_rows import LEVELS, EvaluationRows, Origin, coverage_curve
from aptset.metrics.monitor_checks import rows_to_monitor
from aptset.reports import measures, words
from aptset.reports.measures import pack
from aptset.reports.words import laws_of_parts

MOST_LABELS = 30
_MOST_FEATURES = 8
_MOST_TEXT = 120


def choose_examples(
    evidence: EvaluationRows, alpha: float, count: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return at most ``count`` rows: an equal part of each kind (empty, one label, large, missed, other) at random."""
    sizes, covered = evidence.sets.sizes, evidence.covered_at(alpha)
    large = sizes > max(1, 2 * sizes.mean())
    kinds = [~covered & (sizes > 0), sizes == 0, (sizes == 1) & covered, large & covered]
    chosen: list[int] = []
    for kind in kinds:
        rows = generator.permutation(np.flatnonzero(kind))[: count // 5]
        chosen.extend(rows.tolist())
    rest = np.setdiff1d(np.arange(len(sizes)), chosen)
    chosen.extend(generator.permutation(rest)[: max(0, count - len(chosen))].tolist())
    return np.sort(np.array(chosen, dtype=np.intp))


def describe_examples(
    evidence: EvaluationRows, rows: NDArray[np.intp], ids: list[Any] | None = None
) -> list[dict[str, Any]]:
    """Return for each row its number, true label, group, features in words, and its labels with both bars."""
    texts = _texts(evidence.X, rows)
    return [
        {
            "row": int(row),
            "id": None if ids is None else str(ids[row]),
            "truth": str(evidence.labels[row]),
            "truth_p": float(evidence.p_of_truth[row]),
            "column": int(evidence.columns[row]),
            "group": None if evidence.groups is None else str(evidence.groups[row]),
            "text": texts[number],
            **_labels(evidence, int(row)),
        }
        for number, row in enumerate(rows.tolist())
    ]


def _labels(evidence: EvaluationRows, row: int) -> dict[str, Any]:
    """Return the labels with the largest p-values, most likely first."""
    p_values = evidence.p_values[row]
    likely = p_values if evidence.probabilities is None else evidence.probabilities[row].astype(np.float64)
    order = np.lexsort((-likely, -p_values))[:MOST_LABELS]
    order = order[np.lexsort((-p_values[order], -likely[order]))]
    columns: dict[str, Any] = {"labels": order.tolist(), "p": p_values[order].tolist()}
    if evidence.probabilities is not None:
        columns["probability"] = [float(f"{value:.4g}") for value in likely[order]]
    if evidence.most_likely is not None:
        columns["most_likely"] = int(evidence.most_likely[row])
    return columns


def _texts(X: Any, rows: NDArray[np.intp]) -> list[str]:
    """Return a few features of each row in words: columns of a table or a narrow array, or the row itself if a text."""
    if is_table(X):
        names = [str(name) for name in names_of_columns(X)][:_MOST_FEATURES]
        columns: list[Any] = [column for column, _ in zip(iterate_columns(X), names, strict=False)]
    elif getattr(X, "ndim", 1) == 2 and X.shape[1] <= _MOST_FEATURES and not hasattr(X, "tocsr"):
        names, columns = [f"x{j}" for j in range(X.shape[1])], list(np.asarray(X).T)
    elif isinstance(X, list | tuple | np.ndarray) and all(isinstance(X[row], str) for row in rows.tolist()):
        return [_short(X[row]) for row in rows.tolist()]
    else:
        return [""] * len(rows)
    return [
        ", ".join(f"{name} = {_short(column[row])}" for name, column in zip(names, columns, strict=True))
        for row in rows.tolist()
    ]


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def slice_in_words(worst: WorstSlice | None) -> dict[str, Any] | None:
    """Return the share of the rows in the slice, a sentence for each column that weighs most, and what was left out."""
    if worst is None or not worst.is_shown:
        return None
    return {
        "share": f"{100 * worst.share:.3g} %",
        "features": list(worst.sentences),
        "worse": worst.is_worse_than_chance,
        "left_out": ", ".join(worst.left_out),
    }


def along_the_rows(evidence: EvaluationRows, alpha: float) -> str | None:
    """Return its evidence on the rows in their order; None if their misses follow no urn, or none can be."""
    of_row = evidence.origin.group_of_row
    if of_row is None:
        return None
    sizes = np.array(evidence.origin.group_sizes)
    judged = (of_row >= 0) & (sizes[of_row] >= rows_to_monitor(alpha))
    if not judged.any():
        return None
    seen = {group: int(sizes[group]) for group in np.unique(of_row[judged]).tolist()}
    monitor = CoverageMonitor(seen, alpha).update(evidence.covered_at(alpha)[judged], of_row[judged])
    return f"{monitor.evidence_in_words()} ({monitor.alarm:g} would be an alarm)"


# Levels of the slider where p-values are too many to travel: every half percent, finer at the small end.
FEW_ALPHAS = [0.001, 0.002, 0.003, 0.004, *(float(level) for level in LEVELS)]


@dataclass(frozen=True)
class Summary:
    """All that is drawn: ``page`` is what the template shows at once, ``data`` what the script works with."""

    page: dict[str, Any]
    data: dict[str, Any]


def check_reportable(evaluation: Any) -> Any:
    """Return the rows of an evaluation that a report can be made of."""
    if evaluation.evidence is None:
        raise ValueError(
            "evaluation must know the p-values; this one holds sets only. Pass p_values=classifier.p_values(X) to "
            "evaluate, or the classifier itself: aptset.report(classifier, X, y)."
        )
    if evaluation.n == 0:
        raise ValueError("evaluation must have at least one row; got none.")
    return evaluation.evidence


def summarise(
    evaluation: Evaluation,
    title: str,
    n_examples: int,
    random_state: Any,
    deciding: dict[str, Any] | None = None,
    ids: list[Any] | None = None,
    taxonomy: Taxonomy | None = None,
) -> Summary:
    """Return what a report on an evaluation says; ``deciding`` is what it says about acting on guesses."""
    evidence: EvaluationRows = check_reportable(evaluation)
    alpha = evaluation.one_level  # evidence is there only with a level
    shown = choose_examples(evidence, alpha, n_examples, validate.generator(random_state))
    parts = {"label": measures.Partition.of(evidence.labels.tolist())}
    if evidence.groups is not None:
        parts["group"] = measures.Partition.of(evidence.groups)
    needed: dict[str, measures.Partition] = {}
    if evidence.needed is not None:
        names, of_row = np.unique(evidence.needed.of_row, return_inverse=True)
        needed["needed"] = measures.Partition(names.tolist(), of_row.astype(np.int64))
    measured = _measured(evidence, needed | parts, evaluation.worst_slice, alpha, shown)
    columns = dict(measured.columns)
    if evidence.origin.folds is not None:
        every = [group.below for fold in evidence.origin.folds for group in fold]
        columns["folds"] = pack(np.concatenate([np.zeros(0, dtype=np.int64), *every]))
    rows = describe_examples(evidence, shown, ids)
    if measured.position is not None:
        rows = [{**row, "position": int(measured.position[row["row"]])} for row in rows]
    mode = "rows" if measured.is_whole else "levels"
    data = {"mode": mode, "columns": columns, "alphas": measured.alphas, **_facts(evaluation, evidence, parts)}
    data["examples"] = rows
    data["needed"] = needed["needed"].names if needed else None
    data["tree"] = None if taxonomy is None else _tree(taxonomy, evidence.sets.classes)
    page = _page(evaluation, evidence, title, data, parts)
    if taxonomy is not None:
        page["settings"] |= {"Tree of labels": repr(taxonomy).removeprefix("Taxonomy(").removesuffix(")")}
    return Summary({**page, "deciding": deciding}, data)


def _tree(taxonomy: Taxonomy, classes: NDArray[Any]) -> dict[str, Any]:
    """Return what the page needs to write a set with whole nodes, at any level."""
    tree = taxonomy.tree_of(classes)
    numbers = {name: getattr(tree, name).tolist() for name in ("parent", "size", "of_class", "lowest")}
    return {"names": [str(name) for name in tree.names], **numbers}


def _facts(evaluation: Evaluation, evidence: EvaluationRows, parts: dict[str, measures.Partition]) -> dict[str, Any]:
    """Return all but the rows: names, the law, the sentences, the curve."""
    origin = evidence.origin
    return {
        "alpha": evaluation.one_level,
        "rows": evaluation.n,
        "classes": [str(name) for name in evidence.sets.classes.tolist()],
        "names": {name: [str(value) for value in part.names] for name, part in parts.items()},
        "n": origin.n,
        "laws": origin.laws,
        "laws_of_parts": laws_of_parts(origin, parts),
        "within": origin.within,
        "folds": _sizes_of_folds(origin),
        "is_upper_open": origin.is_upper_open,
        "losses": origin.losses,
        "right": None if evaluation.model is None else evaluation.model.accuracy.count,
        "stops": None if evaluation.model is None else level_that_fits(evaluation.model.accuracy, origin.n),
        "confidence": words.CONFIDENCE,
        "level": FALSE_ALARMS,
        "few_points": FEW_POINTS,
        "sentences": words.sentences_of(origin),
        "headlines": words.HEADLINES,
        "states": words.STATES,
        "most_parts": words.MOST_PARTS,
        "not_contradicted": words.NOT_CONTRADICTED,
        "curve": {name: values.tolist() for name, values in coverage_curve(evidence).items()},
        "slice": slice_in_words(evaluation.worst_slice) and {"rows": len(getattr(evaluation.worst_slice, "rows", ()))},
    }


def _sizes_of_folds(origin: Origin) -> list[list[tuple[int, int]]] | None:
    """Return test rows and calibration rows of each group of each fold."""
    return None if origin.folds is None else [[(group.rows, group.n) for group in fold] for fold in origin.folds]


def _measured(
    evidence: EvaluationRows,
    parts: dict[str, measures.Partition],
    worst: WorstSlice | None,
    alpha: float,
    shown: NDArray[np.intp],
) -> measures.Statistics:
    in_slice = None
    if worst is not None:
        in_slice = np.zeros(len(evidence.labels), dtype=np.bool_)
        in_slice[worst.rows] = True
    whole = measures.whole_if_it_fits(evidence, parts, in_slice)
    if whole is not None:
        return whole
    return measures.at_levels(evidence, parts, in_slice, sorted({*FEW_ALPHAS, alpha}), shown)


def _page(
    evaluation: Evaluation, evidence: EvaluationRows, title: str, data: dict[str, Any], parts: dict[str, Any]
) -> dict[str, Any]:
    alpha = evaluation.one_level
    first = words.first_words(evaluation, parts)
    settings = {"Test rows": f"{evaluation.n:,}", "Classes": f"{len(evidence.sets.classes):,}", "alpha": f"{alpha:g}"}
    monitored = along_the_rows(evidence, alpha)
    settings |= {} if monitored is None else {"Monitor along the test rows": monitored}
    return {
        "title": title,
        "made": made_by(data),
        "words": first,
        "remarks": evaluation.remarks,
        "alpha": alpha,
        "is_whole": data["mode"] == "rows",
        "n_examples": len(data["examples"]),
        "rows": evaluation.n,
        "settings": {**evidence.origin.settings, **settings},
        "has_groups": "group" in parts,
        "slice": slice_in_words(evaluation.worst_slice),
        "share_needed": None if evidence.needed is None else words.share(evidence.needed.share),
        "is_judged": evidence.origin.laws is not None,
        "has_band": "low" in data["curve"],
        "is_upper_open": evidence.origin.is_upper_open,
        "most_labels": MOST_LABELS,
        "has_more_labels": len(evidence.sets.classes) > MOST_LABELS,
        "metrics": [_line(metric, value) for metric, value in evaluation.estimates()],
    }


def made_by(data: dict[str, Any]) -> str:
    """Return which version made a page, when, and a hash of the data in it."""
    from importlib.metadata import version

    content = json.dumps(data, sort_keys=True, default=str).encode()
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC)
    return f"aptset {version('aptset')}, {when:%Y-%m-%d}, data {blake2b(content, digest_size=6).hexdigest()}"


class MetricLine(NamedTuple):
    """A metric of the table in words, at the level at which the page opens."""

    words: str
    value: str
    interval: str
    sentence: str


def _line(metric: Metric, value: Estimate) -> MetricLine:
    if math.isnan(value):
        return MetricLine(metric.words, "none", "", metric.sentence)
    written = words.number if metric.unit == "labels" else words.share
    sentence = f"{metric.sentence} Here: {value.describe()}." if isinstance(value, Unevenness) else metric.sentence
    return MetricLine(metric.words, written(value), f"{written(value.low)} to {written(value.high)}", sentence)
