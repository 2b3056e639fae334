"""Files of sets and of decisions: parquet and CSV, in the dialect of the input, there whole or not at all."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from aptset import Confidence, Evaluation
from aptset.arrow.formats import Dialect, TableFile
from aptset.arrow.sources import as_texts, columns_of_sets, names_of_sets, of_texts
from aptset.core.files import as_utf8, atomic_path, atomic_write

CONFIDENCE = Confidence._fields
_BETWEEN_LABELS = of_texts(["|"])[0]  # a plain text, or pa.scalar, would load pandas


def columns_of_confidence(rows: Confidence) -> dict[str, pa.Array]:
    """Return the guess of each row as a text, and the numbers about it."""
    guess, *numbers = rows
    texts = of_texts([str(label) for label in guess.tolist()])
    return dict(zip(CONFIDENCE, [texts, *map(pa.array, numbers)], strict=True))


class SetsWriter:
    """Writes sets batch by batch to parquet or CSV.

    Labels of parquet keep their type. ``types`` are those that columns of texts have in parquet, which knows types;
    ``dialect`` is how a CSV is written. Rows go to ``target``, which may be a file that is to become the wanted one.
    """

    def __init__(
        self,
        path: Path,
        names: list[str],
        classes: Sequence[Any],
        alphas: Sequence[Any] = (0.1,),
        types: Mapping[str, pa.DataType] | None = None,
        dialect: Dialect | None = None,
        more: Sequence[str] = (),
    ) -> None:
        self.names = names_of_sets(alphas, names)
        added = [*(name for pair in self.names for name in pair), *more]
        texts = [str(label) for label in classes]
        self._is_csv = check_sets_file(path, names, texts, added) == "csv"
        self._path, self._types, self._dialect = path, types or {}, dialect
        is_typed = not self._is_csv and not any(isinstance(label, str) for label in classes)
        self._classes = pa.array(list(classes)) if is_typed else of_texts(texts)
        self.target, self._writer = path, cast(Any, None)
        self._alphas, self._rows, self._labels, self._empty = alphas, 0, 0, 0

    def write(self, others: dict[str, pa.Array], sets: Sequence[Any], more: Confidence | None = None) -> int:
        """Write some rows: the columns that travel along, for each level the size and labels of each set, and more."""
        if not self._is_csv:
            others = {name: in_type(column, self._types.get(name)) for name, column in others.items()}
        made = columns_of_sets(sets, self.names, self._classes)
        if self._is_csv:
            made |= {labels: pc.binary_join(made[labels], _BETWEEN_LABELS) for _, labels in self.names}
        columns = {**others, **made, **({} if more is None else columns_of_confidence(more))}
        table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
        if self._writer is None:
            if self._is_csv:
                check_flat_columns(self._path, table.schema)
            if self._is_csv and self._dialect is not None:
                self._writer = LinesWriter(self.target, list(columns), self._dialect)
            else:
                kind = pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter
                self._writer = kind(as_utf8(self.target), table.schema)
        self._writer.write_table(table)
        pointers = sets[0].indptr
        self._rows, self._labels = self._rows + table.num_rows, self._labels + int(pointers[-1])
        self._empty += int((pointers[1:] == pointers[:-1]).sum())
        return int(table.num_rows)

    def done(self) -> dict[str, Any]:
        """Return what was written: rows, and at the first level the mean size and how many sets are empty."""
        rows, alpha = self._rows, self._alphas[0]
        done = {"rows": rows, "alpha": alpha, "mean_size": self._labels / rows if rows else 0.0, "empty": self._empty}
        return {**done, "out": str(self._path), "columns": self.names}

    def close(self) -> None:
        """Write what is left; the file takes its place at the end of the block."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class LinesWriter:
    """Writes tables as CSV in any dialect. Cells stay as they are written, with quotes where they need them."""

    def __init__(self, path: Path, names: list[str], dialect: Dialect) -> None:
        self._dialect = dialect
        self._stream = path.open("w", encoding=dialect.encoding, newline="")
        self.write_table(pa.table({str(number): [name] for number, name in enumerate(names)}))

    def write_table(self, table: pa.Table) -> None:
        """Write some rows."""
        cells = [self._cells(column) for column in table.columns]
        lines = pc.binary_join_element_wise(*cells, pa.scalar(self._dialect.separator, pa.large_string()))
        try:
            self._stream.writelines(f"{line}\n" for line in lines.to_pylist())
        except UnicodeEncodeError as error:
            raise ValueError(
                f"the output must be in the encoding of the input, {self._dialect.encoding}, which cannot "
                f"write {error.object[error.start : error.end]!r}. Leave --same-dialect out, or write "
                ".parquet."
            ) from error

    def _cells(self, column: Any) -> Any:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        try:
            texts = plain.cast(pa.large_string())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            texts = pa.chunked_array([pa.array(as_texts(plain), pa.large_string())])
        texts = pc.fill_null(texts, "")
        special = f'["\r\n{re.escape(self._dialect.separator)}]'
        quote, nothing = (pa.scalar(mark, pa.large_string()) for mark in ('"', ""))
        quoted = pc.binary_join_element_wise(quote, pc.replace_substring(texts, '"', '""'), quote, nothing)
        return pc.if_else(pc.match_substring_regex(texts, special), quoted, texts)

    def close(self) -> None:
        """Write what is left."""
        self._stream.close()


