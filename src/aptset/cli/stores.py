"""Where files are: on this machine, or on an object store that pyarrow or fsspec can reach."""

from __future__ import annotations

import atexit
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, FSSpecHandler, LocalFileSystem, PyFileSystem

from aptset.cli.inputs import is_url
from aptset.core.files import as_utf8, atomic_write, deferred_signals

_QUERY = re.compile(r"\?(\w+=[^/]*)$")  # settings of the store; any other question mark belongs to a glob
_BLOCK = 8 << 20
_END = 1 << 16  # bytes at either end of an object that are read where its store has no tag for its content
_WHOLE = "sha256 "  # how a digest of all bytes begins


@dataclass(frozen=True)
class Location:
    """A file or a folder: where it is, and what the user calls it."""

    store: Any
    path: str
    shown: str

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return isinstance(self.store, LocalFileSystem)

    @property
    def real_path(self) -> str:
        """Where it is when links are followed: two names of one file are told by it."""
        return os.path.realpath(self.path) if self.is_local else self.path

    @property
    def full_name(self) -> str:
        """Where it is, whatever the working folder and the user's words for it are."""
        if self.is_local:
            return self.real_path
        return f"{self.store.type_name.removeprefix('py::fsspec+')}://{self.path}"

    @property
    def info(self) -> Any:
        """What the store says about it: its type, its size, when it was changed."""
        return self.store.get_file_info(self.path)

    @property
    def is_file(self) -> bool:
        """Whether there is a file of this name."""
        return bool(self.info.type == FileType.File)

    @property
    def is_folder(self) -> bool:
        """Whether there is a folder of this name."""
        return bool(self.info.type == FileType.Directory)

    def below(self, name: str) -> Location:
        """Return what has this name in the folder."""
        shown = name if self.shown in ("", ".") else f"{self.shown.rstrip('/')}/{name}"
        return replace(self, path=posixpath.join(self.path, name), shown=shown)

    def listed(self, recursive: bool) -> list[tuple[str, FileInfo]]:
        """Return what is in the folder, by names relative to it; nothing where there is no folder."""
        if self.is_local:
            return list(self._tree("")) if recursive else self._entries()
        entries = self.store.get_file_info(FileSelector(self.path, recursive=recursive, allow_not_found=True))
        start = len(self.path.rstrip("/")) + 1
        return [(info.path[start:], info) for info in entries]

    def _entries(self) -> list[tuple[str, FileInfo]]:
        """Return what is in a folder of this machine; pyarrow itself says nothing about links that lead nowhere."""
        names = os.listdir(self.path) if os.path.isdir(self.path) else []
        paths = [as_utf8(os.path.join(self.path, name)) for name in names]
        return list(zip(names, self.store.get_file_info(paths), strict=True))

    def _tree(self, inner: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, FileInfo]]:
        """Yield what is in a folder of this machine and below it, where links lead, too."""
        folder = self.below(inner) if inner else self
        here = os.path.realpath(folder.path)
        if here in above:
            raise OSError(f"{folder.shown} must not be a link to a folder above it. Remove the link.")
        for name, info in folder.listed(recursive=False):
            path = posixpath.join(inner, name)
            yield path, info
            if info.type == FileType.Directory:
                yield from self._tree(path, (*above, here))

    def version(self) -> str:
        """Return what changes whenever the content does, told at once where it is here: for looks before and after."""
        if not self.is_local:
            return self.digest()
        status = os.stat(self.path)
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def digest(self) -> str:
        """Return what tells this content from any other: of all bytes, where they are on this machine.

        An object is told by the tag that its store gives its content. Without one, it is told by its length, its time
        of change and its two ends; and where the store tells no time either, by all bytes.
        """
        info = None if self.is_local else self.info
        if info is not None and (tag := self._tag()):
            return f"tag {tag}, {info.size} bytes"
        if info is None or info.mtime_ns is None:
            hashed = sha256()
            with self.store.open_input_stream(self.path, compression=None) as stream:
                while block := stream.read(_BLOCK):
                    hashed.update(block)
            return _WHOLE + hashed.hexdigest()
        with self.store.open_input_file(self.path) as file:
            ends = file.read_at(_END, 0) + file.read_at(_END, max(0, file.size() - _END))
        return f"{info.size} bytes, changed at {info.mtime_ns}, ends {sha256(ends).hexdigest()}"

    def _tag(self) -> str:
        """Return what a store calls this version of an object, if it does: ETag, a hash, a generation."""
        if isinstance(self.store, PyFileSystem):
            store = self.store.handler.fs
            store.invalidate_cache()  # some remember what they were once told
            facts = store.info(self.path)
        else:
            with self.store.open_input_stream(self.path, compression=None) as stream:
                facts = {name: value.decode(errors="replace") for name, value in (stream.metadata() or {}).items()}
        named = {str(name).lower(): str(value) for name, value in facts.items() if value}
        tag = named.get("etag") or named.get("md5hash") or named.get("generation") or ""
        return "" if tag.startswith("W/") else tag  # a weak one speaks of the meaning, not of the bytes

    def read(self) -> bytes:
        """Return the content of a small file."""
        with self.store.open_input_stream(self.path, compression=None) as stream:
            content: bytes = stream.read()
        return content

    def write(self, content: bytes) -> None:
        """Write a small file, whole or not at all."""
        if not self.is_local:
            self._put(pa.py_buffer(content))
            return
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as file:
            file.write(content)

    def fetch(self, target: Path) -> None:
        """Copy a file to this machine."""
        said = self.info.size
        with self.store.open_input_stream(self.path, compression=None) as stream, target.open("wb") as file:
            while block := stream.read(_BLOCK):
                file.write(block)
        length = target.stat().st_size
        if said is not None and length != said:
            raise OSError(
                f"{self.shown} must give back all of its {said} bytes; {length} came. Was it replaced? Try again."
            )

    def put(self, source: Path) -> None:
        """Copy a file of this machine to the store."""
        with pa.memory_map(as_utf8(source)) as file:
            self._put(file.read_buffer())

    def _put(self, content: Any) -> None:
        """Put an object in one piece: a stream that is closed half-way would leave half an object."""
        with deferred_signals():
            stream = self.store.open_output_stream(self.path)
            stream.write(content)
            stream.close()


