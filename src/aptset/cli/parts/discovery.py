"""From what the user names to the parts it stands for: files, folders, globs, on this machine or on a store."""

from __future__ import annotations

import atexit
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from pyarrow.fs import FileType

from aptset.arrow.formats import Keys, TableFile, format_of, table_file
from aptset.arrow.formats.delimited import check_encoding, encoding_of
from aptset.cli.parts.checks import (
    check_endings,
    check_files,
    check_found,
    check_one_store,
    check_remote_file,
    check_there,
    check_told_apart,
    refuse_changing_input,
)
from aptset.cli.parts.stores import Place, is_url, place_of
from aptset.core.files import claim, undisturbed

_MAGIC = re.compile(r"[*?\[]")
_NO_VALUE = ("", "__HIVE_DEFAULT_PARTITION__")  # the second is what Hive and Spark write for a key that is missing


@dataclass(frozen=True)
class Part:
    """A file among several, and its name below the folder that all have in common."""

    name: str
    place: Place

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


def is_one_file(names: Sequence[str]) -> bool:
    """Tell whether the names stand for one file, whatever its name looks like; one that is not there is one, too."""
    if len(names) != 1 or names[0] == "-":
        return len(names) == 1
    if is_url(names[0]):
        return place_of(names[0]).is_file
    path = Path(names[0])
    return not path.is_dir() and (path.exists() or not has_magic(names[0]))


def has_magic(name: str) -> bool:
    """Tell whether a name is a glob."""
    return _MAGIC.search(name) is not None


def find_parts(names: Sequence[str]) -> list[Part]:
    """Return the files that names stand for, sorted by name; refuse what is no part, and what is named twice."""
    searches = [_search(name) for name in names]
    places = [(place, info) for _, found in searches for place, info in found]
    check_one_store(names, all(place.store == places[0][0].store for place, _ in places))
    check_told_apart([(place.real_path, place.shown) for place, _ in places])
    root = _without_keys(posixpath.commonpath([root for root, _ in searches]))
    start = len(root.rstrip("/")) + 1 if root else 0
    parts = [Part(place.path[start:], place) for place, _ in places]
    check_endings([(part.name, part.place.shown) for part in parts])
    return sorted(parts, key=lambda part: part.name.split("/"))


def _without_keys(folder: str) -> str:
    """Return the folder above those that say key=value, where the user named one of these."""
    while "=" in posixpath.basename(folder):
        folder = posixpath.dirname(folder)
    return folder


def _search(name: str) -> tuple[str, list[tuple[Place, Any]]]:
    """Return the folder where the search began, and the files that were found."""
    place = place_of(name)
    info = place.info
    if info.type == FileType.File:
        return posixpath.dirname(place.path), [(place, info)]
    if info.type == FileType.Directory:
        inside = [(inner, one) for inner, one in place.listed(recursive=True) if inner and not _is_hidden(inner)]
        found = [(place.below(inner), one) for inner, one in inside if one.type != FileType.Directory]
        check_files([(inner.shown, one.type == FileType.File) for inner, one in found])
        check_found(name, len(found), is_folder=True)
        return place.path, found
    check_there(name, has_magic(name))
    found = _matching(place)
    check_found(name, len(found), is_folder=False)
    return _fixed(place.path)[0], found


def _is_hidden(name: str) -> bool:
    """Tell files of tools from data: .crc, _SUCCESS, _metadata, and whatever is in such a folder."""
    return any(one.startswith(".") or (one.startswith("_") and "=" not in one) for one in name.split("/"))


def _fixed(pattern: str) -> tuple[str, list[str]]:
    """Return the folder that a glob begins with, and the patterns of the names below it."""
    names = pattern.split("/")
    first = next(number for number, name in enumerate(names) if has_magic(name))
    return "/".join(names[:first]) or ("/" if pattern.startswith("/") else ""), names[first:]


def _matching(place: Place) -> list[tuple[Place, Any]]:
    """Return the files that a glob matches; hidden ones only if it says so itself."""
    folder, patterns = _fixed(place.path)
    given = place.shown.rstrip("/").split("/")
    shown = "/".join(given[: len(given) - len(patterns)])
    base = replace(place, path=folder, shown=shown or ("/" if place.shown.startswith("/") else ""))
    found = {one.path: (one, info) for one, info in _descend(base, patterns) if info.type != FileType.Directory}
    check_files([(one.shown, info.type == FileType.File) for one, info in found.values()])
    return list(found.values())


def _descend(folder: Place, patterns: Sequence[str]) -> Iterator[tuple[Place, Any]]:
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
    def file_of(self, part: Part) -> Iterator[TableFile]:
        """Give a file of this machine with the rows of a part."""
        with ExitStack() as stack:
            path = stack.enter_context(local_copy(part.place))
            self.on_name(path, part.place.shown)
            finished = finished_lines(path, self.encoding) if self.is_growing else path
            if finished != path:
                stack.callback(shutil.rmtree, finished.parent, ignore_errors=True)
                self.on_name(finished, part.place.shown)
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


@contextmanager
def local_copy(place: Place) -> Iterator[Path]:
    """Give a file of this machine with the same content; the file itself where it is here."""
    if place.is_local:
        yield Path(place.path)
        return
    with scratch_folder() as folder:
        path = folder / place.path.rpartition("/")[2]
        place.fetch(path)
        yield path


@contextmanager
def local_target(place: Place) -> Iterator[Path]:
    """Give a path to write to; on a store the file appears there when all went well."""
    if place.is_local:
        yield Path(place.path)
        return
    with scratch_folder() as folder:
        path = folder / place.path.rpartition("/")[2]
        yield path
        place.put(path)


def fetch_once(url: str) -> Path:
    """Return a copy of a file on a store that is there until the process ends."""
    place, stack = place_of(url), ExitStack()
    check_remote_file(url, place.is_file, place.is_folder)
    atexit.register(stack.close)
    return stack.enter_context(local_copy(place))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give an empty folder that goes afterwards; what a kill left is taken over by the next that needs one."""
    place, user = Path(tempfile.gettempdir()), getattr(os, "geteuid", lambda: 0)()
    lock = handle = None
    try:
        with undisturbed():
            lock, handle = claim(lambda number: place / f"aptset-part-{user}-{number}.lock", _empty_folder)
        yield lock.with_suffix("")
    finally:
        if lock is not None and handle is not None:
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            with suppress(OSError):
                lock.unlink()
            os.close(handle)


def _empty_folder(lock: Path) -> bool:
    """Make the folder of a lock anew; False if something stands there that is not ours to remove."""
    folder = lock.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True
