"""Raw rows of a file for the classifier of a run: read as its folder says, predicted, judged, decided about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aptset import Evaluation, evaluate
from aptset.arrow.formats import BATCH_ROWS, TableFile, check_row_count, check_rows_present, in_whole_blocks, table_file
from aptset.arrow.sources import as_texts
from aptset.cli.artefacts import beside_the_user, load_run
from aptset.cli.columns import Plan
from aptset.cli.files import about_skipped, check_distinct_columns, check_some_labelled, in_file, lacks
from aptset.cli.options import counting
from aptset.cli.probability_jobs import Piece, errors_by_name, levels_of, write_sets
from aptset.cli.stores import new_folder
from aptset.cli.tables import (
    TableRows,
    check_finite_features,
    check_number_columns,
    check_target,
    labels_among,
    some_of,
)
from aptset.cli.writing import columns_of_decisions, write_decisions
from aptset.core.labels import as_objects
from aptset.core.randomization import all_at_once
from aptset.estimator.fitted import SetsOfPieces
from aptset.estimator.storage import check_table, load_folder

_ALL = 1 << 62


@dataclass(frozen=True)
class NewRows:
    """Rows for a classifier that was saved by ``run``, and the columns that travel along."""

    features: pd.DataFrame
    groups: NDArray[Any] | None
    ids: NDArray[Any] | None
    others: dict[str, pa.Array]


@dataclass(frozen=True)
class NewTable:
    """A file of new rows, and what the folder of a classifier says about its columns."""

    file: TableFile
    plan: Plan
    row_id: str | None
    groups: str | None

    @classmethod
    def of(
        cls, file: TableFile, table: dict[str, Any], row_id: str | None = None, groups: str | None = None
    ) -> NewTable:
        """Return the file as the classifier of a folder takes it; a column that it needs must be there."""
        plan = Plan.of_json(table["columns"])
        new = cls(file, plan, row_id or table["id"], groups or table["groups"])
        check_distinct_columns(file.path, file.names)
        wanted = [name for name in (*plan.names(), new.row_id, new.groups) if name is not None]
        missing = [name for name in wanted if name not in file.all_names]
        if missing:
            what = f"the columns that the model was trained on; missing: {some_of(missing)}"
            raise lacks(file.path, what, file.all_names, missing)
        return new

    @property
    def other_columns(self) -> list[str]:
        """The columns that travel along: all that the file has."""
        return self.file.names

    def whole(self) -> NewRows:
        """Return all rows at once."""
        (rows,) = self._pieces(_ALL)
        return rows

    def pieces(self, batch_rows: int) -> Iterator[NewRows]:
        """Yield the rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        yield from self._pieces(in_whole_blocks(batch_rows))

    def _pieces(self, step: int) -> Iterator[NewRows]:
        start, rows, path = 0, self.file.rows, self.file.path
        for written, typed in self._tables(step):
            check_row_count(path, typed.num_rows, written.num_rows)
            yield self._rows_of(written, typed, start)
            start += written.num_rows
        check_row_count(path, start, rows)
        check_rows_present(path, start)

    def _tables(self, step: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield rows in two forms: as they are written, and as models take them."""
        if not self.file.is_text:
            yield from ((table, table) for table in self.file.pieces(step))
            return
        numbers = dict.fromkeys(self.plan.plain_numbers, pa.float64())
        used = [name for name in (*self.plan.texts, *numbers) if name in self.file.names]
        yield from zip(self.file.pieces(step), self.file.pieces(step, used, numbers), strict=True)

    def _rows_of(self, written: pa.Table, typed: pa.Table, start: int) -> NewRows:
        written, typed = self._with_keys(written), self._with_keys(typed, self.plan.plain_numbers)
        check_number_columns(self.file.path, typed, self.plan.plain_numbers)
        try:
            features = self.plan.frame(typed)
            check_finite_features(features)
        except (ValueError, TypeError) as error:
            raise in_file(error, self.file.path, start) from error
        names = (self.groups, self.row_id)
        by, ids = (None if name is None else as_objects(as_texts(written[name])) for name in names)
        others = {name: written[name].combine_chunks() for name in self.file.names}
        return NewRows(features, by, ids, others)

    def _with_keys(self, table: pa.Table, numbers: Sequence[str] = ()) -> pa.Table:
        """Return a table with the columns that the folders of the file stand for."""
        for name, column in self.file.key_columns(table.num_rows).items():
            with suppress(pa.ArrowInvalid):  # a text stays one, and is refused where a number is wanted
                column = column.cast(pa.float64()) if name in numbers else column
            table = table.append_column(name, column)
        return table


class RowSets:
    """Sets of files of raw rows, by the classifier of a run; it has the members of ``probability_jobs.MatrixSets``."""

    def __init__(self, folder: Path, alphas: Sequence[Any] | None, options: Mapping[str, Any], assurance: Any) -> None:
        self._classifier, self._facts = load_run(folder, options["trust"])
        self._options = options
        self.alphas = [self._classifier.alpha] if alphas is None else list(alphas)
        self._levels = levels_of(self.alphas, self._classifier.calibration_, assurance)
        self.classes, self.confidence = self._classifier.classes_.tolist(), bool(options["confidence"])

    def source(self, file: TableFile) -> NewTable:
        """Return the file as the classifier takes it."""
        return NewTable.of(file, self._facts, self._options["row_id"], self._options["groups"])

    def pieces(self, table: NewTable) -> Iterator[Piece]:
        """Yield the rows of a file with their sets; fresh u takes the place of ids."""
        made, u = SetsOfPieces(self._classifier, self._levels, table.file.rows, self.confidence), self._options["u"]
        for rows in table.pieces(self._options["batch_rows"]):
            sets = made.of(rows.features, rows.groups, rows.ids if u is None else None, u)
            yield rows.others, sets, made.confidence
        made.finish()


def labelled_rows(
    file: TableFile, folder: Path, trust: Sequence[str], skip_unlabelled: bool = False
) -> tuple[Any, TableRows, NDArray[Any] | None]:
    """Return the classifier of a folder, the rows of a file with their labels, and their ids."""
    classifier, table = load_run(folder, trust)
    check_has_labels(file, table["target"])
    new = NewTable.of(file, table).whole()
    texts = as_texts(new.others[table["target"]])
    if not skip_unlabelled:
        check_target(file.path, table["target"], texts)
    numbers = np.array([row for row, text in enumerate(texts) if text is not None], dtype=np.intp)
    check_some_labelled(file.path, len(numbers), len(texts))
    labels = labels_among([str(texts[row]) for row in numbers.tolist()], classifier.classes_.tolist())
    check_some_known(file.path, table["target"], labels, classifier.classes_.tolist())
    remarks = (about_skipped(len(texts) - len(numbers), len(texts)),) if len(numbers) < len(texts) else ()
    by, ids = (None if values is None else values[numbers] for values in (new.groups, new.ids))
    plan = Plan.of_json(table["columns"])
    return classifier, TableRows(plan, new.features.iloc[numbers], labels, by, numbers, remarks), ids


def check_has_labels(file: TableFile, target: str) -> None:
    """Refuse a file without the labels that a look at coverage needs."""
    if target not in file.all_names:
        what = f"the labels, in a column {target!r}, to compare the sets with"
        raise lacks(file.path, what, file.all_names, [target])


def check_some_known(path: Path, column: str, labels: Any, classes: Sequence[Any]) -> None:
    """Refuse labels of which the model knows none: they are other labels, or written in another way."""
    different = list(dict.fromkeys(labels.tolist()))
    if different and not set(different) & set(classes):
        shown, known = (", ".join(map(repr, list(names)[:5])) for names in (different, map(str, classes)))
        raise ValueError(
            f"{path}, column {column!r} must hold labels that the model knows; it knows none of {shown}. Its classes "
            f"are {known}{', ...' if len(classes) > 5 else ''}."
        )


def evaluate_folder(
    file: TableFile, folder: Path, alpha: float | None, trust: Sequence[str], skip_unlabelled: bool
) -> Evaluation:
    """Judge the sets that the classifier of a folder makes of labelled rows."""
    classifier, rows, ids = labelled_rows(file, folder, trust, skip_unlabelled)
    level = classifier.alpha if alpha is None else alpha
    with all_at_once():
        sets = classifier.predict_set(rows.features, level, groups=rows.groups, ids=ids)
    evaluation = evaluate(sets, rows.labels, groups=rows.groups, alpha=level)
    return replace(evaluation, remarks=(*rows.remarks, *evaluation.remarks))


def has_sets(file: TableFile) -> bool:
    """Tell whether a file has a column of sets; else it holds raw rows."""
    return any(name == "set" or name.startswith("set ") for name in file.names)


def with_sets(
    file: TableFile, folder: Path, label: str, alpha: float, groups: str | None, trust: Sequence[str], progress: bool
) -> TableFile:
    """Return a file as it is if it has sets; raw rows with the sets that the classifier of a folder makes of them."""
    if has_sets(file):
        return file
    options: dict[str, Any] = {"trust": trust, "groups": groups, "batch_rows": BATCH_ROWS}
    options |= {"row_id": None, "u": None, "confidence": False}
    made = RowSets(folder, [alpha], options, None)
    check_has_labels(file, label)
    path = new_folder() / f"{file.path.stem}.parquet"
    with counting(file.rows, progress) as on_rows:
        write_sets(made, file, path, on_rows, is_part=True)
    return table_file(path)


class PlanReader:
    """How rows by name become rows of X, as the folder of ``aptset run`` says."""

    def __init__(self, table: dict[str, Any]) -> None:
        self._plan = Plan.of_json(table["columns"])
        self.names: Sequence[str] = self._plan.names()
        self.kinds: Mapping[str, str] = {column.name: column.kind for column in self._plan.used}
        self.id_column: str | None = table["id"]
        self.group_column: str | None = table["groups"]

    def frame(self, table: Any) -> Any:
        """Return the columns as the model takes them; what is no number where one is wanted is refused."""
        check_number_columns(Path("rows"), table, self._plan.plain_numbers)
        features = self._plan.frame(table)
        check_finite_features(features)
        return features


def load_any(folder: Path, trust: Sequence[str]) -> tuple[Any, PlanReader | None]:
    """Return the classifier of a folder, and how its rows are read, if `aptset run` made it."""
    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    return classifier, None if facts["table"] is None else PlanReader(check_table(folder, facts))


def accept_rows(
    file: TableFile,
    folder: Path,
    error: Any,
    assurance: float | None,
    out: Path,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Write which raw rows to act on, the guess of each, and the set of those that a person is asked about."""
    classifier, facts = load_run(folder, options["trust"])
    rows = NewTable.of(file, facts, options["row_id"], options["groups"]).whole()
    level = 0.9 if assurance is None else assurance
    asked = (errors_by_name(error, classifier.classes_.tolist()), options["alpha"])
    frame = classifier.act_or_ask(rows.features, *asked, groups=rows.groups, ids=rows.ids, assurance=level)
    write_decisions(out, rows.others, columns_of_decisions(frame), [str(name) for name in classifier.classes_.tolist()])
    done = {"rows": len(frame), "acted": int(frame["act"].sum()), "error": error, "assurance": level}
    return {**done, "promise": frame.attrs["promise"]}
