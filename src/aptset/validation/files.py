"""Files: what kind, which columns, and one clear line when they cannot be read."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".npy": "npy",
}


def check_kind(path: Path, suffix: str) -> str:
    """Return the kind of a file from its ending."""
    if suffix not in _KINDS:
        raise ValueError(
            f"{path} must end in one of {', '.join(_KINDS)} (.gz may follow); got {suffix or 'no ending'!r}."
        )
    return _KINDS[suffix]


def check_columns(path: Path, holds: bool, what: str, names: list[Any]) -> None:
    """Refuse a file without the columns that are needed."""
    if not holds:
        shown = ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")
        raise ValueError(f"{path} must have {what}; it has {shown or 'none'}.")


def check_rows_present(path: Path, n_rows: int) -> None:
    """Refuse a file without rows."""
    if n_rows == 0:
        raise ValueError(f"{path} must have at least one row; it has a header only, or nothing.")


def check_labels_present(path: Path, labels: Sequence[str | None], start: int, classes: list[str], column: str) -> None:
    """Refuse missing labels and labels that no column of probabilities stands for."""
    known = set(classes)
    for number, label in enumerate(labels):
        if label not in known:
            what = "is missing" if label is None else f"is {label!r}, which no column of probabilities stands for"
            raise ValueError(
                f"{path}, row {start + number}, column {column!r}: the label {what}. The classes are "
                f"{', '.join(classes[:8])}{', ...' if len(classes) > 8 else ''}."
            )


def check_exists(path: Path) -> Path:
    """Refuse a file that is not there."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be a file; there is none of that name.")
    return path


def check_target_file(path: Path) -> Path:
    """Return where to write: what a link points to; refuse devices, pipes and folders that are not there."""
    final = path.resolve()
    if final.exists() and not final.is_file():
        raise OSError(f"{path} must be a file that can be replaced; it is a folder, a pipe or a device.")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{path} must be in a folder that exists; {final.parent} is none.")
    return final


def check_sets_file(path: Path, names: list[str], classes: list[str]) -> str:
    """Return the kind of a file of sets; refuse endings, columns and labels that it could not hold."""
    kind = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"{path} must end in .parquet or .csv.")
    taken = sorted({"size", "set"} & set(names))
    if taken:
        raise ValueError(f"{path} must have room for the columns size and set; the input has {taken} already. Rename.")
    barred = [name for name in classes if "|" in name]
    if kind == "csv" and barred:
        raise ValueError(f"{path} joins labels by |, but {barred[0]!r} holds one. Write .parquet instead.")
    return kind


def check_no_missing_labels(path: Path, column: str, labels: list[Any]) -> None:
    """Refuse rows whose true label is unknown."""
    if None in labels:
        raise ValueError(f"{path}, row {labels.index(None)}, column {column!r}: the label is missing.")


@contextmanager
def nearest_row_error(path: Path) -> Iterator[None]:
    """Turn a reader's error into one line that names the file, and the row where a CSV breaks."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, EOFError, OSError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) or str(path) in str(error):
            raise
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path}{_where_csv_breaks(path, first_line)} cannot be read: {first_line}") from error


def _where_csv_breaks(path: Path, message: str) -> str:
    """Return ", row r" for a value that is no number or a row with too few or too many cells; rows count from 0."""
    import pyarrow as pa

    value = re.search(r"column #(\d+): .*invalid value '(.*)'", message)
    cells = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if value is None and cells is None:
        return ""
    with pa.input_stream(str(path), compression="detect") as stream, io.TextIOWrapper(stream, errors="replace") as text:
        for number, row in enumerate(csv.reader(text)):
            if value and len(row) > int(value[1]) and row[int(value[1])] == value[2] and number > 0:
                return f", row {number - 1}"
            if cells and len(row) == int(cells[2]) and number > 0:
                return f", row {number - 1}"
    return ""


def check_same_classes(path: Path, found: list[str], wanted: list[str]) -> list[int]:
    """Return where each class of the calibration is among the columns of a file."""
    if sorted(found) != sorted(wanted):
        missing = [name for name in wanted if name not in found]
        extra = [name for name in found if name not in wanted]
        raise ValueError(
            f"{path} must have one column of probabilities for each class of the calibration; missing "
            f"{missing[:6]}, unknown {extra[:6]}."
        )
    return [found.index(name) for name in wanted]


@contextmanager
def shifted_rows(path: Path, start: int) -> Iterator[None]:
    """Name the file, and count rows from its beginning instead of the batch's."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.sub(r"\brow (\d+)", lambda match: f"row {int(match[1]) + start}", str(error))
        raise ValueError(f"{path}: {text.replace('normalize=True', '--normalize')}") from error


def check_target(path: Path, target: str, missing: NDArray[np.bool_]) -> None:
    """Refuse rows without a label."""
    if missing.any():
        raise ValueError(
            f"{path}, row {int(np.argmax(missing))}, column {target!r}: the label is missing. Drop such rows first."
        )


def check_model_name(name: str, find: Any, names: list[str] | None = None) -> Any:
    """Return a model by its name, or say which names there are."""
    try:
        found = find()
    except (ImportError, KeyError, TypeError) as error:
        known = f"one of {', '.join(names)} or module:object" if names else "module:object"
        raise ValueError(f"--model must be {known}; got {name!r} ({error}).") from error
    if found is None:
        raise ValueError(f"--model must be module:object; there is no such object: {name!r}.")
    return found
