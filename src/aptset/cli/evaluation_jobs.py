"""What ``aptset evaluate`` does: judge a file of sets in one pass, in memory that does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aptset.arrow.layout import filled_numbers
from aptset.cli.checks import (
    check_columns,
    check_distinct_members,
    check_label_column,
    check_row_count,
    check_rows_present,
    check_sets_column,
    check_which_sets,
)
from aptset.cli.delimited import nearest_row_error
from aptset.cli.reading import (
    Keys,
    arrow_batches,
    as_texts,
    count_of,
    csv_batches,
    key_columns,
    kind_of,
    names_of,
    only_empty_is_missing,
)
from aptset.core.files import as_utf8
from aptset.core.progress import counting
from aptset.core.validate import check_alpha
from aptset.metrics.evaluation import Evaluation
from aptset.metrics.running_sums import Codes, RunningSums

_LONG_GROUP = 4_096  # rows of a row group from which on it is worth a batch of its own


def evaluate_file(
    path: Path, label: str, alpha: float | None, group: str | None = None, progress: bool = False
) -> Evaluation:
    """Judge the sets of a file against the labels in it."""
    return evaluate_files([(path, ())], label, alpha, group, progress)


def evaluate_files(
    files: Iterable[tuple[Path, Keys]],
    label: str,
    alpha: float | None,
    group: str | None = None,
    progress: bool = False,
) -> Evaluation:
    """Judge the sets of several files as if they stood in one; each comes with what its folders say of its rows."""
    if alpha is not None:
        check_alpha(alpha)
    sums, rows, path = RunningSums(), 0, Path()
    Thread(target=_load_ahead).start()
    for path, keys in files:
        for some in outcomes_of(path, keys, label, alpha, group, progress):
            sums.add(some.sizes, some.covered, some.held, some.truth, some.groups)
            rows += len(some.covered)
    check_rows_present(path, rows)
    return sums.evaluation(alpha)


def _load_ahead() -> None:
    """Load what intervals need at the end, while rows are read; they say it if it cannot be loaded."""
    with suppress(Exception):
        import_module("scipy.special")


class Outcomes(NamedTuple):
    """Some rows of a file of sets: the sizes, whether each holds its label, all labels held, the truth, the groups.

    And the texts of other columns that were wanted.
    """

    sizes: NDArray[np.int64]
    covered: NDArray[np.bool_]
    held: set[Any]
    truth: Codes
    groups: Codes | None
    others: list[list[str | None]]


def outcomes_of(
    path: Path,
    keys: Keys,
    label: str,
    alpha: float | None,
    group: str | None,
    progress: bool,
    others: Sequence[str] = (),
    may_lack_labels: bool = False,
    way_out: str = "",
) -> Iterator[Outcomes]:
    """Yield what became of the rows of a file, in order; ``way_out`` follows the words that refuse a missing label."""
    rows = 0
    with nearest_row_error(path):
        check_columns(path, kind_of(path) in ("csv", "parquet", "arrow"), "an ending: .parquet, .csv or .arrow", [])
        said, own = count_of(path), names_of(path)  # a quote that does not close is named before anything else
        names = [*own, *key_columns(keys, own, 0)]
        sets = check_which_sets(path, own, alpha)
        columns = [sets, label, *([group] if group else []), *others]
        for name in columns:
            check_columns(path, names.count(name) == 1, f"exactly one column {name!r}", names, [name])
        with counting(said, "rows", progress) as count:
            for batch in _with_keys(_batches(path, [name for name in columns if name in own]), keys, own):
                truth = _codes(batch.column(label))
                if not may_lack_labels:
                    check_label_column(path, label, truth, rows, way_out)
                by = None if group is None else _codes(batch.column(group))
                texts = [as_texts(batch.column(name)) for name in others]
                yield Outcomes(*_outcome(path, rows, batch.column(sets), truth), truth, by, texts)
                rows += batch.num_rows
                count(batch.num_rows)
        check_row_count(path, rows, rows if said is None else said)


def _with_keys(batches: Iterator[pa.RecordBatch], keys: Keys, own: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for name, column in key_columns(keys, own, batch.num_rows).items():
            batch = batch.append_column(name, column)
        yield batch


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys(columns))
    if kind_of(path) == "parquet":
        yield from _parquet_batches(path, wanted)
    elif kind_of(path) == "arrow":
        yield from (batch.select(wanted) for batch in arrow_batches(path))
    else:
        options = only_empty_is_missing(dict.fromkeys(wanted, pa.string()))
        options.include_columns = wanted
        yield from csv_batches(path, options)


def _parquet_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield texts as the file holds them: each once, and its number for every row; a row group has its own numbers.

    Where row groups are short, they are read together, as plain texts.
    """
    said = pq.ParquetFile(as_utf8(path))
    n_groups, leaves = said.num_row_groups, said.schema
    is_long = said.metadata.num_rows >= _LONG_GROUP * n_groups
    texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING" and leaf.path.split(".")[0] in columns]
    file = pq.ParquetFile(as_utf8(path), pre_buffer=False, read_dictionary=texts if is_long else None)
    one_by_one = is_long or "dictionary" in str(said.schema_arrow)  # lists with several such are not read at once
    for groups in [[number] for number in range(n_groups)] if one_by_one else [list(range(n_groups))]:
        yield from file.iter_batches(65_536, row_groups=groups, columns=columns)


def _codes(column: pa.Array) -> Codes:
    """Return values as texts, each of them once; a number is the same text in every kind of file."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = as_texts(encoded.dictionary)
    known = {text: number for number, text in enumerate(dict.fromkeys([*texts, None]))}
    places = np.array([known[text] for text in texts] + [known[None]], dtype=np.intp)
    return Codes(places[filled_numbers(encoded.indices, len(texts))], list(known))


def _outcome(
    path: Path, start: int, column: pa.Array, truth: Codes
) -> tuple[NDArray[np.int64], NDArray[np.bool_], set[Any]]:
    """Return the size of each set, whether it holds the true label, and all labels that sets hold."""
    if pa.types.is_dictionary(column.type):  # texts as Parquet holds them
        column = column.cast(column.type.value_type)
    kind = check_sets_column(path, column.type)
    lists: Any = column if kind == "lists" else pc.split_pattern(column.cast(pa.string()), "|")
    lengths = filled_numbers(pc.list_value_length(lists), 0).astype(np.int64)
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
    held = {members.names[code] for code in np.flatnonzero(np.bincount(members.of_rows)).tolist()}
    return np.bincount(row, minlength=len(lengths)), covered, held
