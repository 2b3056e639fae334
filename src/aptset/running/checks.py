"""Folders and workers of long work."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any


def check_keys(keys: Sequence[str]) -> None:
    """Refuse two tasks of one name: one would stand for the other."""
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if list(keys).count(key) > 1)
        raise ValueError(f"tasks must have different keys; {twice!r} is there twice.")


def check_jobs(jobs: Any) -> int:
    """Return the number of worker processes."""
    if jobs is None:
        return 1
    if isinstance(jobs, bool) or not isinstance(jobs, Integral) or int(jobs) == 0 or int(jobs) < -1:
        raise ValueError(f"jobs must be a positive whole number, or -1 for one worker per core; got {jobs!r}.")
    if int(jobs) > 0:
        return int(jobs)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_folder(folder: Path) -> Path:
    """Make a folder and refuse one that cannot be written, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{folder} must be a folder that can be written; {error.strerror or error}.") from error
    return folder


def warn_damaged(path: Path, what: str) -> None:
    """Say which result cannot be used."""
    warnings.warn(f"{path} is damaged and {what}; every other result is kept.", stacklevel=2)
