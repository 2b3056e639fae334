"""Matrices of probabilities on disk, in bounded batches, and the files of sets that are made of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset.arrow.formats import (
    BATCH_ROWS,
    TableFile,
    check_row_count,
    check_rows_present,
    in_whole_blocks,
    key_columns,
    of_even_length,
)
from aptset.arrow.formats.arrays import ArrayFile
from aptset.arrow.sources import as_coded_texts, as_numbers, as_texts
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


def check_columns(path: Path, holds: bool, what: str, names: list[Any], wanted: Sequence[str] = ()) -> None:
    """Refuse a file without the columns that are needed; one that is nearly called as a ``wanted`` one is named."""
    if not holds:
        shown = ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")
        similar_names = [
            similar for name in wanted if name not in names and (similar := _near(name, names)) is not None
        ]
        hint = f" Did you mean {', '.join(map(repr, similar_names[:3]))}?" if similar_names else ""
        raise ValueError(f"{path} must have {what}; it has {shown or 'none'}.{hint}")


def _near(name: str, names: list[Any]) -> str | None:
    """Return the name that is nearest to one that is not there, if one is near."""
    plain = {str(other).casefold().strip(): str(other) for other in names}
    matches = get_close_matches(name.casefold().strip(), list(plain), n=1, cutoff=0.75)
    return plain[matches[0]] if matches else None


def check_distinct_columns(path: Path, names: list[str]) -> None:
    """Refuse two columns of one name: nobody knows which is meant."""
    if len(set(names)) != len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        shown = ", ".join(map(repr, twice[:4])) + (", ..." if len(twice) > 4 else "")
        raise ValueError(
            f"{path} must have distinct column names; more than once: {shown}. Rename or delete one of each."
        )


def check_weight_column(path: Path, column: str, values: Any, start: int) -> Any:
    """Return weights as numbers; those of a CSV come as texts."""
    weights = np.empty(len(values))
    for row, value in enumerate(values.to_pylist()):
        try:
            weights[row] = float(value.replace(",", ".") if isinstance(value, str) and "." not in value else value)
        except (TypeError, ValueError):
            what = "missing" if value is None else f"{str(value)[:40]!r}, which is no number"
            raise ValueError(f"{path}, row {start + row}, column {column!r}: the weight is {what}.") from None
    return weights


def check_same_classes(path: Path, classes: list[str], wanted: list[str]) -> list[int]:
    """Return where each class of the calibration is among the columns of a file."""
    where = {name: column for column, name in enumerate(classes)}
    if len(classes) != len(wanted) or where.keys() != set(wanted):
        missing = [name for name in wanted if name not in where]
        extra = sorted(where.keys() - set(wanted))
        raise ValueError(
            f"{path} must have one column of probabilities for each class of the calibration; missing "
            f"{missing[:6]}, unknown {extra[:6]}. Rename the columns, or pass the start of their names, such "
            "as --prefix p_."
        )
    return [where[name] for name in wanted]


@contextmanager
def shifted_rows(path: Path, start: int, numbers: Sequence[int] | None = None) -> Iterator[None]:
    """Name the file, and count rows from its beginning instead of the batch's, which may have ``numbers`` only."""
    try:
        yield
    except (ValueError, TypeError) as error:
        places = dict(enumerate(numbers or ()))

        def shifted(match: re.Match[str]) -> str:
            return f"row {places.get(int(match[1]), int(match[1])) + start}"

        text = re.sub(r"\brow (\d+)", shifted, str(error))
        text = text.replace("normalize=True", "--normalize").replace("logits=True", "--logits")
        raise ValueError(f"{path}: {text}") from error


def check_some_labelled(path: Path, n_labelled: int, n_rows: int) -> None:
    """Refuse a file in which no row has a label."""
    check_rows_present(path, n_rows)
    if not n_labelled:
        raise ValueError(f"{path} must have rows with a label; it has {n_rows:,} rows, and none of them has one.")


def about_skipped(n_missing: int, n_rows: int) -> str:
    """Say how many rows were left out since they have no label."""
    verbs = ("has", "is") if n_missing == 1 else ("have", "are")
    return f"{n_missing:,} of {n_rows:,} rows {verbs[0]} no label and {verbs[1]} left out."
