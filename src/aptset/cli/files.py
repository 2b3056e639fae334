"""Matrices of probabilities on disk, in bounded batches, and the files of sets that are made of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset.arrow.formats import (
    BATCH_ROWS,
    UNREADABLE,
    TableFile,
    check_row_count,
    check_rows_present,
    in_whole_blocks,
    key_columns,
    of_even_length,
)
from aptset.arrow.formats.arrays import ArrayFile
from aptset.arrow.sources import as_coded_texts, as_matrix, as_texts
from aptset.core.labels import Coded

OnRows = Callable[[int], None]  # who counts rows that are done
# The matrix of some rows, their labels, the columns that travel along, and those that folders stand for.
_Piece = tuple[NDArray[Any], Coded | None, dict[str, pa.Array], dict[str, pa.Array]]


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
    class. Where the classes of a calibration are ``known``, columns come in their order. A file without rows does not
    say which of its columns hold numbers: those that are called as these classes are do.
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
    known: Sequence[str] | None = None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.file.path

    @cached_property
    def classes(self) -> list[str]:
        """The class of each column of probabilities."""
        if isinstance(self.file, ArrayFile):
            return [str(place) for place in self._order_of_matrix(self._arrays(self.file)[0])]
        return [name.removeprefix(self.prefix or "") for name in self._probability_columns]

    @cached_property
    def other_columns(self) -> list[str]:
        """The columns that travel along, and those that folders stand for."""
        if isinstance(self.file, ArrayFile):
            return [] if self.label is None else [Path(self.label).stem]
        wanted = set(self._probability_columns)
        return [name for name in self.file.all_names if name not in wanted]

    def batches(self, may_be_empty: bool = False) -> Iterator[Batch]:
        """Yield all rows in order, in pieces of whole blocks: what a set depends on never spans two of them."""
        file, step, start = self.file, in_whole_blocks(self.batch_rows), 0
        try:
            if isinstance(file, ArrayFile):
                pieces = self._pieces_of_arrays(file, step)
            else:
                types = dict.fromkeys(self._probability_columns, pa.float64())
                pieces = map(self._piece_of_table, of_even_length(file.batches(types=types), step))
            for matrix, labels, own, keys in pieces:
                if len(matrix):
                    named = {**keys, **own}
                    by, ids, clusters = (
                        None if name is None else as_texts(named[name])
                        for name in (self.group, self.row_id, self.cluster)
                    )
                    weight = self.weight
                    weights = None if weight is None else check_weights(file.path, weight, named[weight], start)
                    yield Batch(start, matrix, labels, by, ids, weights, own, clusters)
                    start += len(matrix)
        except UNREADABLE as error:
            file.refuse(error)
        check_row_count(file.path, start, file.rows)
        if not may_be_empty:
            check_rows_present(file.path, start)

    def _piece_of_table(self, batch: pa.RecordBatch) -> _Piece:
        """Return some rows of a table, with one column of probabilities for each class."""
        own = dict(zip(batch.schema.names, batch.columns, strict=True))
        keys = self.file.key_columns(batch.num_rows) if self.file.keys else {}
        matrix = as_matrix([own.pop(name) for name in self._probability_columns])
        labels = None if self.label is None else as_coded_texts((keys | own)[self.label])
        return matrix, labels, own, keys

    def _pieces_of_arrays(self, file: ArrayFile, step: int) -> Iterator[_Piece]:
        """Yield rows of a matrix; labels, ids, groups and weights stand beside it."""
        matrix, labels = self._arrays(file)
        order, named = self._order_of_matrix(matrix), self._named_arrays(file, len(matrix))
        for start in range(0, len(matrix), step):
            rows = slice(start, start + step)
            coded = None if labels is None else as_coded_texts(pa.array(np.asarray(labels[rows])))
            own = {} if coded is None or self.label is None else {Path(self.label).stem: pa.array(coded.in_full())}
            own |= {name: pa.array(values[rows]) for name, values in named.items()}
            keys = key_columns(file.keys, list(own), len(matrix[rows]))
            yield np.asarray(matrix[rows])[:, order], coded, own, keys

    def _named_arrays(self, file: ArrayFile, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the ids, groups, weights and clusters, which stand beside the matrix."""
        columns = dict.fromkeys((self.row_id, self.group, self.weight, self.cluster))
        names = [name for name in columns if name is not None and name not in dict(file.keys)]
        arrays = file.arrays
        for name in names:
            if name not in arrays or arrays[name].shape != (n_rows,):
                raise lacks(self.path, f"an array {name!r} with one value per row", list(arrays))
        return {name: arrays[name] for name in names}

    def _arrays(self, file: ArrayFile) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the matrix and the labels."""
        arrays = file.arrays
        matrices = [values for values in arrays.values() if values.ndim == 2]
        if len(matrices) != 1:
            raise lacks(self.path, "exactly one 2-D array of probabilities", list(arrays))
        if self.label is None:
            return matrices[0], None
        beside = Path(self.label)
        if beside.suffix == ".npy" and beside.exists():
            labels = ArrayFile(beside).arrays["probabilities"]
        elif self.label in arrays:
            labels = arrays[self.label]
        else:
            raise lacks(self.path, f"an array {self.label!r} of labels", list(arrays))
        if labels.shape != matrices[0].shape[:1]:
            raise lacks(self.path, "one label per row", list(arrays))
        return matrices[0], labels

    @cached_property
    def _probability_columns(self) -> list[str]:
        """The columns of probabilities: by their prefix, by the classes of a calibration, or all that hold numbers."""
        own, names = self.file.names, self.file.all_names
        check_distinct_columns(self.file.path, own)
        named = (self.label, self.row_id, self.group, self.weight, self.cluster)
        for name in named:
            if name is not None and name not in names:
                raise lacks(self.file.path, f"a column {name!r}", names, [name])
        is_empty = self.file.rows == 0
        if self.prefix is not None:
            columns = [name for name in own if name.startswith(self.prefix)]
            what = f"at least 2 columns that start with {self.prefix!r}"
        elif self.known is not None and is_empty:
            columns = [name for name in own if name in set(self.known)]
            what = "a column of probabilities for each class"
        else:
            try:
                kinds = zip(own, self.file.schema.types, strict=True)
            except UNREADABLE as error:
                self.file.refuse(error)
            tests = (pa.types.is_floating, pa.types.is_integer, *([pa.types.is_null] if is_empty else []))
            columns = [name for name, kind in kinds if any(test(kind) for test in tests)]
            what = "at least 2 columns of numbers (or pass --prefix)"
        columns = [name for name in columns if name not in named]
        if len(columns) < 2:
            raise lacks(self.file.path, what, names)
        return [columns[place] for place in self._order([name.removeprefix(self.prefix or "") for name in columns])]

    def _order_of_matrix(self, matrix: NDArray[Any]) -> list[int]:
        """Return the columns of a matrix, whose classes are their numbers."""
        return self._order([str(place) for place in range(matrix.shape[1])])

    def _order(self, classes: list[str]) -> list[int]:
        """Return where each class that is known is among the columns of the file; all in their order if none is."""
        where = {name: column for column, name in enumerate(classes)}
        wanted = classes if self.known is None else self.known
        if len(classes) != len(wanted) or where.keys() != set(wanted):
            missing = [name for name in wanted if name not in where]
            extra = sorted(where.keys() - set(wanted))
            raise ValueError(
                f"{self.path} must have one column of probabilities for each class of the calibration; missing "
                f"{missing[:6]}, unknown {extra[:6]}. Rename the columns, or pass the start of their names, such "
                "as --prefix p_."
            )
        return [where[name] for name in wanted]


def lacks(path: Path, what: str, names: Sequence[Any], wanted: Sequence[str] = ()) -> ValueError:
    """Return the error about a file without ``what`` is needed; a column that is nearly a ``wanted`` one is named."""
    shown = ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")
    plain, similar = {str(name).casefold().strip(): str(name) for name in names}, list[str]()
    for name in wanted:
        if name not in names:
            similar += [plain[key] for key in get_close_matches(name.casefold().strip(), list(plain), 1, cutoff=0.75)]
    hint = f" Did you mean {', '.join(map(repr, similar[:3]))}?" if similar else ""
    return ValueError(f"{path} must have {what}; it has {shown or 'none'}.{hint}")


def check_distinct_columns(path: Path, names: Sequence[str]) -> None:
    """Refuse two columns of one name: nobody knows which is meant."""
    if len(set(names)) != len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        shown = ", ".join(map(repr, twice[:4])) + (", ..." if len(twice) > 4 else "")
        raise ValueError(
            f"{path} must have distinct column names; more than once: {shown}. Rename or delete one of each."
        )


def check_weights(path: Path, column: str, values: Any, start: int) -> Any:
    """Return weights as numbers; those of a CSV come as texts."""
    weights = np.empty(len(values))
    for row, value in enumerate(values.to_pylist()):
        try:
            weights[row] = float(value.replace(",", ".") if isinstance(value, str) and "." not in value else value)
        except (TypeError, ValueError):
            what = "missing" if value is None else f"{str(value)[:40]!r}, which is no number"
            raise ValueError(f"{path}, row {start + row}, column {column!r}: the weight is {what}.") from None
    return weights


def in_file(error: Exception, path: Path, start: int = 0, numbers: Sequence[int] | None = None) -> ValueError:
    """Return an error that names the file, and counts rows from its beginning instead of the batch's.

    The rows of the batch may be those of some ``numbers`` only.
    """
    places = dict(enumerate(numbers or ()))
    text = re.sub(r"\brow (\d+)", lambda row: f"row {places.get(int(row[1]), int(row[1])) + start}", str(error))
    text = text.replace("normalize=True", "--normalize").replace("logits=True", "--logits")
    return ValueError(f"{path}: {text}")


def check_some_labelled(path: Path, n_labelled: int, n_rows: int) -> None:
    """Refuse a file in which no row has a label."""
    check_rows_present(path, n_rows)
    if not n_labelled:
        raise ValueError(f"{path} must have rows with a label; it has {n_rows:,} rows, and none of them has one.")


def about_skipped(n_missing: int, n_rows: int) -> str:
    """Say how many rows were left out since they have no label."""
    verbs = ("has", "is") if n_missing == 1 else ("have", "are")
    return f"{n_missing:,} of {n_rows:,} rows {verbs[0]} no label and {verbs[1]} left out."
