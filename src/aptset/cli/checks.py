"""What is in a file: its columns, its labels, its sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.arrow.formats import check_rows_present
from aptset.core.labels import Coded
from aptset.core.levels import check_level, shown_alpha


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


def check_one_model(path: Path, calibration: Any) -> Any:
    """Return a calibration that files can be asked with: a file holds what one model says."""
    if hasattr(calibration, "folds"):
        way_out = (
            "Make one with `aptset run --calibration split`."
            if path.is_dir()
            else "Load it in Python: aptset.load(path).predict_set([probabilities of fold 1, of fold 2, ...])."
        )
        raise ValueError(
            f"{path} must hold the calibration of one model for this command; it holds {len(calibration.folds)} folds, "
            f"each with a model of its own. {way_out}"
        )
    return calibration


def check_flat_columns(path: Path, schema: Any) -> None:
    """Refuse columns that a CSV cannot hold."""
    import pyarrow as pa

    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise ValueError(
            f"{path} must hold plain columns, being CSV; column {nested[0]!r} of the input holds lists or records. "
            "Write .parquet instead, or drop the column."
        )


def check_labels_present(path: Path, labels: Coded | None, start: int, classes: Sequence[Any], column: str) -> None:
    """Refuse missing labels and labels that no column of probabilities stands for; None among them may be missing."""
    known = set(classes)
    if labels is None or known.issuperset(labels.values):
        return
    for number, label in enumerate(labels.in_full()):
        if label not in known:
            if label is None:
                raise ValueError(
                    f"{path}, row {start + number}, column {column!r}: the label is missing. Pass --skip-unlabelled to "
                    "leave such rows out."
                )
            named = [str(one) for one in classes if one is not None]
            raise ValueError(
                f"{path}, row {start + number}, column {column!r}: the label is {label!r}, which no column of "
                f"probabilities stands for. The classes are {', '.join(named[:8])}{', ...' if len(named) > 8 else ''}."
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


def check_label_column(path: Path, column: str, labels: Any, start: int, way_out: str) -> None:
    """Refuse rows whose true label is unknown; labels are positions in names."""
    missing = labels.of_rows == labels.names.index(None)
    if missing.any():
        row = start + int(np.argmax(missing))
        raise ValueError(f"{path}, row {row}, column {column!r}: the label is missing.{way_out}")


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
    import pyarrow as pa

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


def check_same_monitor(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with the state of another calibration, level, alarm or column."""
    if before != now:
        differ = ", ".join(
            f"{name} {before[name]!r} there and {now[name]!r} here" for name in now if before[name] != now[name]
        )
        raise ValueError(
            f"{path} must be the state of a monitor of this calibration: {differ}. Pass the calibration, "
            "--alpha, --alarm, --label and --groups that it was started with, or start again with another "
            "--state."
        )


def check_log(path: Path, log: Any) -> dict[str, Any]:
    """Return what a state says about the rows it has seen."""
    kinds = {"rows": int, "columns": list, "digest": str, "calibration": str, "label": str, "groups": str | None}
    kinds |= {"before": int, "order": str | None, "time": str | None, "judged": str | None, "labels": str | None}
    is_log = isinstance(log, dict) and all(isinstance(log.get(name), kind) for name, kind in kinds.items())
    if not is_log or min(log["rows"], log["before"]) < 0:
        raise ValueError(
            f"{path} does not say which rows it has seen: it was saved in Python or by an older version, or "
            "it is damaged. Start again with another --state."
        )
    checked: dict[str, Any] = log
    return checked


def check_rotated_state(path: Path, holds: bool) -> None:
    """Refuse to go on with a new log where nothing was begun."""
    if not holds:
        raise FileNotFoundError(
            f"--rotated needs a state file to go on with; there is no {path}. Leave --rotated out for the first log."
        )


def check_is_rotated(path: Path, seen: int, is_new: bool) -> None:
    """Refuse to count rows twice."""
    if not is_new:
        raise ValueError(
            f"{path} must be a new log, with --rotated; it begins with the {seen:,} rows that the monitor has seen, "
            "which would count twice. Leave --rotated out."
        )


def check_begins_with(path: Path, seen: int, rows: int, is_same: bool, missing: Sequence[str]) -> None:
    """Refuse a file that does not begin with the rows that were seen: nobody knows which of its rows are new."""
    if not is_same:
        what = f"it has {rows:,} rows" if rows < seen else f"its first {seen:,} rows are others"
        what = f"it lacks their columns {', '.join(map(repr, missing[:6]))}" if missing else what
        raise ValueError(
            f"{path} must begin with the {seen:,} rows that the monitor has seen; {what}. If the log was "
            "rotated, and every row in it is new, pass --rotated once. If rows were changed or lost, start "
            "again with another --state."
        )


def check_same_labels(path: Path, is_same: bool) -> None:
    """Refuse labels that are others than those that were judged: a row is judged once."""
    if not is_same:
        raise ValueError(
            f"{path} must keep the labels that the monitor was given; at least one of them was changed or is "
            "gone since the last look. Empty cells may be filled; for corrected labels start again with "
            "another --state."
        )


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def check_mature_text(mature: str) -> int | timedelta:
    """Return how long labels are waited for: 500 predictions, or 30d."""
    parsed = re.fullmatch(r"(\d{1,9})([smhdw]?)", mature)
    if parsed is None:
        raise ValueError(
            "--mature must be a whole number of predictions, such as 500, or a time in seconds, minutes, hours, days "
            f"or weeks, such as 90s, 45m, 12h, 30d or 8w; got {mature!r}."
        )
    number = int(parsed[1])
    return timedelta(**{_UNITS[parsed[2]]: number}) if parsed[2] else number


def check_which_order(order: str | None, time: str | None, mature: int | timedelta | None) -> None:
    """Refuse columns of times without a time to wait for, and the other way round."""
    if (time is None) == isinstance(mature, timedelta):
        got = f"--time {time} with --mature {mature}" if time is not None else f"--mature {mature} without --time"
        raise ValueError(
            "--time COLUMN and a time to wait for (--mature 30d) must come together: rows are then judged in the order "
            f"of that column, 30 days later; got {got}. Without times pass --order COLUMN, or a file whose rows stand "
            "in the order of prediction, and --mature 500."
        )
    if order is not None and mature is None:
        raise ValueError(
            f"--order {order} must come with --mature, which says how long a missing label is waited for: a "
            "number of predictions (500), or a time (30d, with --time)."
        )


def check_numbers_column(path: Path, column: str, texts: list[str | None], start: int) -> list[int]:
    """Return the numbers of predictions."""
    for row, text in enumerate(texts):
        if text is None or not re.fullmatch(r"\d{1,18}", text):
            raise ValueError(
                f"{path}, row {start + row}, column {column!r}: it must hold the number of the prediction, 0, 1, 2, "
                f"...; got {text!r}."
            )
    return [int(text or 0) for text in texts]


def check_some_labelled(path: Path, n_labelled: int, n_rows: int) -> None:
    """Refuse a file in which no row has a label."""
    check_rows_present(path, n_rows)
    if not n_labelled:
        raise ValueError(f"{path} must have rows with a label; it has {n_rows:,} rows, and none of them has one.")


def about_skipped(n_missing: int, n_rows: int) -> str:
    """Say how many rows were left out since they have no label."""
    verbs = ("has", "is") if n_missing == 1 else ("have", "are")
    return f"{n_missing:,} of {n_rows:,} rows {verbs[0]} no label and {verbs[1]} left out."
