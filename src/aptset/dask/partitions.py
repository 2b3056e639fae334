"""Partitions of dask collections as tables of Arrow: what is planned here, and what workers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa

from aptset.core.groupings import refuse_overlapping
from aptset.core.groups import groups_overlap, labels_decide

_KINDS = "a dask DataFrame (with columns of probabilities), or a dask array of shape (rows, classes)"


def check_no_columns(probabilities: Any, prefix: Any) -> None:
    """Refuse names of columns beside an array, which has none."""
    for name, value in (("probabilities", probabilities), ("prefix", prefix)):
        if value is not None:
            raise ValueError(
                f"{name} must be left out where rows are an array: all its columns are probabilities; got {value!r}. "
                "Pass classes=... to name them."
            )


def check_cut_alike(n_values: float, n_rows: float, blocks_of_values: int, blocks: int, name: str) -> None:
    """Refuse values that cannot stand beside the rows of an array."""
    if np.isnan(n_values) or np.isnan(n_rows):
        if blocks_of_values != blocks:
            raise ValueError(
                f"{name} must be cut into blocks as the rows are, since their lengths are not known; got "
                f"{blocks_of_values} blocks beside {blocks}. Call compute_chunk_sizes() on both first."
            )
    elif n_values != n_rows:
        raise ValueError(f"{name} must have one value a row; got {int(n_values)} for {int(n_rows)} rows.")


PROBABILITIES = "probabilities"


@dataclass(frozen=True)
class FramePartitions:
    """A dask DataFrame; a worker makes a table of the columns that are asked for."""

    frame: Any
    schema: pa.Schema

    @classmethod
    def of(cls, frame: Any, columns: dict[str, Any], probabilities: Any, prefix: Any, classes: Any) -> FramePartitions:
        """Find the types of the columns; if the description does not tell them, in the first partition that does."""
        for argument, name in columns.items():
            if name is not None and not isinstance(name, str):
                raise TypeError(
                    f"{argument} must name a column where rows are a DataFrame; got {type(name).__name__}. Assign it "
                    "to a column first."
                )
        others = [name for name in frame.columns if not isinstance(name, str)]
        if others:
            raise ValueError(
                f"columns must be called by texts, as Arrow wants; got {others[0]!r}. Pass frame.rename(columns=str)."
            )
        schema = pa.schema([(name, _type_of(frame._meta[name])) for name in frame.columns])
        given = [probabilities] if isinstance(probabilities, str) else probabilities
        free = [name for name in frame.columns if name not in columns.values()] if given is None else list(given)
        unclear = [name for name in free if name in schema.names and _is_unclear(schema.field(name).type, classes)]
        return cls(frame, _looked_up(frame, schema, unclear) if prefix is None else schema)

    @property
    def divisions(self) -> tuple[Any, ...]:
        """Between which labels of the index each partition is."""
        return tuple(self.frame.divisions)

    @property
    def first_rows(self) -> list[int]:
        """The index says which rows these are."""
        return [0] * int(self.frame.npartitions)

    def empty(self) -> tuple[Any, ...]:
        """Return a partition without rows."""
        return (self.frame._meta,)

    def blocks(self, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Return what a worker needs of each partition; columns that nobody asks for are not even read."""
        return [(part,) for part in _parts(self.frame if names is None else self.frame[list(names)])]

    def reader(self, names: Sequence[str]) -> FrameReader:
        """Return what makes a table of these columns."""
        return FrameReader(pa.schema([self.schema.field(name) for name in names]))


@dataclass(frozen=True)
class FrameReader:
    """Turns a partition of a DataFrame into a table of Arrow, and back into what travels along."""

    schema: pa.Schema

    def __call__(self, part: pd.DataFrame) -> pa.Table:
        """Return the table; a column without any value has the type that it has elsewhere."""
        table = pa.Table.from_pandas(part[self.schema.names], preserve_index=False).replace_schema_metadata()
        for place, field in enumerate(self.schema):
            if pa.types.is_null(table.schema.field(place).type):
                table = table.set_column(place, field.name, pa.nulls(len(table), field.type))
        return table

    def rest(self, left_behind: Sequence[str], first_row: int, part: pd.DataFrame) -> pd.DataFrame:
        """Return the columns that travel along, as they came."""
        return part.drop(columns=list(left_behind))