def refuse_changing_input(shown: str) -> NoReturn:
    """Refuse a file that somebody writes to."""
    raise OSError(
        f"{shown} must stay as it is while it is read; it changed. Run the command again when nobody writes to it."
    )


def is_of_all_bytes(digest: str) -> bool:
    """Tell whether equal digests mean equal files, whatever they are called: a tag speaks of one name alone."""
    return digest.startswith(_WHOLE)


def location_of(name: str) -> Location:
    """Return the location that a name or a URL stands for."""
    if not is_url(name):
        return Location(LocalFileSystem(), as_utf8(os.path.abspath(name)), name)
    scheme, _, rest = name.partition("://")
    if scheme.lower() == "file":
        return replace(location_of(unquote(rest)), shown=name)
    settings = _QUERY.search(rest)
    address, _, path = (rest if settings is None else rest[: settings.start()]).partition("/")
    store, base = _store_of(f"{scheme}://{address}/" + (f"?{settings[1]}" if settings else ""))
    whole = "/".join(part for part in (base.rstrip("/"), path.rstrip("/")) if part)
    return Location(store, whole, name if settings is None else name[: -len(settings[0])])


@cache
def _store_of(url: str) -> tuple[Any, str]:
    """Return a file system and a path in it: pyarrow's own, else one of fsspec's."""
    try:
        store_and_path: tuple[Any, str] = FileSystem.from_uri(url)
        return store_and_path
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if "Unrecognized filesystem" not in str(error) and not isinstance(error, pa.ArrowNotImplementedError):
            raise ValueError(f"{url} cannot be reached: {error}") from error
    try:
        import fsspec

        store, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        scheme = url.partition(":")[0]
        raise ImportError(
            f"{url} needs a package that is not installed: pyarrow itself cannot reach {scheme}://, and fsspec says: "
            f"{error}. For example: pip install fsspec s3fs gcsfs adlfs aiohttp"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{url} must be a URL of a store that pyarrow or fsspec knows, such as s3://, gs://, abfs:// or hdfs://; "
            f"{error}."
        ) from error
    return PyFileSystem(FSSpecHandler(store)), path


def new_folder() -> Path:
    """Return a folder that goes away when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="aptset-csv-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def local_copy(location: Location) -> Iterator[Path]:
    """Give a file of this machine with the same content; the file itself where it is here."""
    if location.is_local:
        yield Path(location.path)
        return
    with scratch_folder() as folder:
        path = folder / location.path.rpartition("/")[2]
        location.fetch(path)
        yield path


@contextmanager
def local_target(location: Location) -> Iterator[Path]:
    """Give a path to write to; on a store the file appears there when all went well."""
    if location.is_local:
        yield Path(location.path)
        return
    with scratch_folder() as folder:
        path = folder / location.path.rpartition("/")[2]
        yield path
        location.put(path)


def fetch_once(url: str) -> Path:
    """Return a copy of a file on a store that is there until the process ends."""
    location, stack = location_of(url), ExitStack()
    if location.is_folder:
        raise IsADirectoryError(f"{url} must be a file; it is a folder. Name a file in it.")
    if not location.is_file:
        raise FileNotFoundError(f"{url} must be a file; there is none of that name.")
    atexit.register(stack.close)
    return stack.enter_context(local_copy(location))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give an empty folder that goes afterwards; what a kill leaves lies in the folder for temporary files."""
    with ExitStack() as stack:
        with deferred_signals():
            folder = tempfile.mkdtemp(prefix="aptset-part-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Path(folder)