_WHOLE, _NUMBER = r"^-?(0|[1-9]\d{0,17})$", r"^[-+]?(0|[1-9]\d*)?(\.\d*)?([eE][-+]?\d+)?$"
_CANDIDATES = {
    pa.int64(): _WHOLE,
    pa.float64(): _NUMBER,
    pa.bool_(): r"^(true|false|True|False|TRUE|FALSE)$",
    pa.date32(): r"^\d{4}-\d{2}-\d{2}$",
    pa.timestamp("us"): r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?$",
}


def types_of(file: TableFile) -> dict[str, pa.DataType]:
    """Return the types that the cells of a CSV have, all of them: numbers, truth values, dates; texts otherwise.

    What would not be the same number when it is written again, such as 007, is a text.
    """
    if not file.is_text:
        return {}
    open_types = {name: list(_CANDIDATES) for name in file.names}
    filled = set[str]()
    for batch in file.batches():
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            cells = _with_points(column, name in file.decimals)
            filled |= {name} if column.null_count < len(column) else set()
            open_types[name] = [kind for kind in open_types[name] if _all_are(cells, kind)]
    return {name: kinds[0] for name, kinds in open_types.items() if kinds and name in filled}


def _all_are(cells: Any, kind: pa.DataType) -> bool:
    if pc.all(pc.match_substring_regex(cells, _CANDIDATES[kind])).as_py() is False:
        return False
    try:
        cells.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _with_points(column: Any, has_commas: bool) -> Any:
    return pc.replace_substring(column, ",", ".") if has_commas else column


def in_type(column: Any, kind: pa.DataType | None) -> Any:
    """Return a column of texts in a type that all its cells have."""
    if kind is None or not pa.types.is_string(column.type):
        return column
    return _with_points(column, pa.types.is_floating(kind)).cast(kind)


def check_flat_columns(path: Path, schema: Any) -> None:
    """Refuse columns that a CSV cannot hold."""
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise ValueError(
            f"{path} must hold plain columns, being CSV; column {nested[0]!r} of the input holds lists or records. "
            "Write .parquet instead, or drop the column."
        )


def check_sets_file(path: Path, names: list[str], classes: list[str], added: Sequence[str] = ("size", "set")) -> str:
    """Return the kind of a file of sets; refuse endings, columns and labels that it could not hold."""
    kind = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path} must end in .parquet or .csv.")
    taken = sorted(set(added) & set(names))
    if taken:
        raise ValueError(
            f"{path} gets the columns {' and '.join(added)}, and the input must not have them already; it has "
            f"{taken}. Rename them."
        )
    barred = [name for name in classes if "|" in name]
    if kind == "csv" and barred:
        raise ValueError(
            f"{path} is a CSV file, in which | stands between labels, and the label {barred[0]!r} holds one. "
            "Write .parquet instead."
        )
    return kind


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
            table = table.set_column(
                table.schema.get_field_index("set"), "set", pc.binary_join(made["set"], _BETWEEN_LABELS)
            )
    with atomic_path(path) as temporary:
        writer = pa_csv.write_csv if is_csv else pq.write_table
        writer(table, as_utf8(temporary))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    with atomic_write(path) as file:
        file.write(as_json(content))


def as_json(content: dict[str, Any]) -> bytes:
    """Return JSON that people can read."""
    return json.dumps(content, indent=2, allow_nan=False).encode()


def evaluation_as_json(evaluation: Evaluation, **more: Any) -> dict[str, Any]:
    """Return an evaluation as plain values; what is not finite becomes None."""
    rows = []
    for metric, by, group, estimate in evaluation.rows():
        row = {"metric": metric, "by": by, "group": group, "value": float(estimate), "low": estimate.low}
        row |= {"high": estimate.high, "n": estimate.n}
        rows.append({key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()})
    said = {"remarks": list(evaluation.remarks)} if evaluation.remarks else {}
    return {"alpha": evaluation.alpha, "n": evaluation.n, **more, **said, "estimates": rows}


def evaluations_as_json(evaluations: list[Evaluation], **more: Any) -> dict[str, Any]:
    """Return the evaluation at the first level, and those at the other levels under ``others``."""
    first, *others = evaluations
    content = evaluation_as_json(first, **more)
    return {**content, "others": [evaluation_as_json(other) for other in others]} if others else content
