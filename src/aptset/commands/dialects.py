"""CSV files as the world writes them: other separators, alphabets and decimal commas; made plain first."""

from __future__ import annotations

import atexit
import csv
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from aptset.commands.delimited import open_text
from aptset.commands.dialect_checks import (
    check_decoded,
    check_encoding,
    check_separator,
)
from aptset.commands.reading import kind_of

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
    folder = Path(tempfile.mkdtemp(prefix="aptset-csv-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    plain = folder / re.sub(r"(\.csv).*$", r"\1", path.name, flags=re.IGNORECASE)
    _rewrite(path, plain, alphabet, separator)
    name = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}.get(separator, repr(separator))
    return plain, f"{path.name}: read as {alphabet.upper()}, columns separated by {name}."


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


def _rewrite(path: Path, plain: Path, alphabet: str, separator: str) -> None:
    longest = csv.field_size_limit(sys.maxsize)
    try:
        with open_text(path) as stream, check_decoded(path, alphabet):
            text = io.TextIOWrapper(stream, "utf-8-sig" if alphabet == "utf-8" else alphabet, newline="")
            rows = [row for row in csv.reader(text, delimiter=separator) if row]
    finally:
        csv.field_size_limit(longest)
    if separator != ",":
        _with_points(rows)
    with plain.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _with_points(rows: list[list[str]]) -> None:
    """Write numbers with points in columns whose numbers have decimal commas."""
    for j in range(len(rows[0]) if rows else 0):
        cells = [row[j].strip() for row in rows[1:] if len(row) > j and row[j].strip()]
        is_decimal = any(map(_DECIMAL.fullmatch, cells))
        if is_decimal and all(_DECIMAL.fullmatch(cell) or _NUMBER.fullmatch(cell) for cell in cells):
            for row in rows[1:]:
                if len(row) > j:
                    row[j] = row[j].replace(",", ".")
