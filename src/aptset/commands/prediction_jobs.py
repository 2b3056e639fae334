"""What ``aptset predict`` does with the folder of a run: raw rows in, sets out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from aptset.commands.checks import check_columns
from aptset.commands.columns import Plan
from aptset.commands.new_rows import NewRows, NewTable
from aptset.commands.probability_jobs import beside_the_user
from aptset.commands.reading import as_texts
from aptset.commands.tables import TableRows
from aptset.commands.training_checks import check_target
from aptset.commands.writer import SetsWriter
from aptset.data.labels import as_objects
from aptset.estimator.folders import check_table
from aptset.estimator.loading import load_folder
from aptset.estimator.pieces import SetsOfPieces
from aptset.running.progress import counting


def predict_rows(
    path: Path,
    folder: Path,
    alphas: Sequence[float] | None,
    out: Path,
    row_id: str | None,
    groups: str | None,
    trust: Sequence[str],
    batch_rows: int,
    progress: bool,
    u: Literal["fresh"] | None = None,
) -> dict[str, Any]:
    """Write the sets of raw rows, piece by piece; all their columns travel along."""
    classifier, facts = load_run(folder, trust)
    return predict_table(NewTable.of(path, facts, row_id, groups), classifier, alphas, out, batch_rows, progress, u)


def load_run(folder: Path, trust: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the classifier of a folder, and what it says about tables."""
    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    return classifier, check_table(folder, facts)


def predict_table(
    table: NewTable,
    classifier: Any,
    alphas: Sequence[float] | None,
    out: Path,
    batch_rows: int,
    progress: bool,
    u: Literal["fresh"] | None = None,
) -> dict[str, Any]:
    """Write the sets of the rows of a file; fresh u takes the place of ids."""
    levels = [classifier.alpha] if alphas is None else list(alphas)
    names = [str(name) for name in classifier.classes_.tolist()]
    pieces, labels, empty = SetsOfPieces(classifier, levels, table.rows), 0, 0
    with SetsWriter(out, table.names, names, levels) as writer, counting(table.rows, "rows", progress) as count:
        for some in table.pieces(batch_rows):
            sets = pieces.of(some.features, some.groups, some.ids if u is None else None, u)
            writer.write(some.others, sets)
            labels, empty = labels + len(sets[0].indices), empty + int((sets[0].sizes == 0).sum())
            count(len(sets[0]))
        pieces.finish()
    mean = labels / pieces.rows
    done = {"rows": pieces.rows, "alpha": levels[0], "mean_size": mean, "empty": empty, "out": str(out)}
    return {**done, "columns": writer.names}


def labelled_rows(path: Path, folder: Path, trust: Sequence[str]) -> tuple[Any, TableRows, NewRows]:
    """Return the classifier of a folder, and rows of a file with their labels, in two forms."""
    classifier, table = load_run(folder, trust)
    new = NewTable.of(path, table).whole()
    target = table["target"]
    check_columns(path, target in new.others, f"the labels, in a column {target!r}", list(new.others), [target])
    labels = as_texts(new.others[target])
    check_target(path, target, labels)
    return classifier, TableRows(Plan.of_json(table["columns"]), new.features, as_objects(labels), new.groups), new
