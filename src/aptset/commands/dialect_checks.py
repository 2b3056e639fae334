"""Separators and alphabets of CSV files."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def check_encoding(encoding: str) -> str:
    """Return the name that Python has for an alphabet."""
    try:
        return codecs.lookup(encoding).name
    except LookupError as error:
        raise ValueError(
            f"--encoding must be one that Python knows, such as utf-8, utf-16, latin-1 or cp1252; got {encoding!r}."
        ) from error


def check_separator(path: Path, sep: str | None, encoding: str | None) -> None:
    """Refuse options of CSV files for files of another kind."""
    for option, value in (("--sep", sep), ("--encoding", encoding)):
        if value is not None:
            raise ValueError(f"{option} is for CSV files; {path} is none.")


@contextmanager
def check_decoded(path: Path, alphabet: str) -> Iterator[None]:
    """Name the alphabet in which a file is not written."""
    try:
        yield
    except UnicodeError as error:
        raise ValueError(
            f"{path} cannot be read as {alphabet}: {error}. Pass --encoding, for example latin-1 or cp1252."
        ) from error


def check_dates(name: str, how: str, written: Any, dates: Any) -> None:
    """Refuse texts that are no dates in a column of dates."""
    wrong = (written.notna() & dates.isna()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"column {name!r}, row {row}: must be a date, written as {how}; got {written.iloc[row]!r}. Leave the cell "
            "empty if it is missing."
        )