@dataclass(frozen=True)
class ArrayPartitions:
    """A dask array of probabilities, with blocks of labels, groups and ids beside its own."""

    array: Any
    columns: dict[str, list[Any]]
    schema: pa.Schema

    @classmethod
    def of(cls, array: Any, columns: dict[str, Any]) -> ArrayPartitions:
        """Cut everything alike."""
        if len(array.shape) != 2 or np.isnan(array.shape[1]):
            raise ValueError(f"rows must be {_KINDS}, whose number is known; got an array of shape {array.shape}.")
        array = array.rechunk({1: -1})
        needed = {name: values for name, values in columns.items() if values is not None or name == "labels"}
        given = {name: _beside(array, values, name) for name, values in needed.items()}
        of_rows = pa.list_(pa.from_numpy_dtype(array.dtype), int(array.shape[1]))
        return cls(array, given, pa.schema([(PROBABILITIES, of_rows), *((name, pa.null()) for name in given)]))

    @property
    def divisions(self) -> tuple[Any, ...]:
        """The numbers of the first rows of the blocks, and of the last row of all; None where they are not known."""
        n = self.array.shape[0]
        return (None,) * (len(self.first_rows) + 1) if np.isnan(n) else (*self.first_rows, max(n - 1, 0))

    @property
    def first_rows(self) -> list[int]:
        """The number of the first row of each block; 0 where it is not known."""
        return [int(start) for start in np.nan_to_num(np.cumsum([0, *self.array.chunks[0][:-1]]))]

    def empty(self) -> tuple[Any, ...]:
        """Return a partition without rows."""
        return (np.empty((0, self.array.shape[1]), self.array.dtype), *([] for _ in self.columns))

    def blocks(self, names: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """Return what a worker needs of each partition."""
        return list(zip(self.array.to_delayed().ravel(), *self.columns.values(), strict=True))

    def reader(self, names: Sequence[str]) -> ArrayReader:
        """Return what makes a table of blocks."""
        return ArrayReader(tuple(self.columns))


@dataclass(frozen=True)
class ArrayReader:
    """Turns a block of probabilities, and those of labels and so on, into a table of Arrow."""

    names: tuple[str, ...]

    def __call__(self, matrix: Any, *blocks: Any) -> pa.Table:
        """Return the table."""
        columns = [pa.Array.from_pandas(block) for block in blocks]
        for name, column in zip(self.names, columns, strict=True):
            if len(column) != len(matrix):
                raise ValueError(
                    f"{name} must be cut into blocks as the rows are; a block of {len(matrix)} rows has {len(column)}. "
                    "Call compute_chunk_sizes() on both first."
                )
        numbers = pa.array(np.ascontiguousarray(matrix).ravel())
        lists = pa.FixedSizeListArray.from_arrays(numbers, matrix.shape[1])
        return pa.table([lists, *columns], names=[PROBABILITIES, *self.names])

    def rest(self, left_behind: Sequence[str], first_row: int, matrix: Any, *blocks: Any) -> pd.DataFrame:
        """Return no columns, and the number of each row."""
        return pd.DataFrame(index=pd.RangeIndex(first_row, first_row + len(matrix)))


def partitions_of(
    rows: Any, columns: dict[str, Any], probabilities: Any, prefix: Any, classes: Any
) -> tuple[FramePartitions | ArrayPartitions, dict[str, Any]]:
    """Return the partitions of a collection, and how its columns are called in their tables.

    ``columns`` are labels, groups and ids: names of columns, or values for each row of an array.
    """
    refuse_overlapping(groups_overlap(columns.get("groups")), "batches", "Use aptset.calibrate.")
    by_label = {name: value for name, value in columns.items() if labels_decide(value)}
    others = {name: value for name, value in columns.items() if name not in by_label}
    if isinstance(rows, dask.dataframe.DataFrame):
        of_frame = FramePartitions.of(rows, others, probabilities, prefix, classes)
        return of_frame, {**columns, "probabilities": probabilities, "prefix": prefix}
    if not isinstance(rows, dask.array.Array):
        raise TypeError(
            f"rows must be {_KINDS}; got {type(rows).__module__}.{type(rows).__name__}. Rows in one process go to "
            "aptset.calibrate or aptset.calibrate_batches."
        )
    check_no_columns(probabilities, prefix)
    of_array = ArrayPartitions.of(rows, others)
    names = {name: name if name in of_array.columns else None for name in others}
    return of_array, {**names, **by_label, "probabilities": PROBABILITIES}


def _type_of(column: pd.Series) -> pa.DataType:
    """Return the type that a column will have, null where its description does not tell."""
    try:
        return pa.Array.from_pandas(column).type
    except (pa.ArrowException, TypeError, NotImplementedError):  # none of Arrow's: it can only travel along
        return pa.null()


def _is_unclear(kind: pa.DataType, classes: Any) -> bool:
    """Tell whether a column may hold lists, or holds lists whose length is not known."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return pa.types.is_null(kind) or (is_list and classes is None)


def _looked_up(frame: Any, schema: pa.Schema, unclear: Sequence[str]) -> pa.Schema:
    """Return the schema with the types of unclear columns, which a worker reads off the first rows that there are."""
    for part in _parts(frame[list(unclear)]) if unclear else []:
        for name, kind in dask.delayed(_types_in)(part).compute().items():
            schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
        unclear = [name for name in unclear if _is_unclear(schema.field(name).type, None)]
        if not unclear:
            break
    return schema


def _types_in(part: pd.DataFrame) -> dict[str, pa.DataType]:
    """Return the types of columns in a partition; lists as long as the first of them."""
    named = {}
    for name in part.columns:
        values = part[name].dropna().iloc[:1]
        kind = _type_of(values)
        if len(values) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            kind = pa.list_(kind.value_type, len(values.iloc[0]))
        named[name] = kind
    return named


def _beside(array: Any, values: Any, name: str) -> list[Any]:
    """Return values for each row in blocks, as the rows are cut."""
    if values is None or isinstance(values, str):
        raise TypeError(
            f"{name} must be an array with one value a row where rows are an array; got {values!r}. Names of columns "
            "go with a dask DataFrame."
        )
    if isinstance(values, dask.dataframe.Series):
        check_cut_alike(np.nan, array.shape[0], values.npartitions, array.numblocks[0], name)
        return _parts(values)
    if not isinstance(values, dask.array.Array):
        values = dask.array.from_array(np.asarray(values), chunks=-1)
    if len(values.shape) != 1:
        raise ValueError(f"{name} must have one value a row; got an array of shape {values.shape}.")
    check_cut_alike(values.shape[0], array.shape[0], values.numblocks[0], array.numblocks[0], name)
    is_known = not np.isnan(values.shape[0]) and not np.isnan(array.shape[0])
    return list((values.rechunk((array.chunks[0],)) if is_known else values).to_delayed())


def _parts(frame: Any) -> list[Any]:
    """Return the partitions of a frame, read by column where that can be; dask's optimizer would join some of them."""
    return list(frame.simplify().to_delayed(optimize_graph=False))
