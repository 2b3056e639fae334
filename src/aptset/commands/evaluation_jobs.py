"""What ``aptset evaluate`` does: judge a file of sets in one pass, in memory that does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.commands.checks import (
    check_columns,
    check_distinct_members,
    check_label_column,
    check_row_count,
    check_rows_present,
    check_sets_column,
)
from aptset.commands.delimited import (
    count_rows,
    header_of,
    nearest_row_error,
    open_text,
)
from aptset.commands.reading import arrow_batches, as_texts, kind_of, only_empty_is_missing, with_newlines
from aptset.judging.evaluation import Evaluation
from aptset.judging.running_sums import Codes, RunningSums
from aptset.validation.paths import as_utf8
from aptset.validation.settings import check_alpha


def evaluate_file(path: Path, label: str, alpha: float | None, group: str | None = None) -> Evaluation:
    """Judge the sets of a file against the labels in it."""
    if alpha is not None:
        check_alpha(alpha)
    sums, rows = RunningSums(), 0
    with nearest_row_error(path):
        said, names = _count(path), _names(path)  # a quote that does not close is named before anything else
        of_level = "set" if alpha is None else f"set {alpha:g}"  # where a file holds the sets of several levels
        sets = of_level if "set" not in names and of_level in names else "set"
        columns = [sets, label, *([group] if group else [])]
        for name in columns:
            check_columns(path, names.count(name) == 1, f"exactly one column {name!r}", names)
        for batch in _batches(path, columns):
            truth = _codes(batch.column(label))
            check_label_column(path, label, truth, rows)
            by = None if group is None else _codes(batch.column(group))
            sums.add(*_outcome(path, rows, batch.column(sets), truth), truth, by)
            rows += batch.num_rows
        check_row_count(path, rows, rows if said is None else said)
    check_rows_present(path, rows)
    return sums.evaluation(alpha)


def _names(path: Path) -> list[str]:
    if kind_of(path) == "parquet":
        return list(pq.ParquetFile(as_utf8(path)).schema_arrow.names)
    if kind_of(path) == "csv":
        return header_of(path)
    check_columns(path, kind_of(path) == "arrow", "the columns of a table: .parquet, .csv or .arrow", [])
    return next((list(batch.schema.names) for batch in arrow_batches(path)), [])


def _count(path: Path) -> int | None:
    """Return the number of rows that a file says it has."""
    if kind_of(path) == "csv":
        return count_rows(path)
    return int(pq.ParquetFile(as_utf8(path)).metadata.num_rows) if kind_of(path) == "parquet" else None


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys(columns))
    if kind_of(path) == "parquet":
        yield from pq.ParquetFile(as_utf8(path), pre_buffer=False).iter_batches(65_536, columns=wanted)
    elif kind_of(path) == "arrow":
        yield from (batch.select(wanted) for batch in arrow_batches(path))
    else:
        options = only_empty_is_missing(dict.fromkeys(wanted, pa.string()))
        options.include_columns = wanted
        read = pa_csv.ReadOptions(block_size=4 << 20)
        yield from pa_csv.open_csv(
            open_text(path), read_options=read, parse_options=with_newlines(), convert_options=options
        )


def _codes(column: pa.Array) -> Codes:
    """Return values as texts, each of them once; a number is the same text in every kind of file."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = as_texts(encoded.dictionary)
    known = {text: number for number, text in enumerate(dict.fromkeys([*texts, None]))}
    places = np.array([known[text] for text in texts] + [known[None]], dtype=np.intp)
    of_rows = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.intp)
    return Codes(places[of_rows], list(known))


def _outcome(
    path: Path, start: int, column: pa.Array, truth: Codes
) -> tuple[NDArray[np.int64], NDArray[np.bool_], set[Any]]:
    """Return the size of each set, whether it holds the true label, and all labels that sets hold."""
    kind = check_sets_column(path, column.type)
    lists: Any = column if kind == "lists" else pc.split_pattern(column.cast(pa.string()), "|")
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    members = _codes(pc.list_flatten(lists))
    row = np.repeat(np.arange(len(lengths)), lengths)
    if kind == "texts":  # "" is no label there: an empty set, or two bars side by side
        some = np.array([name not in ("", None) for name in members.names])[members.of_rows]
        members, row = Codes(members.of_rows[some], members.names), row[some]
    check_distinct_members(path, start, row, members.of_rows, len(members.names))
    known = {name: number for number, name in enumerate(truth.names)}
    in_truth = np.array([-1 if name is None else known.get(name, -1) for name in members.names], dtype=np.intp)
    covered = np.zeros(len(lengths), dtype=np.bool_)
    covered[row[in_truth[members.of_rows] == truth.of_rows[row]]] = True
    held = {members.names[code] for code in np.unique(members.of_rows).tolist()}
    return np.bincount(row, minlength=len(lengths)), covered, held
