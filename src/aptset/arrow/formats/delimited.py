"""CSV as the world writes it: any separator and alphabet, decimal commas, quotes that must close, rows that count."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from aptset.arrow.formats import UNREADABLE, Dialect, Keys, TableFile, check_row_count
from aptset.core.files import as_utf8

_BLOCK = 4 << 20  # bytes at a time that are looked at for quotes; the first of them tell the dialect
_HEAD = 1 << 16
# Bytes that are parsed at a time, more where a row is longer than that. The reader holds up to 32 blocks ahead.
_BLOCKS = (1 << 20, 1 << 23, 1 << 26, 1 << 30)
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
_DECIMAL, _NUMBER = r"^[-+]?\d+,\d+([eE][-+]?\d+)?$", r"^[-+]?\d+$"
_QUOTE, _LINE_ENDS = 34, (10, 13)
_MARK = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it
_WAY_OUT = ". Save the file as UTF-8, or pass --encoding where the command has it."


class DelimitedText(TableFile):
    """A CSV, also compressed. It is opened once to see how it is written and to follow its quotes, and once to read."""

    kind = "csv"
    endings = (".csv",)
    is_text = True

    def __init__(self, path: Path, separator: str | None = None, encoding: str | None = None, keys: Keys = ()) -> None:
        super().__init__(path, keys)
        self._is_plain, self._decimals = True, frozenset[str]()
        self._encoding = check_encoding(encoding) if encoding else ""
        self._separator = check_separator(separator) if separator else ""
        self._name = as_utf8(path)
        stream = pa.input_stream(self._name, compression="detect")
        try:
            head = stream.read(_BLOCK)
            self._encoding = self._encoding or encoding_of(head[:_HEAD])
            text = head[:_HEAD].decode(self._encoding, errors="replace")
            self._separator = self._separator or separator_of(text)
            self._is_plain = self._encoding == "utf-8" and self._separator == ","
            self._parse = pa_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True)
            if not self._is_plain:
                stream = self._open()
                head = stream.read(_BLOCK)
            self._head, self._rest = head, stream
            self._decimals = self._decimals if self._separator == "," else self._find_decimals()
        except UNREADABLE as error:
            self.refuse(error)

    @property
    def note(self) -> str:
        """How the file is read, in words, where it is not in UTF-8 with commas."""
        commas = "; numbers have decimal commas" if self._decimals else ""
        name = _SEPARATORS.get(self._separator, repr(self._separator))
        said = f"{self.path.name}: read as {self._encoding.upper()}, columns separated by {name}{commas}."
        return "" if self._is_plain else said

    @property
    def dialect(self) -> Dialect:
        """How the file is written."""
        return Dialect(self._separator, self._encoding)

    @property
    def decimals(self) -> frozenset[str]:
        """The columns whose numbers have decimal commas."""
        return self._decimals

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        try:
            lines = io.TextIOWrapper(io.BytesIO(self._head), "utf-8-sig", errors="surrogateescape", newline="")
            names = next(self._cells(lines), None)
            if not next(lines, ""):  # the header may be longer than what was looked at
                names = next(self._records(), None)
            if names is None:
                raise ValueError("Empty CSV file")
            if not _is_text("".join(names)):
                raise ValueError(f"the names of its columns must be UTF-8 text{_WAY_OUT}")
            return names
        except UNREADABLE as error:
            self.refuse(error)

    @cached_property
    def schema(self) -> pa.Schema:
        """The names of the columns, and the types that the first rows look like; takes a second for many thousands."""
        guessed = pa_csv.open_csv(pa.BufferReader(self._head), parse_options=self._parse).schema
        kinds = [pa.float64() if field.name in self._decimals else field.type for field in guessed]
        return pa.schema(list(zip(guessed.names, kinds, strict=True)))

    def _count(self) -> int:
        """Return how many rows there are below the header; refuse a quote that does not close.

        A reader that allows line breaks in cells takes such a quote for the beginning of a cell, and all rows up to the
        next quote, or to the end of the file, for the cell's content: they would be lost without a word.
        """
        scan, block = _Scan(self._separator), self._head
        while scan.is_plain and block:
            scan.feed(block)
            block = self._rest.read(_BLOCK)
        self._rest.close()
        if scan.is_plain and not scan.is_open:
            return max(scan.rows + (scan.last not in _LINE_ENDS) - 1, 0)
        return max(self._count_slowly() - 1, 0)

    def _count_slowly(self) -> int:
        """Count the rows of a CSV that has quotes inside of cells; name the row whose quote does not close."""
        rows = 0
        try:
            for _ in self._records(strict=True):
                rows += 1
        except csv.Error as error:
            where = "the header" if rows == 0 else f"row {rows - 1}"
            mark = "comma" if self._separator == "," else "separator"
            raise ValueError(
                f"{self.path}, {where}: a quote opens a cell there and must close it before a {mark} or the end of a "
                'line; it swallows the rows that follow. Close it, or write "" for a quote inside a quoted cell.'
            ) from error
        return rows

    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], na: bool, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        """Return batches whose types are fixed beforehand: what a later block looks like changes no earlier one."""
        wanted = {name: types.get(name, pa.string()) for name in columns}
        options = self._options(wanted, na)
        options.include_columns = [] if list(columns) == self.names else list(columns)
        batches = self._parsed(options)
        return (self._converted(batch, wanted, na) for batch in batches) if na or self._decimals else batches

    def _options(self, types: Mapping[str, pa.DataType], na: bool) -> pa_csv.ConvertOptions:
        """Types fixed beforehand; only an empty cell is missing (NA may be a label), unless numbers may be NA."""
        text = pa.string()
        read = {name: text if name in self._decimals and kind == pa.float64() else kind for name, kind in types.items()}
        return pa_csv.ConvertOptions(
            column_types=read, **({} if na else {"strings_can_be_null": True, "null_values": [""]})
        )

    def _parsed(self, options: pa_csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
        """Yield all rows; where one does not fit into a block, go on with longer blocks."""
        given = 0
        for block in _BLOCKS:
            read, seen = pa_csv.ReadOptions(block_size=block), 0
            try:
                for batch in pa_csv.open_csv(self._open(), read, self._parse, options):
                    seen += batch.num_rows
                    if seen > given:
                        new, given = seen - given, seen
                        yield batch.slice(batch.num_rows - new)
                return
            except pa.ArrowInvalid as error:
                if not _has_longer_row(error, block):
                    raise

    def _table(self, texts: Sequence[str]) -> pa.Table:
        """Return all rows; types are guessed, and a cell among numbers is missing where NA, NaN or null stands."""
        rows = self.rows or 0
        wanted = {**dict.fromkeys(self._decimals, pa.float64()), **dict.fromkeys(texts, pa.string())}
        for block in _BLOCKS:
            try:
                read, convert = pa_csv.ReadOptions(block_size=block), self._options(wanted, na=True)
                table = pa_csv.read_csv(self._open(), read, self._parse, convert)
                break
            except pa.ArrowInvalid as error:
                if not _has_longer_row(error, block):
                    raise
        check_row_count(self.path, table.num_rows, rows)
        check_utf8_columns(self.path, table)
        return self._converted(table, wanted, na=True)

    def _converted(self, rows: Any, wanted: Mapping[str, pa.DataType], na: bool) -> Any:
        """Write decimal commas of numbers as points, and take empty texts for missing ones."""
        for number, field in enumerate(rows.schema):
            column = cells = rows.column(number)
            if field.name in self._decimals and wanted.get(field.name) != pa.string():  # a text stays as it is written
                column = pc.replace_substring(column, ",", ".")
                if wanted.get(field.name) == pa.float64():
                    column = _without_empty(pc.utf8_trim_whitespace(column)).cast(pa.float64())
            if na and pa.types.is_string(column.type):
                column = _without_empty(column)
            if column is not cells:
                rows = rows.set_column(number, pa.field(field.name, column.type), column)
        return rows

    def _find_decimals(self) -> frozenset[str]:
        """Return the columns whose numbers have decimal commas: some do, and nothing there is no number."""
        if self.rows == 0:  # a quote that does not close is named before anything else
            return frozenset()
        candidates, decimals = set(range(len(self.names))), set[int]()
        for batch in self._parsed(self._options(dict.fromkeys(self.names, pa.string()), na=False)):
            for column in tuple(candidates):
                cells = pc.utf8_trim_whitespace(batch.column(column))
                is_decimal = pc.match_substring_regex(cells, _DECIMAL)
                is_known = pc.or_(pc.match_substring_regex(cells, _NUMBER), pc.equal(cells, ""))
                if pc.any(is_decimal).as_py():
                    decimals.add(column)
                if pc.all(pc.or_(is_decimal, is_known)).as_py() is False:
                    candidates.discard(column)
        return frozenset(self.names[column] for column in candidates & decimals)

    def _open(self) -> Any:
        """Open the file as a stream of UTF-8, decompressed if its name says so."""
        stream = pa.input_stream(self._name, compression="detect")
        source = "utf-8-sig" if self._encoding == "utf-8" else self._encoding
        return stream if self._is_plain else pa.transcoding_input_stream(stream, source, "utf-8")

    def _records(self, strict: bool = False) -> Iterator[list[str]]:
        """Yield the cells of each line that is not empty, the header first."""
        with (
            self._open() as stream,
            io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as text,
        ):
            yield from self._cells(text, strict)

    def _cells(self, text: Any, strict: bool = False) -> Iterator[list[str]]:
        longest = csv.field_size_limit(sys.maxsize)
        try:
            yield from (cells for cells in csv.reader(text, delimiter=self._separator, strict=strict) if cells)
        finally:
            csv.field_size_limit(longest)

    def _in_words(self, error: BaseException) -> str:
        """Say what is wrong, and in which row."""
        if isinstance(error, UnicodeError) and not self._is_plain:
            way_out = "Pass --encoding, for example latin-1 or cp1252."
            return f"{self.path} cannot be read as {self._encoding}: {error}. {way_out}"
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        is_other = "invalid UTF8" in first_line or isinstance(error, UnicodeDecodeError)
        return f"{self.path}{self._where(first_line)} cannot be read: {first_line}{_WAY_OUT if is_other else ''}"

    def _where(self, message: str) -> str:
        """Return ", row r" for a value that is no number or no text, or a row with too few or too many cells."""
        value = re.search(r"column #(\d+): .*invalid value '(.*)'", message)
        letters = re.search(r"column #(\d+): .*invalid UTF8", message)
        cells = re.search(r"Expected (\d+) columns, got (\d+)", message)
        if value is None and cells is None and letters is None:
            return ""
        for number, row in enumerate(self._records()):
            is_value = value is not None and row[int(value[1]) : int(value[1]) + 1] == [value[2]]
            is_ragged = cells is not None and len(row) == int(cells[2])
            is_garbled = letters is not None and not _is_text("".join(row[int(letters[1]) : int(letters[1]) + 1]))
            if number > 0 and (is_value or is_ragged or is_garbled):
                return f", row {number - 1}"
        return ""


def _has_longer_row(error: Exception, block: int) -> bool:
    """Tell whether a row was longer than a block, so that the next longer one may do."""
    return "straddl" in str(error) and block != _BLOCKS[-1]


def _without_empty(column: Any) -> Any:
    """Take empty texts for missing ones."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _is_text(value: str) -> bool:
    """Tell texts from those that hold half a character, or bytes that were no UTF-8."""
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


