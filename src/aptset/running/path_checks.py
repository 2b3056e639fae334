"""Names of files: what may be read, what may be written, and never the one over the other."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO


def check_exists(path: Path) -> Path:
    """Refuse an input that is no file: a name that is not there, a folder, a pipe, a device, a circle of links."""
    as_utf8(path)
    if path.is_file():
        return path
    if path.is_dir():
        raise IsADirectoryError(f"{path} must be a file; it is a folder. Name a file in it.")
    if path.exists():
        raise OSError(f"{path} must be a file; it is a pipe or a device. Pass - and redirect it to standard input.")
    if path.is_symlink():
        raise FileNotFoundError(f"{path} must be a file; it is a link to nothing, or to itself.")
    raise FileNotFoundError(f"{path} must be a file; there is none of that name.")


def check_plain_file(path: Path) -> Path:
    """Refuse what would block or could not be mapped, before it is opened."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(f"{path} must be a file; it is a pipe or a device. Copy its content to a file first.")
    return check_exists(path)


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
    sources = [(name, found) for name in inputs if name is not None and (found := _identity(name)) is not None]
    for out in outs:
        target = _identity(out)
        for name, found in sources:
            if target is not None and os.path.samestat(target, found):
                what = "standard input" if str(name) == "-" else name
                raise ValueError(
                    f"{out} must be another file than the input, {what}: it would be replaced. Rename one."
                )


def _identity(name: str | Path) -> os.stat_result | None:
    """Return what tells a file from all others, or None if there is none."""
    with suppress(OSError, ValueError):
        return os.fstat(0) if str(name) == "-" else os.stat(name)
    return None


def check_standard_input(stdin: Any) -> BinaryIO:
    """Return the bytes of standard input; refuse one that is closed."""
    if stdin is None or stdin.closed:
        raise OSError("- must be standard input that is open; it is closed. Pipe data in, or name a file.")
    stream: BinaryIO = stdin.buffer
    return stream
