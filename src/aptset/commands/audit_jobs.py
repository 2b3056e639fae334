"""What ``aptset audit`` and ``aptset compare`` do: from a table to verdicts, a page, and numbers on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aptset.audits.auditing import Audit, audit
from aptset.audits.comparing import Comparison, compare
from aptset.commands.models import make_model, takes_raw_columns
from aptset.commands.reading import read_table
from aptset.commands.tables import Choice, model_for, read_rows
from aptset.reports.render import need_jinja
from aptset.running.writing import atomic_path
from aptset.validation.paths import check_other_files


def audit_table(
    path: Path,
    target: str,
    model: str,
    calibrations: tuple[str, ...],
    groups: str | None,
    time: str | None,
    out: Path,
    choice: Choice,
    trust: Sequence[str],
    **settings: Any,
) -> tuple[Audit, list[str]]:
    """Audit a model on a table; return what was found, and the names of the files that were written."""
    need_jinja()  # now, not after all splits
    check_other_files([out / "audit.html", out / "splits.csv"], [path])
    estimator = make_model(model, trust)
    raw = takes_raw_columns(estimator)
    rows = read_rows(path, target, groups, time, may_be_label=False, choice=choice, raw=raw)
    times = None if time is None else read_table(path)[time].to_pylist()
    found = audit(
        model_for(rows.plan, estimator),
        rows.features,
        rows.labels,
        calibrations=list(calibrations),
        groups=rows.groups,
        features=rows.sliceable(),
        time=times,
        folder=out / "splits",
        **settings,
    )
    found.report(out / "audit.html", f"{path.name}: is the promise kept?")
    return found, ["audit.html", *_write_splits(found, out)]


def compare_table(
    path: Path,
    target: str,
    models: tuple[str, ...],
    calibration: str,
    groups: str | None,
    out: Path,
    choice: Choice,
    trust: Sequence[str],
    **settings: Any,
) -> tuple[Comparison, list[str]]:
    """Compare models on a table; return what was found, and the names of the files that were written."""
    need_jinja()
    check_other_files([out / "compare.html", out / "splits.csv"], [path])
    made = {name: make_model(name, trust) for name in models}
    raw = any(map(takes_raw_columns, made.values()))
    rows = read_rows(path, target, groups, may_be_label=False, choice=choice, raw=raw)
    candidates = {name: model_for(rows.plan, model) for name, model in made.items()}
    settings |= {"calibration": calibration, "features": rows.sliceable()}
    found = compare(candidates, rows.features, rows.labels, groups=rows.groups, folder=out / "splits", **settings)
    found.report(out / "compare.html", f"{path.name}: which model has the better sets?")
    return found, ["compare.html", *_write_splits(found, out)]


def _write_splits(found: Audit | Comparison, out: Path) -> list[str]:
    """Write one line for each candidate and split."""
    import pandas as pd

    with atomic_path(out / "splits.csv") as path:
        pd.DataFrame(found.splits.columns()).to_csv(path, index=False)
    return ["splits.csv"]


def verdicts_as_json(found: Audit | Comparison) -> dict[str, Any]:
    """Return the verdicts as plain values."""
    return {name: verdict.as_json() for name, verdict in found.verdicts.items()}
