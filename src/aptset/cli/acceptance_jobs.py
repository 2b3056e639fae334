"""What ``aptset accept`` does: from rows to decisions, and what is learned for them; all rows are in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset import Acceptance, AcceptanceThreshold, learn_acceptance
from aptset.arrow.formats import TableFile
from aptset.cli.checks import check_flat_columns, check_same_classes, check_sets_file, shifted_rows
from aptset.cli.files import ProbabilityFile
from aptset.cli.probability_jobs import OnRows, all_rows, labelled_batches
from aptset.core.files import as_utf8, atomic_path
from aptset.core.store import stored_kind


def learn_files(
    sources: Iterable[ProbabilityFile], on_rows: OnRows, skipped: list[int] | None = None, **settings: Any
) -> Acceptance:
    """Learn on the rows of several files as if they stood in one; with ``skipped`` rows need no label."""
    rows, of_rows, classes, logits = all_rows(labelled_batches(sources, None, skipped), on_rows)
    labels = of_rows.pop("labels")
    of_rows.pop("weights")
    with shifted_rows(Path("the files"), 0):
        return learn_acceptance(np.concatenate(rows), labels, classes=classes, logits=logits, **of_rows, **settings)


def load_rule(path: Path) -> Acceptance:
    """Read a rule; what else the file may be is refused with the way out."""
    from aptset.calibration.stored_acceptance import load_acceptance

    kind = stored_kind(path)
    if kind not in (None, "acceptance", "acceptance_threshold"):
        raise ValueError(
            f"{path} must hold rows for decisions: a calibration does not say how confident wrong guesses were. Make "
            "it with `aptset calibrate ROWS --label COLUMN --accept -o rows.aptset`."
        )
    rule = load_acceptance(path)
    if isinstance(rule, AcceptanceThreshold):
        raise ValueError(f"{path} must hold the rows themselves; it holds one threshold. Use it in Python.")
    return rule


def accept_files(
    sources: Iterable[ProbabilityFile],
    rule: Acceptance,
    error: Any,
    assurance: float | None,
    out: Path,
    on_rows: OnRows,
    normalize: bool = False,
) -> dict[str, Any]:
    """Write which rows to act on, and the guess of each; all rows together are the batch."""
    rule = replace(rule, reading=replace(rule.reading, normalize=normalize or rule.reading.normalize))
    names = [str(name) for name in (() if rule.reading.classes is None else rule.reading.classes.tolist())]
    matrices, tables, groups, ids, logits = [], [], list[Any](), list[Any](), False
    for each in sources:
        source = each.for_classes(names)
        order = check_same_classes(source.path, source.classes(), names)
        if source.file.rows == 0:
            tables.append(pa.table({name: pa.array([], pa.null()) for name in source.other_columns()}))
        for batch in source.batches(may_be_empty=True):
            matrices.append(batch.probabilities[:, order])
            tables.append(pa.table(batch.others))
            groups += batch.groups or []
            ids += batch.ids or []
            logits = source.logits
            on_rows(len(batch.probabilities))
    matrix = np.concatenate(matrices) if matrices else np.empty((0, len(names)))
    with shifted_rows(Path("the files"), 0):
        act, promise = _decided(rule, matrix, error, assurance, groups or None, ids or None, logits)
    guess = [names[column] for column in matrix.argmax(axis=1).tolist()]
    others = pa.concat_tables(tables, promote_options="default")
    columns = dict(zip(others.column_names, others.columns, strict=True))
    write_decisions(out, columns, {"act": pa.array(act), "guess": pa.array(guess)}, names)
    return {"rows": len(act), "acted": int(act.sum()), "error": error, "assurance": assurance, "promise": promise}


def _decided(
    rule: Acceptance, matrix: NDArray[Any], error: Any, assurance: float | None, groups: Any, ids: Any, logits: bool
) -> tuple[NDArray[np.bool_], str]:
    """Return on which rows to act, and what is promised of them."""
    error = errors_by_name(error, rule.reading.groups.names)
    if not len(matrix):
        return np.empty(0, dtype=np.bool_), "There is no row."
    if assurance is not None:
        threshold = rule.threshold(error, assurance)
        return threshold.accept(matrix, groups=groups, ids=ids, logits=logits), threshold.sentence()
    if len(matrix) == 1:
        raise ValueError(
            "--assurance must be given for a file of one row, since rows are decided in batches without it. Pass "
            "--assurance 0.9, for instance."
        )
    promise = f"On average over batches at most {_shares(error)} of the rows acted on are wrong."
    return rule.accept(matrix, error, groups=groups, logits=logits), promise


def errors_by_name(error: Any, names: Iterable[Any]) -> Any:
    """Return the errors of labels or groups under the names that the rule has for them: options are texts."""
    by_text = {str(name): name for name in names}
    return {by_text.get(name, name): part for name, part in error.items()} if isinstance(error, dict) else error


def accept_rows(
    file: TableFile,
    folder: Path,
    error: Any,
    assurance: float | None,
    out: Path,
    row_id: str | None,
    groups: str | None,
    trust: tuple[str, ...],
    alpha: float | None,
) -> dict[str, Any]:
    """Write which raw rows to act on, the guess of each, and the set of those that a person is asked about."""
    from aptset.cli.prediction_jobs import NewTable, load_run  # loads scikit-learn, as models do

    classifier, facts = load_run(folder, trust)
    rows = NewTable.of(file, facts, row_id, groups).whole()
    level = 0.9 if assurance is None else assurance
    options = {"groups": rows.groups, "ids": rows.ids, "assurance": level}
    frame = classifier.act_or_ask(rows.features, errors_by_name(error, classifier.classes_.tolist()), alpha, **options)
    write_decisions(out, rows.others, columns_of_decisions(frame), [str(name) for name in classifier.classes_.tolist()])
    done = {"rows": len(frame), "acted": int(frame["act"].sum()), "error": error, "assurance": level}
    return {**done, "promise": frame.attrs["promise"]}


def columns_of_decisions(frame: Any) -> dict[str, Any]:
    """Return what was decided as columns of Arrow, labels as texts."""
    sets = [list(map(str, members)) for members in frame["set"]]
    guess = pa.array(list(map(str, frame["guess"])))
    return {"act": pa.array(frame["act"].to_numpy()), "guess": guess, "set": pa.array(sets, pa.list_(pa.string()))}


def write_decisions(path: Path, columns: dict[str, Any], made: dict[str, Any], classes: list[str]) -> None:
    """Write a table with the columns that travel along, to parquet or CSV; it appears when all of it is written."""
    is_csv = check_sets_file(path, list(columns), classes, list(made)) == "csv"
    table = pa.table({**columns, **made})
    if is_csv:
        check_flat_columns(path, table.select(list(columns)).schema)
        if "set" in made:
            joined = pa.array(["|".join(members) for members in made["set"].to_pylist()])
            table = table.set_column(table.schema.get_field_index("set"), "set", joined)
    with atomic_path(path) as temporary:
        writer = pa_csv.write_csv if is_csv else pq.write_table
        writer(table, as_utf8(temporary))


def _shares(error: Any) -> str:
    if not isinstance(error, dict):
        return f"{error:g}"
    return ", ".join(f"{value:g} ({label})" for label, value in error.items())


def in_words(done: dict[str, Any], out: str) -> str:
    """Return what was decided."""
    share = done["acted"] / max(1, done["rows"])
    return f"{done['acted']:,} of {done['rows']:,} rows ({share:.0%}) are acted on: {out}\n{done['promise']}"


def errors_of(given: tuple[str, ...]) -> Any:
    """Return one error for all rows, or one for each label that is named: malignant=0.01."""
    if not given:
        return 0.05
    pairs = [text.rpartition("=") for text in given]
    try:
        if all(not equals for _, equals, _ in pairs) and len(pairs) == 1:
            return float(given[0])
        if all(equals and label for label, equals, _ in pairs) and len({label for label, _, _ in pairs}) == len(pairs):
            return {label: float(value) for label, _, value in pairs}
    except ValueError:
        pass
    raise ValueError(f"--error must be one number, or LABEL=NUMBER for each label; got {' '.join(given)!r}.")
