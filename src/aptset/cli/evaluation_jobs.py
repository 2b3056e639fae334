"""What ``aptset evaluate`` does: judge a file of sets in one pass, in memory that does not grow with the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aptset import Evaluation
from aptset.arrow.formats import UNREADABLE, TableFile, check_row_count
from aptset.arrow.sources import as_texts, filled_numbers
from aptset.cli.files import about_skipped, check_some_labelled, lacks
from aptset.cli.options import counting
from aptset.core.labels import plain_label
from aptset.core.levels import check_level, shown_alpha
from aptset.core.validate import warn_caller
from aptset.metrics.evaluate import Codes, RunningSums


def evaluate_files(
    files: Iterable[TableFile],
    label: str,
    alpha: Any,
    group: str | None = None,
    progress: bool = False,
    skipped: list[int] | None = None,
    classes: Sequence[Any] | None = None,
) -> Evaluation:
    """Judge the sets of several files against the labels in them, as if they stood in one.

    Rows without a label are left out, and counted, where there is a list ``skipped``; labels are held against the
    ``classes`` of the model, where they are known.
    """
    if alpha is not None:
        check_level(alpha)
    sums, rows, path = RunningSums(), 0, Path()
    Thread(target=_load_ahead).start()
    for file in files:
        path = file.path
        way_out = " Pass --skip-unlabelled to leave such rows out."
        for outcomes in outcomes_of(file, label, alpha, group, progress, way_out=way_out, skipped=skipped):
            sums.add(outcomes.sizes, outcomes.covered, outcomes.held, outcomes.truth, outcomes.groups)
            rows += len(outcomes.covered)
    check_some_labelled(path, rows, rows + sum(skipped or [0]))
    named = [name for name in sums.by_label.values if name is not None]
    if rows >= 20 and sums.members and named and not sums.members & set(named):
        warn_caller(
            f"{path}: no set holds any of the labels in column {label!r}, which are {', '.join(map(repr, named[:4]))}; "
            f"the sets hold {', '.join(map(repr, sorted(sums.members)[:4]))}. Are they the same classes?"
        )
    evaluation = sums.evaluation(alpha, classes=None if classes is None else [plain_label(str(one)) for one in classes])
    said = [about_skipped(sum(skipped), rows + sum(skipped))] if skipped and sum(skipped) else []
    return replace(evaluation, remarks=(*said, *evaluation.remarks))


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
    file: TableFile,
    label: str,
    alpha: Any,
    group: str | None,
    progress: bool,
    others: Sequence[str] = (),
    may_lack_labels: bool = False,
    way_out: str = "",
    skipped: list[int] | None = None,
) -> Iterator[Outcomes]:
    """Yield what became of the rows of a file, in order; ``way_out`` follows the words that refuse a missing label.

    With ``skipped`` rows without a label are left out, and their numbers are put there.
    """
    rows, n_skipped, path = 0, 0, file.path
    try:
        said = file.rows  # a quote that does not close is named before anything else
        if said is None:
            raise lacks(path, "an ending: .parquet, .csv or .arrow", [])
        own = file.names
        names = file.all_names
        sets = check_which_sets(path, own, alpha)
        columns = [sets, label, *([group] if group else []), *others]
        for name in columns:
            if names.count(name) != 1:
                raise lacks(path, f"exactly one column {name!r}", names, [name])
        with counting(said, progress) as count:
            for batch in file.batches(list(dict.fromkeys(name for name in columns if name in own)), coded=True):
                for name, column in file.key_columns(batch.num_rows).items():
                    batch = batch.append_column(name, column)
                if skipped is not None:
                    n_rows = batch.num_rows
                    batch = batch.filter(batch.column(label).is_valid())
                    skipped.append(n_rows - batch.num_rows)
                    n_skipped += skipped[-1]
                truth = _labels(batch.column(label))
                if not may_lack_labels and (missing := truth.of_rows == truth.names.index(None)).any():
                    row = rows + int(np.argmax(missing))
                    raise ValueError(f"{path}, row {row}, column {label!r}: the label is missing.{way_out}")
                by = None if group is None else _codes(batch.column(group))
                texts = [as_texts(batch.column(name)) for name in others]
                yield Outcomes(*_outcome(path, rows, batch.column(sets), truth), truth, by, texts)
                rows += batch.num_rows
                count(batch.num_rows)
        check_row_count(path, rows + n_skipped, said)
    except UNREADABLE as error:
        file.refuse(error)


def _codes(column: pa.Array) -> Codes:
    """Return values as texts, each of them once; a number is the same text in every kind of file."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = as_texts(encoded.dictionary)
    known = {text: number for number, text in enumerate(dict.fromkeys([*texts, None]))}
    places = np.array([known[text] for text in texts] + [known[None]], dtype=np.intp)
    return Codes(places[filled_numbers(encoded.indices, len(texts))], list(known))


