"""What ``aptset report`` does: from a table, or from probabilities and an artefact, to a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aptset.arrow.formats import TableFile
from aptset.calibration.calibration import Calibration
from aptset.cli.demo import demo_classifier
from aptset.cli.files import ProbabilityFile
from aptset.cli.prediction_jobs import labelled_rows
from aptset.cli.probability_jobs import all_rows, check_weights_wanted, labelled_batches
from aptset.cli.table_jobs import Settings, TableResult, run_table
from aptset.core.progress import counting
from aptset.reports.making import Report, report
from aptset.reports.render import need_jinja


def report_table(
    file: TableFile, target: str, out: Path, title: str | None, settings: Settings
) -> tuple[Report, TableResult]:
    """Train and calibrate on 70 % of a table, and write the page about the others."""
    need_jinja()
    result = run_table(file, target, settings)
    title = title or f"{file.path.name}: prediction sets for {target}"
    groups = None if result.rows.groups is None else result.rows.groups[result.test]
    of_rows: dict[str, Any] = {"groups": groups, "ids": result.ids, "features": result.rows.sliceable(result.test)}
    X = result.rows.features.iloc[result.test]
    made = report(result.classifier, X, result.truth, out, title=title, progress=settings.progress, **of_rows)
    return made, result


def report_folder(
    file: TableFile,
    folder: Path,
    alpha: float | None,
    out: Path,
    title: str | None,
    trust: Sequence[str],
    progress: bool,
) -> Report:
    """Write the page about labelled rows and the classifier that a run saved."""
    need_jinja()
    classifier, rows, new = labelled_rows(file, folder, trust)
    title = title or f"{file.path.name}: prediction sets by {folder.name}"
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
    checked = (check_weights_wanted(source, calibration) for source in sources)
    with counting(total, "rows", progress) as on_rows:
        matrices, of_rows, _, logits = all_rows(labelled_batches(checked, names), on_rows)
    truth = calibration.classes[[names.index(str(label)) for label in of_rows.pop("labels")]]
    of_rows |= {"normalize": normalize or None, "logits": logits, "alpha": alpha, "progress": progress}
    of_rows["title"] = title or f"{called}: what the prediction sets are worth"
    return report(calibration, np.concatenate(matrices), truth, out, **of_rows)


def report_demo(alpha: float, seed: int, out: Path, title: str | None, progress: bool) -> Report:
    """Write the page about the handwritten digits that ship with scikit-learn."""
    classifier, X, y, features, groups = demo_classifier(alpha, seed)
    title = title or "Handwritten digits: what the prediction sets are worth"
    return report(classifier, X, y, out, groups=groups, features=features, title=title, progress=progress)
