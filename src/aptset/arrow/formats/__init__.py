"""Files as sources of Arrow record batches: one class per format, each in a file of its own.

A new format is one new file here: a class with an ending, the names of the columns, the number of rows, and batches.
"""

from __future__ import annotations

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, NamedTuple, NoReturn

import pyarrow as pa

from aptset.core.randomization import BLOCK_ROWS

Keys = tuple[tuple[str, str | None], ...]  # what folders say about all rows of a file: region=north
BATCH_ROWS = 65_536
UNREADABLE = (pa.ArrowException, EOFError, OSError, ValueError, MemoryError, zipfile.BadZipFile, zlib.error)
_ORDER = ("delimited", "parquet", "ipc", "arrays")  # as messages name them; others follow
_COMPRESSED = (".gz", ".bz2", ".zst")


class Dialect(NamedTuple):
    """How a CSV is written: what stands between cells, and the encoding."""

    separator: str = ","
    encoding: str = "utf-8"


class TableFile(ABC):
    """A file of rows. What its folders say about all of them (``keys``) is beside its own columns."""

    kind: ClassVar[str] = ""
    endings: ClassVar[tuple[str, ...]] = ()
    is_text: ClassVar[bool] = False  # columns have the types that the reader says

    def __init__(self, path: Path, keys: Keys = ()) -> None:
        self.path, self.keys = path, keys

    @property
    def note(self) -> str:
        """How the file is read, in words, where that is not plain."""
        return ""

    @property
    def dialect(self) -> Dialect:
        """How a file that is text is written; UTF-8 with commas for others."""
        return Dialect()

    @property
    def decimals(self) -> frozenset[str]:
        """The columns whose numbers have decimal commas, of a format that is text."""
        return frozenset()

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The names and the types of the columns, of a file without rows, too."""

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        try:
            return list(self.schema.names)
        except UNREADABLE as error:
            self.refuse(error)

    @cached_property
    def all_names(self) -> list[str]:
        """The names of the columns, and then of those that the folders of the file stand for."""
        return [*self.names, *(name for name, _ in self.keys if name not in self.names)]

    @cached_property
    def rows(self) -> int | None:
        """How many rows there are; None where only reading them tells."""
        try:
            return self._count()
        except UNREADABLE as error:
            self.refuse(error)

    @abstractmethod
    def _count(self) -> int | None:
        """Return how many rows there are."""

    @abstractmethod
    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], na: bool, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in batches of bounded size."""

    def batches(
        self,
        columns: Sequence[str] | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        na: bool = False,
        coded: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, by default every column.

        ``types`` are those that columns of text get, by default text. A cell of text is missing if it is empty, and
        only then: NA may be a label, or a country. With ``na`` numbers are missing where NA, NaN or null stands. With
        ``coded`` texts may come as dictionaries, where the file holds them so.
        """
        try:
            yield from self._batches(self.names if columns is None else list(columns), types or {}, na, coded)
        except UNREADABLE as error:
            self.refuse(error)

    def pieces(
        self, rows: int, columns: Sequence[str] | None = None, types: Mapping[str, pa.DataType] | None = None
    ) -> Iterator[pa.Table]:
        """Yield tables of so many rows, the last may be shorter; NA among numbers is missing."""
        for batch in of_even_length(self.batches(columns, types, na=True), rows):
            yield pa.Table.from_batches([batch])

    def table(self, texts: Sequence[str] = ()) -> pa.Table:
        """Return the whole table; in a text the columns named in ``texts`` stay as they are written."""
        try:
            table = self._table(texts)
        except UNREADABLE as error:
            self.refuse(error)
        check_rows_present(self.path, table.num_rows)
        return table

    def _table(self, texts: Sequence[str]) -> pa.Table:
        return pa.Table.from_batches(list(self.batches()))

    def key_columns(self, n_rows: int) -> dict[str, pa.Array]:
        """Return what the folders of the file say about all of its rows, as columns; its own come first."""
        return key_columns(self.keys, self.names, n_rows) if self.keys else {}

    def refuse(self, error: BaseException) -> NoReturn:
        """Turn a reader's error into one line that names the file, and the row where a text breaks."""
        is_plain = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError)
        if is_plain or str(self.path) in str(error):
            raise error
        raise ValueError(self._in_words(error)) from error

    def _in_words(self, error: BaseException) -> str:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        return f"{self.path} cannot be read: {first_line}"


def key_columns(keys: Keys, taken: Sequence[str], n_rows: int) -> dict[str, pa.Array]:
    """Return what folders say about all rows, as columns with names that are not taken."""
    return {name: pa.repeat(pa.scalar(value, pa.string()), n_rows) for name, value in keys if name not in taken}


def of_even_length(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield batches of so many rows, the last may be shorter: where a reader cuts must not matter."""
    waiting: list[Any] = []
    n_waiting = 0
    for batch in batches:
        if not waiting and batch.num_rows == rows:
            yield batch
            continue
        waiting.append(batch)
        n_waiting += batch.num_rows
        while n_waiting >= rows:
            table = pa.Table.from_batches(waiting)
            yield from table.slice(0, rows).combine_chunks().to_batches()
            waiting, n_waiting = table.slice(rows).to_batches(), n_waiting - rows
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def check_rows_present(path: Path, n_rows: int) -> None:
    """Refuse a file without rows."""
    if n_rows == 0:
        raise ValueError(f"{path} must have at least one row; it has a header only, or nothing.")


def check_row_count(path: Path, n_rows: int, wanted: int | None) -> None:
    """Refuse to go on with fewer or more rows than a file has, where that is known."""
    if wanted is not None and n_rows != wanted:
        raise ValueError(f"{path} has {wanted} rows, but {n_rows} were read. Check the quotation marks in it.")


def in_whole_blocks(n_rows: int) -> int:
    """Return a number of rows, rounded up to whole blocks: what a set depends on never spans two of them."""
    return -(-n_rows // BLOCK_ROWS) * BLOCK_ROWS


@cache
def formats() -> dict[str, type[TableFile]]:
    """Return the class for each ending of a name: those of all files of this folder."""
    names = [module.name for module in iter_modules(__path__)]
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    modules = [vars(import_module(f"{__name__}.{name}")) for name in names]
    kinds = [kind for module in modules for kind in module.values() if isinstance(kind, type)]
    return {ending: kind for kind in kinds if issubclass(kind, TableFile) for ending in kind.endings}


def format_of(path: Path) -> type[TableFile]:
    """Return what a file is by its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    ending = suffixes[-1] if suffixes else ""
    if ending not in formats():
        raise ValueError(
            f"{path} must end in one of {', '.join(formats())} (.gz may follow); got {ending or 'no ending'!r}."
        )
    return formats()[ending]


def table_file(path: Path, separator: str | None = None, encoding: str | None = None, keys: Keys = ()) -> TableFile:
    """Return a file as a source of rows; ``separator`` and ``encoding`` are for formats that are text."""
    kind = format_of(path)
    dialect: dict[str, Any] = {"separator": separator, "encoding": encoding} if kind.is_text else {}
    for option, value in (("--sep", separator), ("--encoding", encoding)):
        if value is not None and not kind.is_text:
            raise ValueError(f"{option} is for CSV files; {path} is not one.")
    return kind(path, keys=keys, **dialect)
