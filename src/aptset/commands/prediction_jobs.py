"""What ``aptset predict`` does with the folder of a run: raw rows in, sets out."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aptset.commands.checks import (
    check_columns,
    check_target,
)
from aptset.commands.columns import Plan
from aptset.commands.probability_jobs import beside_the_user
from aptset.commands.reading import as_texts
from aptset.commands.tables import NewRows, TableRows, read_new_rows
from aptset.commands.writer import SetsWriter
from aptset.estimator.folders import check_table
from aptset.estimator.loading import load_folder
from aptset.labels import as_objects


def predict_rows(
    path: Path,
    folder: Path,
    alphas: Sequence[float] | None,
    out: Path,
    row_id: str | None,
    groups: str | None,
    trust: Sequence[str],
) -> dict[str, Any]:
    """Write the sets of raw rows; all their columns travel along."""
    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    rows = read_new_rows(path, check_table(folder, facts), row_id, groups)
    levels = [classifier.alpha] if alphas is None else list(alphas)
    names = [str(name) for name in classifier.classes_.tolist()]
    with SetsWriter(out, list(rows.others), names, levels) as writer:
        sets = classifier.predict_set(rows.features, levels, groups=rows.groups, ids=rows.ids)
        writer.write(rows.others, sets, levels)
    first = sets[0]
    empty, mean = int((first.sizes == 0).sum()), float(first.sizes.mean())
    return {"rows": len(first), "alpha": levels[0], "mean_size": mean, "empty": empty, "out": str(out)}


def labelled_rows(path: Path, folder: Path, trust: Sequence[str]) -> tuple[Any, TableRows, NewRows]:
    """Return the classifier of a folder, and rows of a file with their labels, in two forms."""
    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    table = check_table(folder, facts)
    new = read_new_rows(path, table, None, None)
    target = table["target"]
    check_columns(path, target in new.others, f"the labels, in a column {target!r}", list(new.others))
    labels = as_texts(new.others[target])
    check_target(path, target, labels)
    return classifier, TableRows(Plan.of_json(table["columns"]), new.features, as_objects(labels), new.groups), new


@contextmanager
def to_standard_output(out: str) -> Iterator[Path]:
    """Give the path to write to; for - a temporary CSV, which goes to standard output when all went well."""
    if out != "-":
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="aptset-out-") as folder:
        path = Path(folder) / "sets.csv"
        yield path
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
