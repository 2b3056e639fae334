"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from aptset.validation.files import check_target_file


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside the wanted one; what is written there takes its place when all went well."""
    final = check_target_file(Path(path))
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(final.stat().st_mode if final.exists() else 0o666 & ~_umask())
        temporary.replace(final)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            # A full disk does not say where, and nobody asked for the temporary file.
            raise OSError(error.errno, f"cannot be written ({error.strerror})", str(final)) from error
        raise
    with suppress(OSError):  # not every system lets a folder be flushed
        folder = os.open(final.parent, os.O_RDONLY)
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
