"""Runs that are at work in one folder at the same time: those of one kind share it, another one finds it taken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nobody is told of the others
    fcntl = None  # type: ignore[assignment]


@contextmanager
def shared(path: Path, begin: Callable[[bool], None]) -> Iterator[None]:
    """Hold a lock that is shared from when ``begin`` is over, which is told whether nobody else holds it.

    Without locks, or where none may be made, everybody is alone.
    """
    handle = _opened(path)
    try:
        is_alone = handle is None or _takes(handle)
        begin(is_alone)
        if handle is not None and is_alone and _shares(handle):  # another may have been quicker between the two locks
            begin(False)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _opened(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return None if fcntl is None else os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _takes(handle: int) -> bool:
    """Take the lock alone, or else wait until it can be shared; without locks everybody is alone."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return not _shares(handle)
    except OSError:
        return True
    return True


def _shares(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:
        return False
    return True
