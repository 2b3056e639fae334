"""Files: what kind, which columns, and one clear line when they cannot be read."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

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


def check_row_count(path: Path, found: int, wanted: int) -> None:
    """Refuse to go on with fewer or more rows than a file has."""
    if found != wanted:
        raise ValueError(f"{path} must give back every row: it has {wanted}, but {found} were read. Check its quotes.")


def check_utf8_columns(path: Path, table: Any) -> None:
    """Refuse texts of a CSV in another alphabet than UTF-8, which a reader that guesses takes for bytes."""
    import pyarrow as pa

    for name, column in zip(table.column_names, table.columns, strict=True):
        for row, value in enumerate(column.to_pylist() if pa.types.is_binary(column.type) else []):
            try:
                value.decode()
            except (AttributeError, UnicodeDecodeError) as error:
                if value is not None:
                    raise ValueError(
                        f"{path}, row {row} cannot be read: column {name!r} must be UTF-8 text. Save the file as such."
                    ) from error


def check_standard_input(stdin: Any) -> BinaryIO:
    """Return the bytes of standard input; refuse one that is closed."""
    if stdin is None or stdin.closed:
        raise OSError("- must be standard input that is open; it is closed. Pipe data in, or name a file.")
    stream: BinaryIO = stdin.buffer
    return stream


def check_flat_columns(path: Path, schema: Any) -> None:
    """Refuse columns that a CSV cannot hold."""
    import pyarrow as pa

    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise ValueError(
            f"{path} must hold plain columns, being CSV; column {nested[0]!r} of the input holds lists or records. "
            "Write .parquet instead, or drop the column."
        )


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
    """Refuse an input that is no file: a name that is not there, a folder, a pipe, a device, a circle of links."""
    as_utf8(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file; it is a folder. Name a file in it.")
    if path.exists():
        raise OSError(f"{path} must be a file; it is a pipe or a device. Pass - and redirect it to standard input.")
    if path.is_symlink():
        raise FileNotFoundError(f"{path} must be a file; it is a link to nothing, or to itself.")
    raise FileNotFoundError(f"{path} must be a file; there is none of that name.")


def check_plain_file(path: Path) -> Path:
    """Refuse what would block or could not be mapped, before it is opened."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(f"{path} must be a file; it is a pipe or a device. Copy its content to a file first.")
    return check_exists(path)


def check_target_file(path: Path) -> Path:
    """Return where to write: what a link points to; refuse devices, pipes and folders that are not there."""
    as_utf8(path)
    try:
        final = path.resolve()
        exists = final.exists()
    except (OSError, RuntimeError) as error:  # which of the two depends on the version of Python
        too_long = getattr(error, "errno", None) == errno.ENAMETOOLONG
        why = "a name of at most 255 bytes; it is longer" if too_long else "a file; it is a link to itself"
        raise OSError(f"{path} must be {why}.") from error
    if final.is_symlink():
        raise OSError(f"{path} must be a file; it is a link to itself.")
    if exists and not final.is_file():
        raise OSError(f"{path} must be a file that can be replaced; it is a folder, a pipe or a device.")
    if not final.parent.is_dir():
        raise FileNotFoundError(f"{path} must be in a folder that exists; {final.parent} is none.")
    if len(os.fsencode(final.name)) > 255:
        raise OSError(f"{path} must be a name of at most 255 bytes; it is longer.")
    return final


def as_utf8(path: str | Path) -> str:
    """Return a name for libraries that write every name in UTF-8, whatever the locale made of its bytes."""
    try:
        return os.fsencode(path).decode()
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must be a name that UTF-8 can write. Rename the file.") from error


def check_other_files(outs: Iterable[Path], inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write over what is read, whatever the two are called: links, ./, upper and lower case."""
    sources = [(name, found) for name in inputs if name is not None and (found := _identity(name)) is not None]
    for out in outs:
        target = _identity(out)
        for name, found in sources:
            if target is not None and os.path.samestat(target, found):
                what = "standard input" if str(name) == "-" else name
                raise ValueError(
                    f"{out} must be another file than the input, {what}: it would be replaced. Rename one."
                )


def _identity(name: str | Path) -> os.stat_result | None:
    """Return what tells a file from all others, or None if there is none."""
    with suppress(OSError, ValueError):
        return os.fstat(0) if str(name) == "-" else os.stat(name)
    return None


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


def check_label_column(path: Path, column: str, labels: Any, start: int) -> None:
    """Refuse rows whose true label is unknown; labels are positions in names."""
    missing = labels.of_rows == labels.names.index(None)
    if missing.any():
        row = start + int(np.argmax(missing))
        raise ValueError(f"{path}, row {row}, column {column!r}: the label is missing.")


def check_sets_column(path: Path, kind: Any) -> str:
    """Return how a column holds sets: as lists, or as texts joined by |."""
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "lists"
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise ValueError(f"{path} must have sets in its column 'set', lists or texts joined by |; it has {kind}.")
    return "texts"


def check_distinct_members(
    path: Path, start: int, row: NDArray[np.intp], members: NDArray[np.intp], n_names: int
) -> None:
    """Refuse sets that hold a label twice."""
    pairs = np.sort(row * n_names + members)
    twice = np.flatnonzero(pairs[1:] == pairs[:-1])
    if len(twice):
        number = start + int(pairs[twice[0]] // n_names)
        raise ValueError(f"{path}, row {number}, column 'set': labels of a set must be distinct; one is there twice.")


def check_same_classes(path: Path, found: list[str], wanted: list[str]) -> list[int]:
    """Return where each class of the calibration is among the columns of a file."""
    where = {name: column for column, name in enumerate(found)}
    if len(found) != len(wanted) or where.keys() != set(wanted):
        missing = [name for name in wanted if name not in where]
        extra = sorted(where.keys() - set(wanted))
        raise ValueError(
            f"{path} must have one column of probabilities for each class of the calibration; missing "
            f"{missing[:6]}, unknown {extra[:6]}."
        )
    return [where[name] for name in wanted]


@contextmanager
def shifted_rows(path: Path, start: int) -> Iterator[None]:
    """Name the file, and count rows from its beginning instead of the batch's."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = re.sub(r"\brow (\d+)", lambda match: f"row {int(match[1]) + start}", str(error))
        text = text.replace("normalize=True", "--normalize").replace("logits=True", "--logits")
        raise ValueError(f"{path}: {text}") from error


def check_target(path: Path, target: str, labels: Any) -> None:
    """Refuse rows without a label."""
    if None in labels:
        raise ValueError(
            f"{path}, row {labels.index(None)}, column {target!r}: the label is missing. Drop such rows first."
        )


def check_finite_features(path: Path, features: Any) -> None:
    """Refuse infinite numbers, which no model takes; missing ones are filled later."""
    for name in features.select_dtypes("number").columns:
        wrong = np.isinf(features[name].to_numpy())
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{path}, row {row}, column {name!r}: numbers must be finite; got {features[name].iloc[row]}. "
                "Leave the cell empty if the value is missing."
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
