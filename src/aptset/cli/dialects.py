"""CSV files as the world writes them: other separators, alphabets and decimal commas; made plain first."""

from __future__ import annotations

import atexit
import codecs
import csv
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from aptset.cli.delimited import open_text
from aptset.cli.parts.checks import refuse_changing_input
from aptset.cli.reading import kind_of


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


_SEPARATORS = (";", "\t", "|")
_DECIMAL = re.compile(r"[-+]?\d+,\d+")
_NUMBER = re.compile(r"[-+]?\d+")
_HEAD = 1 << 16


def plain_csv(path: Path, sep: str | None = None, encoding: str | None = None) -> tuple[Path, str]:
    """Return a file in UTF-8 with commas, and what was found in the original; the file itself if it is plain."""
    if kind_of(path) != "csv":
        check_separator(path, sep, encoding)
        return path, ""
    with open_text(path) as stream:
        head: bytes = stream.read(_HEAD)
    alphabet = check_encoding(encoding) if encoding else encoding_of(head)
    text = head.decode(alphabet, errors="replace")
    separator = {"tab": "\t", "\\t": "\t"}.get(sep, sep) if sep else separator_of(text)
    if alphabet == "utf-8" and separator == ",":
        return path, ""
    plain = _new_folder() / re.sub(r"(\.csv).*$", r"\1", path.name, flags=re.IGNORECASE)
    commas = "; decimal commas become points" if _rewrite(path, plain, alphabet, separator) else ""
    name = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}.get(separator, repr(separator))
    return plain, f"{path.name}: read as {alphabet.upper()}, columns separated by {name}{commas}."


def finished_lines(path: Path, encoding: str | None = None) -> Path:
    """Return a copy of a CSV that nobody writes to, without a last line that has no end yet; else the file itself."""
    if path.suffix.lower() != ".csv":
        return path
    with path.open("rb") as file:
        alphabet = check_encoding(encoding) if encoding else encoding_of(file.read(_HEAD))
        stop = _end_of_lines(file, alphabet)
    if stop == 0:
        return path
    copy = _new_folder() / path.name
    shutil.copyfile(path, copy)
    if copy.stat().st_size < stop:
        refuse_changing_input(str(path))
    os.truncate(copy, stop)
    return copy


def _end_of_lines(file: IO[bytes], alphabet: str) -> int:
    """Return where the last line of a file that has an end does; 0 if none has."""
    file.seek(0)
    is_big = file.read(2) == b"\xfe\xff"
    exact = {"utf-16": "utf-16-be" if is_big else "utf-16-le"}.get(alphabet, alphabet)
    width = len("\n\n".encode(exact)) - len("\n".encode(exact))  # without the mark that some alphabets begin with
    ends = ["\n\n".encode(exact)[-width:], "\r\r".encode(exact)[-width:]]
    size = file.seek(0, 2)
    for stop in range(size - size % width, 0, -_HEAD):
        start = max(0, stop - _HEAD)
        file.seek(start)
        block = file.read(stop - start)
        for place in range(len(block) - width, -1, -width):
            if block[place : place + width] in ends:
                return start + place + width
    return 0


def _new_folder() -> Path:
    """Return a folder that goes away when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="aptset-csv-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def encoding_of(head: bytes) -> str:
    """Return UTF-16 where a mark or every other byte says so, UTF-8 otherwise."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    pairs = len(head) // 2
    for alphabet, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[0::2])):
        if pairs > 4 and zeros.count(0) > 0.4 * pairs and head.count(0) < 1.2 * zeros.count(0):
            return alphabet
    return "utf-8"


def separator_of(text: str) -> str:
    """Return what stands between the names of the columns: a comma, unless the header has none and something else."""
    header = next((line for line in text.splitlines() if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", header)
    counts = {separator: bare.count(separator) for separator in _SEPARATORS}
    best = max(counts, key=lambda separator: counts[separator])
    return best if "," not in bare and counts[best] else ","


def _rewrite(path: Path, plain: Path, alphabet: str, separator: str) -> bool:
    """Write a CSV anew, row by row; tell whether there were decimal commas."""
    decimals = set[int]() if separator == "," else _decimal_columns(_rows(path, alphabet, separator))
    with plain.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, row in enumerate(_rows(path, alphabet, separator)):
            is_header = number == 0
            writer.writerow(
                cell.replace(",", ".") if j in decimals and not is_header else cell for j, cell in enumerate(row)
            )
    return bool(decimals)


def _rows(path: Path, alphabet: str, separator: str) -> Iterator[list[str]]:
    """Yield the cells of each line that is not empty, the header first."""
    longest = csv.field_size_limit(sys.maxsize)
    try:
        with open_text(path) as stream, check_decoded(path, alphabet):
            text = io.TextIOWrapper(stream, "utf-8-sig" if alphabet == "utf-8" else alphabet, newline="")
            yield from (row for row in csv.reader(text, delimiter=separator) if row)
    finally:
        csv.field_size_limit(longest)


def _decimal_columns(rows: Iterator[list[str]]) -> set[int]:
    """Return the columns whose numbers have decimal commas: some do, and nothing there is no number."""
    candidates, decimals = set(range(len(next(rows, [])))), set[int]()
    for row in rows:
        for j in [j for j in candidates if j < len(row)]:
            cell = row[j].strip()
            if _DECIMAL.fullmatch(cell):
                decimals.add(j)
            elif cell and not _NUMBER.fullmatch(cell):
                candidates.discard(j)
    return candidates & decimals
