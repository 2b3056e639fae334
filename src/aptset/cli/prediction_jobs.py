"""What ``aptset predict`` does with the folder of a run: raw rows in, sets out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aptset.arrow.formats import TableFile, check_row_count, check_rows_present, in_whole_blocks
from aptset.arrow.layout import as_texts
from aptset.cli.checks import check_columns, check_distinct_columns, shifted_rows
from aptset.cli.columns import Plan
from aptset.cli.files import CONFIDENCE, SetsWriter
from aptset.cli.probability_jobs import beside_the_user, named_as
from aptset.cli.tables import TableRows, check_finite_features, check_number_columns, check_target, some_of
from aptset.core.labels import as_objects
from aptset.core.levels import check_level
from aptset.core.runner import counting
from aptset.estimator.fitted import SetsOfPieces
from aptset.estimator.loading import load_folder
from aptset.estimator.storage import check_table

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
        names = [*file.names, *file.key_columns(0)]
        wanted = [name for name in (*plan.names(), new.row_id, new.groups) if name is not None]
        missing = [name for name in wanted if name not in names]
        what = f"the columns that the model was trained on; missing: {some_of(missing)}"
        check_columns(file.path, not missing, what, names, missing)
        return new

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
        check_row_count(path, start, start if rows is None else rows)
        check_rows_present(path, start)

    def _tables(self, step: int) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield rows in two forms: as they are written, and as models take them."""
        if not self.file.is_text:
            yield from ((table, table) for table in self.file.pieces(step))
            return
        numbers = dict.fromkeys(self.plan.names("number"), pa.float64())
        used = [name for name in (*self.plan.texts, *numbers) if name in self.file.names]
        yield from zip(self.file.pieces(step), self.file.pieces(step, used, numbers), strict=True)

    def _rows_of(self, written: pa.Table, typed: pa.Table, start: int) -> NewRows:
        written, typed = self._with_keys(written), self._with_keys(typed, self.plan.names("number"))
        check_number_columns(self.file.path, typed, self.plan.names("number"))
        with shifted_rows(self.file.path, start):
            features = self.plan.frame(typed)
            check_finite_features(features)
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


def predict_rows(
    file: TableFile,
    folder: Path,
    alphas: Sequence[Any] | None,
    out: Path,
    row_id: str | None,
    groups: str | None,
    trust: Sequence[str],
    batch_rows: int,
    progress: bool,
    u: Literal["fresh"] | None = None,
    assurance: Any = None,
    confidence: bool = False,
) -> dict[str, Any]:
    """Write the sets of raw rows, piece by piece; all their columns travel along."""
    classifier, facts = load_run(folder, trust)
    table, more = NewTable.of(file, facts, row_id, groups), (u, assurance, confidence)
    return predict_table(table, classifier, alphas, out, batch_rows, progress, *more)


def load_run(folder: Path, trust: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the classifier of a folder, and what it says about tables."""
    if trust:
        beside_the_user()
    classifier, facts = load_folder(folder, trust=list(trust))
    return classifier, check_table(folder, facts)


def predict_table(
    table: NewTable,
    classifier: Any,
    alphas: Sequence[Any] | None,
    out: Path,
    batch_rows: int,
    progress: bool,
    u: Literal["fresh"] | None = None,
    assurance: Any = None,
    confidence: bool = False,
) -> dict[str, Any]:
    """Write the sets of the rows of a file; fresh u takes the place of ids."""
    asked = [classifier.alpha] if alphas is None else list(alphas)
    levels = [check_level(named_as(alpha, classifier.calibration_), assurance) for alpha in asked]
    names = [str(name) for name in classifier.classes_.tolist()]
    rows = table.file.rows
    pieces, more = SetsOfPieces(classifier, levels, rows, confidence), CONFIDENCE if confidence else ()
    with SetsWriter(out, table.file.names, names, asked, more) as writer, counting(rows, "rows", progress) as count:
        for piece in table.pieces(batch_rows):
            sets = pieces.of(piece.features, piece.groups, piece.ids if u is None else None, u)
            writer.write(piece.others, sets, pieces.confidence)
            count(len(sets[0]))
        pieces.finish()
    return writer.done()


def labelled_rows(file: TableFile, folder: Path, trust: Sequence[str]) -> tuple[Any, TableRows, NewRows]:
    """Return the classifier of a folder, and rows of a file with their labels, in two forms."""
    classifier, table = load_run(folder, trust)
    new = NewTable.of(file, table).whole()
    target = table["target"]
    check_columns(file.path, target in new.others, f"the labels, in a column {target!r}", list(new.others), [target])
    labels = as_texts(new.others[target])
    check_target(file.path, target, labels)
    return classifier, TableRows(Plan.of_json(table["columns"]), new.features, as_objects(labels), new.groups), new
