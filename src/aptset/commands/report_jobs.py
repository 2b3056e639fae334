"""What ``aptset report`` does: from a table, or from probabilities and an artefact, to a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aptset.commands.demo import demo_classifier
from aptset.commands.files import ProbabilityFile
from aptset.commands.prediction_jobs import labelled_rows
from aptset.commands.probability_jobs import check_weights_wanted, labelled_batches, weights_of
from aptset.commands.reading import as_texts
from aptset.commands.table_jobs import Settings, TableResult, run_table
from aptset.data.matrix_checks import softmax_of
from aptset.probabilities.answers import NAME
from aptset.probabilities.calibration import Calibration
from aptset.reports.making import Report, report
from aptset.reports.render import need_jinja
from aptset.running.progress import counting


def report_table(
    path: Path, target: str, out: Path, title: str | None, settings: Settings
) -> tuple[Report, TableResult]:
    """Train and calibrate on 70 % of a table, and write the page about the others."""
    need_jinja()
    result = run_table(path, target, settings)
    title = title or f"{path.name}: prediction sets for {target}"
    groups = None if result.rows.groups is None else result.rows.groups[result.test]
    of_rows: dict[str, Any] = {"groups": groups, "ids": result.ids, "features": result.rows.sliceable(result.test)}
    X = result.rows.features.iloc[result.test]
    made = report(result.classifier, X, result.truth, out, title=title, progress=settings.progress, **of_rows)
    return made, result


def report_folder(
    path: Path, folder: Path, alpha: float | None, out: Path, title: str | None, trust: Sequence[str], progress: bool
) -> Report:
    """Write the page about labelled rows and the classifier that a run saved."""
    need_jinja()
    classifier, rows, new = labelled_rows(path, folder, trust)
    title = title or f"{path.name}: prediction sets by {folder.name}"
    of_rows: dict[str, Any] = {"groups": new.groups, "ids": new.ids, "features": rows.sliceable()}
    return report(classifier, new.features, rows.labels, out, alpha=alpha, title=title, progress=progress, **of_rows)


def report_probabilities(
    sources: Iterable[ProbabilityFile],
    called: str,
    total: int | None,
    calibration: Calibration,
    alpha: float,
    out: Path,
    title: str | None,
    normalize: bool,
    progress: bool,
) -> Report:
    """Write the page about a file of probabilities and true labels, with sets by a calibration."""
    names = [str(name) for name in calibration.classes.tolist()]
    parts: list[Any] = []
    labels: list[Any] = []
    groups: list[Any] = []
    ids: list[Any] = []
    weights: list[Any] = []
    with counting(total, "rows", progress) as on_rows:
        for source, batch, _ in labelled_batches(sources, names):
            check_weights_wanted(source, calibration)
            parts.append(softmax_of(batch.probabilities, NAME) if source.logits else batch.probabilities)
            labels.extend(batch.labels.in_full() if batch.labels else [])
            groups.extend(as_texts(batch.others[source.group]) if source.group else [])
            ids.extend(as_texts(batch.others[source.row_id]) if source.row_id else [])
            weights.extend([] if source.weight is None else [weights_of(source, batch)])
            on_rows(len(batch.probabilities))
    chances = np.concatenate(parts)
    if normalize or calibration.normalize:
        chances = chances / chances.sum(axis=1, keepdims=True)
    truth = calibration.classes[[names.index(str(label)) for label in labels]]
    title = title or f"{called}: what the prediction sets are worth"
    of_rows: dict[str, Any] = {"groups": groups or None, "ids": ids or None}
    of_rows["weights"] = np.concatenate(weights) if weights else None
    return report(calibration, chances, truth, out, alpha=alpha, title=title, progress=progress, **of_rows)


def report_demo(alpha: float, seed: int, out: Path, title: str | None, progress: bool) -> Report:
    """Write the page about the handwritten digits that ship with scikit-learn."""
    classifier, X, y, features, groups = demo_classifier(alpha, seed)
    title = title or "Handwritten digits: what the prediction sets are worth"
    return report(classifier, X, y, out, groups=groups, features=features, title=title, progress=progress)