def _labels(column: pa.Array) -> Codes:
    """Return labels as texts, one for each label: 1.0 is 1, and true is True."""
    codes = _codes(column)
    names = [None if name is None else plain_label(name) for name in codes.names]
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    places = np.array([known[name] for name in names], dtype=np.intp)
    return Codes(places[codes.of_rows], list(known))


def _outcome(
    path: Path, start: int, column: pa.Array, truth: Codes
) -> tuple[NDArray[np.int64], NDArray[np.bool_], set[Any]]:
    """Return the size of each set, whether it holds the true label, and all labels that sets hold."""
    if pa.types.is_dictionary(column.type):  # texts as Parquet holds them
        column = column.cast(column.type.value_type)
    kind = check_sets_column(path, column.type)
    lists: Any = column if kind == "lists" else pc.split_pattern(column.cast(pa.string()), "|")
    lengths = filled_numbers(pc.list_value_length(lists), 0).astype(np.int64)
    members = _labels(pc.list_flatten(lists))
    row = np.repeat(np.arange(len(lengths)), lengths)
    if kind == "texts":  # "" is no label there: an empty set, or two bars side by side
        named = np.array([name not in ("", None) for name in members.names])[members.of_rows]
        members, row = Codes(members.of_rows[named], members.names), row[named]
    check_distinct_members(path, start, row, members.of_rows, len(members.names))
    known = {name: number for number, name in enumerate(truth.names)}
    in_truth = np.array([-1 if name is None else known.get(name, -1) for name in members.names], dtype=np.intp)
    covered = np.zeros(len(lengths), dtype=np.bool_)
    covered[row[in_truth[members.of_rows] == truth.of_rows[row]]] = True
    held = {members.names[code] for code in np.flatnonzero(np.bincount(members.of_rows)).tolist()}
    return np.bincount(row, minlength=len(lengths)), covered, held


def check_which_sets(path: Path, names: list[str], alpha: Any) -> str:
    """Return the column of sets: that of the level, where columns carry one; "set" where there is one level."""
    if isinstance(alpha, dict):
        name = f"set {shown_alpha(check_level(alpha))}"
        return name if name in names else "set"
    of_levels = [name for name in names if re.fullmatch(r"set \d[\d.e-]*", name)]
    called = () if alpha is None else (f"set {float(alpha)!r}", f"set {alpha:g}")  # all digits where six are too few
    for name in called:
        if name in of_levels:
            return name
    if of_levels and (len(of_levels) > 1 or "set" in names or alpha is not None):
        shown = " or ".join(f"--alpha {name.removeprefix('set ')}" for name in of_levels[:4])
        raise ValueError(f"{path} has the columns {', '.join(map(repr, of_levels[:4]))}: say which by {shown}.")
    return of_levels[0] if of_levels else "set"


def check_sets_column(path: Path, kind: Any) -> str:
    """Return how a column holds sets: as lists, or as texts joined by |."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "lists"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise ValueError(f"{path} must have sets in its column 'set', lists or texts joined by |; it has {kind}.")
    return "texts"


_MOST_MARKS = 2**24


def check_distinct_members(
    path: Path, start: int, row: NDArray[np.intp], members: NDArray[np.intp], n_names: int
) -> None:
    """Refuse sets that hold a label twice; rows stand upward."""
    pairs, n_marks = row * n_names + members, (int(row[-1]) + 1) * n_names if len(row) else 0
    if n_marks <= _MOST_MARKS:  # a mark for every label of every row: sooner than sorting, where they are not too many
        marks = np.zeros(n_marks, dtype=np.bool_)
        marks[pairs] = True
        if np.count_nonzero(marks) == len(pairs):
            return
    pairs.sort()
    twice = np.flatnonzero(pairs[1:] == pairs[:-1])
    if len(twice):
        number = start + int(pairs[twice[0]] // n_names)
        raise ValueError(f"{path}, row {number}, column 'set': labels of a set must be distinct; one appears twice.")
