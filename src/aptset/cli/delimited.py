"""The text of a CSV: quotes that close, rows that can be counted, and the row where one breaks."""

from __future__ import annotations

import csv
import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.files import as_utf8
from aptset.core.store import is_storable

_BLOCK = 4 << 20
_QUOTE, _LINE_ENDS, _CELL_ENDS = 34, (10, 13), np.frombuffer(b',\n\r"', dtype=np.uint8)
_WAY_OUT = ". Save the file as UTF-8, or pass --encoding where the command has it."
_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it


def open_text(path: Path) -> Any:
    """Open a CSV as a stream of bytes, decompressed if its name says so."""
    import pyarrow as pa

    return pa.input_stream(as_utf8(path), compression="detect")


def count_rows(path: Path) -> int:
    """Return how many rows a CSV has below its header; refuse a quote that does not close.

    A reader that allows line breaks in cells takes such a quote for the beginning of a cell, and all rows up to the
    next quote, or to the end of the file, for the cell's content: they would be lost without a word.
    """
    scan = _Scan()
    with open_text(path) as stream:
        while scan.is_plain and (block := stream.read(_BLOCK)):
            scan.feed(block)
    if scan.is_plain and not scan.is_open:
        return max(scan.rows + (scan.last not in _LINE_ENDS) - 1, 0)
    return max(_count_slowly(path) - 1, 0)


class _Scan:
    """Counts the rows of a CSV whose quotes stand around whole cells, block by block, many bytes at a time."""

    def __init__(self) -> None:
        self.rows, self.last = 0, 10
        self.is_open, self.is_plain = False, True
        self._is_first = True

    def feed(self, block: bytes) -> None:
        """Take in the next bytes."""
        if self._is_first:
            block, self._is_first = block.removeprefix(_MARK), False
        has_quotes = self.is_open or self.last == _QUOTE or b'"' in block
        if not block or (not has_quotes and b"\r" not in block and b"\n\n" not in block):
            self.rows += block.count(b"\n") - (block[:1] == b"\n" and self.last in _LINE_ENDS)
        else:
            data = np.frombuffer(bytes([self.last]) + block, dtype=np.uint8)
            inside = self._follow_quotes(data) if has_quotes else np.zeros(len(data), dtype=np.bool_)
            ends = ((data == 10) | (data == 13)) & ~inside
            self.rows += int(np.count_nonzero(ends[1:] & ~ends[:-1]))  # empty lines are no rows
        self.last = block[-1] if block else self.last

    def _follow_quotes(self, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Tell which bytes are inside quotes; the first byte is the last one of the block before."""
        quotes = data == _QUOTE
        quotes[0] = False  # it was counted before
        inside = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(np.bool_) ^ self.is_open
        opening, closing = np.flatnonzero(quotes & inside), np.flatnonzero(quotes & ~inside)
        if data[0] == _QUOTE and not self.is_open:
            closing = np.append(0, closing)
        follows = data[closing[closing + 1 < len(data)] + 1]
        self.is_plain = bool(np.isin(data[opening - 1], _CELL_ENDS).all() and np.isin(follows, _CELL_ENDS).all())
        self.is_open = bool(inside[-1])
        return inside


def _count_slowly(path: Path) -> int:
    """Count the rows of a CSV that has quotes inside of cells; name the row whose quote does not close."""
    rows = 0
    try:
        for _ in _records(path, strict=True):
            rows += 1
    except csv.Error as error:
        where = "the header" if rows == 0 else f"row {rows - 1}"
        raise ValueError(
            f"{path}, {where}: a quote opens a cell there and must close it before a comma or the end of a line; it "
            'swallows the rows that follow. Close it, or write "" for a quote inside a quoted cell.'
        ) from error
    return rows


def header_of(path: Path) -> list[str]:
    """Return the names of the columns of a CSV."""
    names = next(_records(path), None)
    if names is None:
        raise ValueError(f"{path} cannot be read: Empty CSV file")
    if not all(map(is_storable, names)):
        raise ValueError(f"{path} cannot be read: the names of its columns must be UTF-8 text{_WAY_OUT}")
    return names


def _records(path: Path, strict: bool = False) -> Iterator[list[str]]:
    """Yield the cells of each line that is not empty, the header first."""
    longest = csv.field_size_limit(sys.maxsize)
    try:
        with (
            open_text(path) as stream,
            io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as text,
        ):
            yield from (cells for cells in csv.reader(text, strict=strict) if cells)
    finally:
        csv.field_size_limit(longest)


@contextmanager
def nearest_row_error(path: Path) -> Iterator[None]:
    """Turn a reader's error into one line that names the file, and the row where a CSV breaks."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, EOFError, OSError, ValueError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError) or str(path) in str(error):
            raise
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        where, hint = _where_csv_breaks(path, first_line), ""
        if "invalid UTF8" in first_line or isinstance(error, UnicodeDecodeError):
            hint = _WAY_OUT
        raise ValueError(f"{path}{where} cannot be read: {first_line}{hint}") from error


def _where_csv_breaks(path: Path, message: str) -> str:
    """Return ", row r" for a value that is no number or no text, or a row with too few or too many cells."""
    value = re.search(r"column #(\d+): .*invalid value '(.*)'", message)
    letters = re.search(r"column #(\d+): .*invalid UTF8", message)
    cells = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if value is None and cells is None and letters is None:
        return ""
    for number, row in enumerate(_records(path)):
        is_value = value is not None and row[int(value[1]) : int(value[1]) + 1] == [value[2]]
        is_ragged = cells is not None and len(row) == int(cells[2])
        is_garbled = letters is not None and not is_storable("".join(row[int(letters[1]) : int(letters[1]) + 1]))
        if number > 0 and (is_value or is_ragged or is_garbled):
            return f", row {number - 1}"
    return ""
