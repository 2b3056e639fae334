"""Matrices of probabilities on disk, in bounded batches, and the files of sets that are made of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset import Confidence
from aptset.arrow.formats import (
    BATCH_ROWS,
    Dialect,
    TableFile,
    check_row_count,
    check_rows_present,
    in_whole_blocks,
    key_columns,
    of_even_length,
)
from aptset.arrow.formats.arrays import ArrayFile
from aptset.arrow.layout import as_coded_texts, as_numbers, as_texts, of_texts
from aptset.arrow.predicting import columns_of_sets, names_of_sets
from aptset.cli.checks import (
    check_columns,
    check_distinct_columns,
    check_flat_columns,
    check_sets_file,
    check_weight_column,
)
from aptset.core.files import as_utf8, atomic_path
from aptset.core.labels import Coded

# The matrix of some rows, their labels, the columns that travel along, and those that folders stand for.
_Rows = tuple[NDArray[Any], Coded | None, dict[str, pa.Array], dict[str, pa.Array]]


class Batch(NamedTuple):
    """Some consecutive rows: what is known of each, groups and ids as texts, and the columns that travel along."""

    start: int
    probabilities: NDArray[Any]
    labels: Coded | None
    groups: list[str | None] | None
    ids: list[str | None] | None
    weights: NDArray[np.float64] | None
    others: dict[str, pa.Array]
    clusters: list[str | None] | None = None
    numbers: list[int] | None = None  # of the rows, counted from the start, where there are rows between them

    def labelled(self) -> Batch:
        """Return the rows that have a label."""
        if self.labels is None or None not in self.labels.values:
            return self
        values, codes = self.labels.values, self.labels.codes
        is_label = np.array([value is not None for value in values])
        rows = np.flatnonzero(is_label[codes])
        labels = Coded([value for value in values if value is not None], (np.cumsum(is_label) - 1)[codes[rows]])
        by, ids, clusters = (
            None if texts is None else [texts[row] for row in rows.tolist()]
            for texts in (self.groups, self.ids, self.clusters)
        )
        weights = None if self.weights is None else self.weights[rows]
        others = {name: column.take(pa.array(rows)) for name, column in self.others.items()}
        of_rows = (self.probabilities[rows], labels, by, ids, weights, others)
        return Batch(self.start, *of_rows, clusters, rows.tolist())


@dataclass(frozen=True)
class ProbabilityFile:
    """A file of probabilities with one column per class (or one matrix), read in batches.

    Columns of probabilities start with ``prefix``; without a prefix they are all columns of numbers. The label, the row
    id, the group, the weight and the cluster are never among them. The name of a column without its prefix is the
    class. A file without rows does not say which of its columns hold numbers: ``known`` are those that would.
    """

    file: TableFile
    label: str | None = None
    row_id: str | None = None
    group: str | None = None
    prefix: str | None = None
    logits: bool = False
    batch_rows: int = BATCH_ROWS
    weight: str | None = None
    cluster: str | None = None
    known: tuple[str, ...] | None = None

    def for_classes(self, names: Sequence[str]) -> ProbabilityFile:
        """Return the file with columns of probabilities for these classes, where no row shows which they are."""
        if self.file.rows != 0 or self.prefix is not None or isinstance(self.file, ArrayFile):
            return self
        return replace(self, known=tuple(name for name in self.file.names if name in set(names)))

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    def classes(self) -> list[str]:
        """Return the class of each column of probabilities."""
        if isinstance(self.file, ArrayFile):
            return [str(k) for k in range(self._arrays(self.file)[0].shape[1])]
        return [name.removeprefix(self.prefix or "") for name in self._probability_columns]

    def other_columns(self) -> list[str]:
        """Return the columns that travel along, and those that folders stand for."""
        if isinstance(self.file, ArrayFile):
            return [] if self.label is None else [Path(self.label).stem]
        wanted = set(self._probability_columns)
        return [name for name in (*self.file.names, *self.file.key_columns(0)) if name not in wanted]

    def batches(self, may_be_empty: bool = False) -> Iterator[Batch]:
        """Yield all rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        start, rows, path, step = 0, self.file.rows, self.file.path, in_whole_blocks(self.batch_rows)
        matrices = self._matrices(self.file, step) if isinstance(self.file, ArrayFile) else self._columns(step)
        for matrix, labels, own, keys in matrices:
            if not len(matrix):
                continue
            named = {**keys, **own}
            by = None if self.group is None else as_texts(named[self.group])
            ids = None if self.row_id is None else as_texts(named[self.row_id])
            column = None if self.weight is None else named[self.weight]
            weights = None if column is None else check_weight_column(path, str(self.weight), column, start)
            clusters = None if self.cluster is None else as_texts(named[self.cluster])
            yield Batch(start, matrix, labels, by, ids, weights, own, clusters)
            start += len(matrix)
        check_row_count(path, start, start if rows is None else rows)
        if not may_be_empty:
            check_rows_present(path, start)

    def _matrices(self, file: ArrayFile, step: int) -> Iterator[_Rows]:
        """Yield rows of a matrix; labels, ids, groups and weights stand beside it."""
        matrix, labels = self._arrays(file)
        named = self._named_arrays(file, len(matrix))
        for start in range(0, len(matrix), step):
            rows = slice(start, start + step)
            with file.errors():
                coded = None if labels is None else as_coded_texts(pa.array(np.asarray(labels[rows])))
            own = {} if coded is None or self.label is None else {Path(self.label).stem: pa.array(coded.in_full())}
            own |= {name: pa.array(values[rows]) for name, values in named.items()}
            yield np.asarray(matrix[rows]), coded, own, key_columns(file.keys, list(own), len(matrix[rows]))

    def _columns(self, step: int) -> Iterator[_Rows]:
        """Yield rows of a table, with one column of probabilities for each class."""
        file, wanted = self.file, self._probability_columns
        for batch in of_even_length(file.batches(types=dict.fromkeys(wanted, pa.float64())), step):
            own = dict(zip(batch.schema.names, batch.columns, strict=True))
            keys = file.key_columns(batch.num_rows)
            with file.errors():
                columns = [as_numbers(own.pop(name)) for name in wanted]
                matrix = np.column_stack(columns) if batch.num_rows else np.empty((0, len(wanted)))
                labels = None if self.label is None else as_coded_texts((keys | own)[self.label])
            yield matrix, labels, own, keys

    def _named_arrays(self, file: ArrayFile, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the ids, groups, weights and clusters, which stand beside the matrix."""
        names = [name for name in dict.fromkeys(self._beside) if name not in dict(file.keys)]
        arrays = file.arrays
        for name in names:
            is_column = name in arrays and arrays[name].shape == (n_rows,)
            check_columns(self.path, is_column, f"an array {name!r} with one value per row", list(arrays))
        return {name: arrays[name] for name in names}

    def _arrays(self, file: ArrayFile) -> tuple[NDArray[Any], NDArray[Any] | None]:
        arrays = file.arrays
        matrices = [name for name, values in arrays.items() if values.ndim == 2]
        check_columns(self.path, len(matrices) == 1, "exactly one 2-D array of probabilities", list(arrays))
        labels = None
        if self.label is not None:
            beside = Path(self.label)
            if beside.suffix == ".npy" and beside.exists():
                labels = ArrayFile(beside).arrays["probabilities"]
            else:
                check_columns(self.path, self.label in arrays, f"an array {self.label!r} of labels", list(arrays))
                labels = arrays[self.label]
            is_column = labels.shape == arrays[matrices[0]].shape[:1]
            check_columns(self.path, is_column, "one label per row", list(arrays))
        return arrays[matrices[0]], labels

    @property
    def _beside(self) -> list[str]:
        """The columns that say something about rows, and are no labels."""
        return [name for name in (self.row_id, self.group, self.weight, self.cluster) if name is not None]

    @cached_property
    def _probability_columns(self) -> list[str]:
        own = self.file.names
        check_distinct_columns(self.path, own)
        names = [*own, *self.file.key_columns(0)]
        named = [name for name in (self.label, *self._beside) if name is not None]
        for name in named:
            check_columns(self.path, name in names, f"a column {name!r}", names, [name])
        if self.prefix is not None:
            columns = [name for name in own if name.startswith(self.prefix)]
            what = f"at least 2 columns that start with {self.prefix!r}"
        elif self.known is not None:
            columns, what = list(self.known), "a column of probabilities for each class"
        else:
            with self.file.errors():
                kinds = zip(own, self.file.schema.types, strict=True)
            columns = [name for name, kind in kinds if self._may_be_number(kind)]
            what = "at least 2 columns of numbers (or pass --prefix)"
        columns = [name for name in columns if name not in named]
        check_columns(self.path, len(columns) >= 2, what, names)
        return columns

    def _may_be_number(self, kind: pa.DataType) -> bool:
        """Tell whether a column may hold probabilities; one without rows may."""
        is_open = pa.types.is_null(kind) and self.file.rows == 0
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or is_open)


CONFIDENCE = Confidence._fields


def columns_of_confidence(rows: Confidence) -> dict[str, pa.Array]:
    """Return the guess of each row as a text, and the numbers about it."""
    guess, *numbers = rows
    texts = of_texts([str(label) for label in guess.tolist()])
    return dict(zip(CONFIDENCE, [texts, *map(pa.array, numbers)], strict=True))


class SetsWriter:
    """Writes sets batch by batch to parquet or CSV; the file appears when the writer is closed without an error.

    Labels of parquet keep their type. ``types`` are those that columns of texts have in parquet, which knows types;
    ``dialect`` is how a CSV is written.
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
        self._context = atomic_path(path)
        self._temporary = self._context.__enter__()
        self._writer: Any = None
        self._alphas, self._rows, self._labels, self._empty = alphas, 0, 0, 0

    def write(self, others: dict[str, pa.Array], sets: Sequence[Any], more: Confidence | None = None) -> None:
        """Write some rows: the columns that travel along, for each level the size and labels of each set, and more."""
        if self._is_csv:
            check_flat_columns(self._path, pa.schema([(name, column.type) for name, column in others.items()]))
        else:
            others = {name: in_type(column, self._types.get(name)) for name, column in others.items()}
        made = columns_of_sets(sets, self.names, self._classes)
        if self._is_csv:
            made |= {labels: _joined(made[labels]) for _, labels in self.names}
        columns = {**others, **made, **({} if more is None else columns_of_confidence(more))}
        table = pa.Table.from_arrays(list(columns.values()), names=list(columns))
        if self._writer is None:
            path = as_utf8(self._temporary)
            if self._is_csv and self._dialect is not None:
                self._writer = LinesWriter(self._temporary, list(columns), self._dialect)
            else:
                self._writer = (pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter)(path, table.schema)
        self._writer.write_table(table)
        first = sets[0]
        self._rows, self._labels = self._rows + len(first), self._labels + len(first.indices)
        self._empty += int((first.sizes == 0).sum())

    def done(self) -> dict[str, Any]:
        """Return what was written: rows, and at the first level the mean size and how many sets are empty."""
        rows, alpha = self._rows, self._alphas[0]
        done = {"rows": rows, "alpha": alpha, "mean_size": self._labels / rows if rows else 0.0, "empty": self._empty}
        return {**done, "out": str(self._path), "columns": self.names}

    def __enter__(self) -> SetsWriter:
        return self

    def close(self) -> None:
        """Write what is left; the file takes its place at the end of the block."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __exit__(self, *failure: Any) -> None:
        try:
            self.close()
        except BaseException:
            self._context.__exit__(*sys.exc_info())
            raise
        self._context.__exit__(*failure)


def _joined(lists: Any) -> Any:
    """Return lists of labels as texts."""
    return pa.array(["|".join(row) for row in lists.to_pylist()], pa.string())


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
