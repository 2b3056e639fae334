"""From what the user names to the parts it stands for: files, folders, globs; opened one by one, or joined."""

from __future__ import annotations

import atexit
import os
import posixpath
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from aptset.arrow.formats import BATCH_ROWS, Keys, TableFile, check_rows_present, format_of, table_file
from aptset.arrow.formats.delimited import check_encoding, encoding_of
from aptset.cli.files import ProbabilityFile, check_distinct_columns, lacks
from aptset.cli.inputs import has_magic
from aptset.cli.stores import (
    Location,
    local_copy,
    location_of,
    new_folder,
    refuse_changing_input,
    scratch_folder,
)
from aptset.core.files import as_utf8
from aptset.core.runner import Bar

_NO_VALUE = ("", "__HIVE_DEFAULT_PARTITION__")  # the second is what Hive and Spark write for a key that is missing


@dataclass(frozen=True)
class FilePart:
    """A file among several, and its name below the folder that all have in common."""

    name: str
    location: Location

    @cached_property
    def keys(self) -> Keys:
        """What its folders say about all of its rows: region=north."""
        pairs = [folder.partition("=") for folder in self.name.split("/")[:-1]]
        return tuple((unquote(key), None if value in _NO_VALUE else unquote(value)) for key, is_, value in pairs if is_)

    @property
    def output_name(self) -> str:
        """Return what its sets are called: CSV stays CSV, everything else becomes parquet."""
        name, kind = self.name, format_of(Path(self.name)).kind
        while posixpath.splitext(name)[1].lower() in (".gz", ".bz2", ".zst"):
            name = posixpath.splitext(name)[0]
        return name if kind in ("csv", "parquet") else posixpath.splitext(name)[0] + ".parquet"


def find_parts(names: Sequence[str]) -> list[FilePart]:
    """Return the files that names stand for, sorted by name; refuse what is no part, and what is named twice."""
    searches = [_search(name) for name in names]
    locations = [(location, info) for _, files in searches for location, info in files]
    if any(
        location.store != locations[0][0].store for location, _ in locations
    ):  # their names have no folder in common
        raise ValueError(f"{', '.join(names[:3])} must be on one file system. Run the command once for each.")
    counts = Counter(location.real_path for location, _ in locations)
    for location, _ in locations:
        if (times := counts[location.real_path]) > 1:  # its rows would count twice
            raise ValueError(
                f"{location.shown} must be named once; it is named {times} times, or a glob matches it too."
            )
    root = _without_keys(posixpath.commonpath([root for root, _ in searches]))
    start = len(root.rstrip("/")) + 1 if root else 0
    parts = [FilePart(location.path[start:], location) for location, _ in locations]
    for part in parts:
        try:
            format_of(Path(part.name))
        except ValueError as error:
            rule = str(error).partition(" must ")[2]
            shown = part.location.shown
            raise ValueError(f"{shown} must {rule} To leave a file out, name the others by a glob.") from error
    return sorted(parts, key=lambda part: part.name.split("/"))


def check_files(kinds: Sequence[tuple[str, bool]]) -> None:
    """Refuse what is neither a file nor a folder, such as a pipe or a link to nothing: data may be missing."""
    for shown, is_file in kinds:
        if not is_file:
            raise OSError(f"{shown} must be a file; it is a link to nothing, a pipe or a device. Remove it.")


def _without_keys(folder: str) -> str:
    """Return the folder above those that say key=value, where the user named one of these."""
    while "=" in posixpath.basename(folder):
        folder = posixpath.dirname(folder)
    return folder


def _search(name: str) -> tuple[str, list[tuple[Location, Any]]]:
    """Return the folder where the search began, and the files that were found."""
    location = location_of(name)
    info = location.info
    if info.type == FileType.File:
        return posixpath.dirname(location.path), [(location, info)]
    if info.type == FileType.Directory:
        inside = [(inner, one) for inner, one in location.listed(recursive=True) if inner and not _is_hidden(inner)]
        files = [(location.below(inner), one) for inner, one in inside if one.type != FileType.Directory]
        check_files([(inner.shown, one.type == FileType.File) for inner, one in files])
        if not files:
            raise FileNotFoundError(
                f"{name} must hold at least one file; it holds none (names that begin with . or _ are left out)."
            )
        return location.path, files
    if not has_magic(name):
        raise FileNotFoundError(f"{name} must be a file or a folder; there is none of that name.")
    files = _matching(location)
    if not files:
        raise FileNotFoundError(f"{name!r} must match at least one file; it matches none.")
    return _fixed(location.path)[0], files


def _is_hidden(name: str) -> bool:
    """Tell files of tools from data: .crc, _SUCCESS, _metadata, and whatever is in such a folder."""
    return any(one.startswith(".") or (one.startswith("_") and "=" not in one) for one in name.split("/"))


def _fixed(pattern: str) -> tuple[str, list[str]]:
    """Return the folder that a glob begins with, and the patterns of the names below it."""
    names = pattern.split("/")
    first = next(number for number, name in enumerate(names) if has_magic(name))
    return "/".join(names[:first]) or ("/" if pattern.startswith("/") else ""), names[first:]


def _matching(location: Location) -> list[tuple[Location, Any]]:
    """Return the files that a glob matches; hidden ones only if it says so itself."""
    folder, patterns = _fixed(location.path)
    given = location.shown.rstrip("/").split("/")
    shown = "/".join(given[: len(given) - len(patterns)])
    base = replace(location, path=folder, shown=shown or ("/" if location.shown.startswith("/") else ""))
    files = {one.path: (one, info) for one, info in _descend(base, patterns) if info.type != FileType.Directory}
    check_files([(one.shown, info.type == FileType.File) for one, info in files.values()])
    return list(files.values())


