"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import BinaryIO


def check_exists(path: Path, way_out: str = "Pass - and redirect it to standard input.") -> Path:
    """Refuse an input that is no file: a name that is not there, a folder, a pipe, a device, a circle of links.

    ``way_out`` is that of pipes and devices, which would block, or could not be mapped.
    """
    as_utf8(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file; it is a folder. Name a file in it.")
    if path.exists():
        raise OSError(f"{path} must be a file; it is a pipe or a device. {way_out}")
    if path.is_symlink():
        raise FileNotFoundError(f"{path} must be a file; it is a link to nothing, or to itself.")
    raise FileNotFoundError(f"{path} must be a file; there is none of that name.")


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


def check_target_folder(path: Path) -> Path:
    """Refuse to make a folder where there is a file, or within one."""
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        if folder.exists() or folder.is_symlink():
            raise NotADirectoryError(f"{path} must be a folder; {folder} is a file. Name another one.")
    return path


def as_utf8(path: str | Path) -> str:
    """Return a name for libraries that write every name in UTF-8, whatever the locale made of its bytes."""
    try:
        return os.fsencode(path).decode()
    except ValueError as error:
        raise ValueError(f"{str(path)!r} must be a name that UTF-8 can write. Rename the file.") from error


def check_other_files(outs: Iterable[Path], inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write over what is read, whatever the two are called: links, ./, upper and lower case."""
    for out, name in product(outs, inputs):
        try:
            source = os.fstat(0) if str(name) == "-" else os.stat(name or "")
            is_same = os.path.samestat(os.stat(out), source)
        except (OSError, ValueError):  # one of them is not there
            continue
        if is_same:
            what = "standard input" if str(name) == "-" else name
            raise ValueError(f"{out} must be another file than the input, {what}: it would be replaced. Rename one.")


try:
    import fcntl
except ImportError:  # Windows: every process then has a name of its own, and nothing is swept
    fcntl = None  # type: ignore[assignment]

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_MOST_NAMES = 1000  # that are tried in turn
_LONGEST_NAME = 255  # bytes, in every file system that people use


@contextmanager
def atomic_path(path: str | Path, called: str | None = None) -> Iterator[Path]:
    """Give a temporary path beside the wanted one; what is written there takes its place when all went well.

    A killed process leaves its temporary file behind; the next one that writes the same name takes it over. Names that
    never come again, as those that hold a digest, have a name in common, ``called``, to that end.
    """
    final = check_target_file(Path(path))
    temporary = handle = None
    try:
        with deferred_signals():
            temporary, handle = _claim(final, called or final.name)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(final.stat().st_mode if final.exists() else 0o666 & ~_umask())
        temporary.replace(final)
    except BaseException as error:
        if temporary is None:
            raise
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            # A full disk does not say where, and nobody asked for the temporary file.
            raise OSError(error.errno, f"cannot be written ({error.strerror})", str(final)) from error
        raise
    finally:
        if handle is not None:
            os.close(handle)
    _flush_folder(final.parent)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Hold signals back until the block is over: one between making a file and noting it would leave it behind."""
    if threading.current_thread() is not threading.main_thread():  # Python runs handlers in the main thread alone
        yield
        return
    held: list[int] = []
    before = {}
    try:
        for name in _ENDING:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and callable(signal.getsignal(number)):
                before[number] = signal.getsignal(number)
                signal.signal(number, lambda number, frame: held.append(number))
        yield
    finally:
        for number, handler in reversed(before.items()):
            signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)


def _claim(final: Path, called: str) -> tuple[Path, int]:
    """Make an empty file beside another that no living process works on, and lock it until its handle is closed.

    Names are tried in turn, so what a killed process left under one of them is taken over, not piled up. Whoever takes
    all these names on purpose stops nobody: then the name is one that cannot be guessed, as without locks.
    """
    for number in range(_MOST_NAMES if fcntl is not None else 0):
        path = final.with_name(_temporary_name(called, str(number)))
        try:
            handle = _lock(path)
        except OSError as error:
            if error.filename is not None:  # it cannot be made at all
                raise OSError(error.errno, f"cannot be written ({error.strerror})", str(path.parent)) from error
            break  # a file system without locks
        if handle is not None:
            return path, handle
    path = final.with_name(_temporary_name(called, secrets.token_hex(8)))
    return path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def _lock(path: Path) -> int | None:
    """Open and lock a file of ours; None if somebody is at work on it, or if it is somebody else's."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError:
        if path.is_symlink() or path.exists():
            return None
        raise
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, its owner may have moved it to where it belongs.
        status = os.fstat(handle)
        # Emptied under this name, a file that has another one would be empty under that, too.
        is_spare = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1
        if is_spare and os.path.samestat(status, os.stat(path)):
            os.ftruncate(handle, 0)
            with suppress(OSError):  # not every file system has permissions
                os.fchmod(handle, 0o600)
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        path.unlink(missing_ok=True)
        raise
    os.close(handle)
    return None


def _temporary_name(name: str, number: str) -> str:
    """Return a hidden name beside a file; a long name is cut, and told from others by its hash."""
    ending = f".{number}.tmp"
    if len(os.fsencode(name)) + len(ending) + 1 > _LONGEST_NAME:
        digest = blake2b(os.fsencode(name), digest_size=8).hexdigest()
        name = f"{name[:48]}-{digest}"  # 48 letters are at most 192 bytes
    return f".{name}{ending}"


def _flush_folder(path: Path) -> None:
    with suppress(OSError):  # not every system lets a folder be flushed
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the old one when all went well."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file
