"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from aptset.running.path_checks import check_target_file

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
        with undisturbed():
            temporary, handle = claim(lambda number: final.with_name(_temporary_name(called or final.name, number)))
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
def undisturbed() -> Iterator[None]:
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


def claim(path_of: Callable[[int | str], Path], prepare: Callable[[Path], bool] | None = None) -> tuple[Path, int]:
    """Make an empty file that no living process works on, and lock it until its handle is closed.

    Names are tried in turn, so what a killed process left under one of them is taken over, not piled up. ``prepare``
    gets the locked path and tells whether it will do. Whoever takes all these names on purpose stops nobody: then the
    name is one that cannot be guessed.
    """
    for number in range(_MOST_NAMES):
        path = path_of(number)
        try:
            handle = _lock(path)
        except OSError as error:
            if error.filename is not None:  # it cannot be made at all
                raise OSError(error.errno, f"cannot be written ({error.strerror})", str(path.parent)) from error
            break  # a file system without locks
        if handle is not None and (prepare is None or prepare(path)):
            return path, handle
        if handle is not None:
            path.unlink(missing_ok=True)
            os.close(handle)
    path = path_of(secrets.token_hex(8))
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if prepare is not None and not prepare(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    return path, handle


def _lock(path: Path) -> int | None:
    """Open and lock a file of ours; None if somebody is at work on it, or if it is somebody else's."""
    if fcntl is None:
        raise OSError("no locks")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if path.is_symlink() or path.exists():
            return None
        raise error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, its owner may have moved it to where it belongs.
        if _is_spare(os.fstat(handle)) and os.path.samestat(os.fstat(handle), os.stat(path)):
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


def _is_spare(found: os.stat_result) -> bool:
    """Tell whether a file is our own and has no other name: emptied under this one, it would be under that one too."""
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def _temporary_name(name: str, number: int | str) -> str:
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