def _descend(folder: Location, patterns: Sequence[str]) -> Iterator[tuple[Location, Any]]:
    """Yield what a list of patterns matches, one for each level; ** stands for any number of them."""
    first, *others = patterns
    if first == "**":
        yield from _descend(folder, others or ["*"])
        levels = [(name, info) for name, info in folder.listed(recursive=True) if not _is_hidden(name)]
        for name, info in levels:
            if info.type == FileType.Directory:
                yield from _descend(folder.below(name), others or ["*"])
        return
    for name, info in folder.listed(recursive=False):
        if fnmatchcase(name, first) and (not _is_hidden(name) or first[0] in "._"):
            if not others:
                yield folder.below(name), info
            elif info.type == FileType.Directory:
                yield from _descend(folder.below(name), others)


@dataclass(frozen=True)
class Reader:
    """How parts are read: the dialect of their CSV, and who is told that a file is called otherwise, or read so."""

    sep: str | None = None
    encoding: str | None = None
    on_name: Callable[[Path, str], None] = lambda path, shown: None
    on_note: Callable[[str], None] = lambda note: None
    is_growing: bool = False  # the last line of a CSV waits until it has its end

    @contextmanager
    def file_of(self, part: FilePart) -> Iterator[TableFile]:
        """Give a file of this machine with the rows of a part."""
        with ExitStack() as stack:
            path = stack.enter_context(local_copy(part.location))
            self.on_name(path, part.location.shown)
            finished = finished_lines(path, self.encoding) if self.is_growing else path
            if finished != path:
                stack.callback(shutil.rmtree, finished.parent, ignore_errors=True)
                self.on_name(finished, part.location.shown)
            file = table_file(finished, self.sep, self.encoding, part.keys)
            if file.note:
                self.on_note(file.note)
            yield file


_HEAD = 1 << 16


def finished_lines(path: Path, encoding: str | None = None) -> Path:
    """Return a copy of a CSV that nobody writes to, without a last line that has no end yet; else the file itself."""
    if path.suffix.lower() != ".csv":
        return path
    with path.open("rb") as file:
        alphabet = check_encoding(encoding) if encoding else encoding_of(file.read(_HEAD))
        stop = _end_of_lines(file, alphabet)
    if stop == 0:
        return path
    copy = new_folder() / path.name
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
        for start_of in range(len(block) - width, -1, -width):
            if block[start_of : start_of + width] in ends:
                return start + start_of + width
    return 0


@dataclass(frozen=True)
class Parts:
    """Many files, each of which is opened when its turn has come."""

    parts: Sequence[FilePart]
    reader: Reader
    progress: bool

    def bar(self) -> AbstractContextManager[Bar]:
        """Give a bar that counts parts."""
        return closing(Bar(len(self.parts), "parts", self.progress))

    def files(self) -> Iterator[TableFile]:
        """Yield a file of this machine for each part."""
        with self.bar() as bar:
            for part in self.parts:
                with self.reader.file_of(part) as file:
                    yield file
                bar.advance(1, part.name)

    def sources(self, source_of: Callable[[TableFile], ProbabilityFile]) -> Iterator[ProbabilityFile]:
        """Yield the parts as files of probabilities; those without rows have nothing to say, unless all are such."""
        path, n_sources = Path(), 0
        for file in self.files():
            path = file.path
            if file.rows != 0:
                n_sources += 1
                yield source_of(file)
        check_rows_present(path, n_sources)


def join(parts: Parts, called: str) -> Path:
    """Return one file with the rows of all parts, one after the other; it goes when the process ends."""
    is_csv = [format_of(Path(part.name)).is_text for part in parts.parts]
    if any(is_csv) and not all(is_csv):  # some parts have types, and others have none
        raise ValueError(
            f"{called} must hold files of one kind, to be read as one table; some are CSV, others are not."
        )
    stack = ExitStack()
    atexit.register(stack.close)
    stem = "".join(letter for letter in called.rstrip("/").rpartition("/")[2] if letter not in "*?[]") or "table"
    target = stack.enter_context(scratch_folder()) / (stem + (".csv" if all(is_csv) else ".parquet"))
    tables = _tables(parts)
    first: Any = next(tables, None)
    check_rows_present(Path(called), 0 if first is None else first.num_rows)
    if not all(is_csv):
        try:
            pq.write_table(pa.concat_tables([first, *tables], promote_options="permissive"), as_utf8(target))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"{called} must hold columns of the same types in all files; {error}") from error
        return target
    # All columns are texts, as they are written: what is a number is decided when all are there.
    with pa_csv.CSVWriter(as_utf8(target), first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return target


def _tables(parts: Parts) -> Iterator[pa.Table]:
    """Yield the rows of all parts in pieces, with the columns of the first, and with those that folders stand for."""
    wanted: list[str] = []
    for file in parts.files():
        check_distinct_columns(file.path, file.names)
        every = file.all_names
        wanted = wanted or every
        what = f"the columns of the first file: {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        if sorted(every) != sorted(wanted):
            raise lacks(file.path, what, every, wanted)
        for piece in file.pieces(BATCH_ROWS):
            for name, column in file.key_columns(piece.num_rows).items():
                piece = piece.append_column(name, column)
            yield piece.select(wanted)