class _Scan:
    """Counts the rows of a CSV whose quotes stand around whole cells, block by block, many bytes at a time."""

    def __init__(self, separator: str) -> None:
        self.rows, self.last = 0, 10
        self.is_open, self.is_plain = False, True
        self._is_first = True
        self._cell_ends = np.frombuffer(separator.encode() + b'\n\r"', dtype=np.uint8)

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
        ends = self._cell_ends
        self.is_plain = bool(np.isin(data[opening - 1], ends).all() and np.isin(follows, ends).all())
        self.is_open = bool(inside[-1])
        return inside


def check_encoding(encoding: str) -> str:
    """Return the name that Python has for an alphabet."""
    try:
        return codecs.lookup(encoding).name
    except LookupError as error:
        raise ValueError(
            f"--encoding must be one that Python knows, such as utf-8, utf-16, latin-1 or cp1252; got {encoding!r}."
        ) from error


def check_separator(separator: str) -> str:
    """Return what stands between cells: one letter, or the word for a tab."""
    mark = {"tab": "\t", "\\t": "\t"}.get(separator, separator)
    if len(mark) != 1 or not mark.isascii() or mark in '"\r\n':
        raise ValueError(f"--sep must be one ASCII character, such as ; or |, or the word tab; got {separator!r}.")
    return mark


def check_utf8_columns(path: Path, table: Any) -> None:
    """Refuse texts of a CSV in another alphabet than UTF-8, which a reader that guesses takes for bytes."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for row, value in enumerate(column.to_pylist() if pa.types.is_binary(column.type) else []):
            try:
                value.decode()
            except (AttributeError, UnicodeDecodeError) as error:
                if value is not None:
                    raise ValueError(
                        f"{path}, row {row} cannot be read: column {name!r} must be UTF-8 text. Save the file as such, "
                        "or pass --encoding."
                    ) from error


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
    counts = {separator: bare.count(separator) for separator in (";", "\t", "|")}
    best = max(counts, key=lambda separator: counts[separator])
    return best if "," not in bare and counts[best] else ","
