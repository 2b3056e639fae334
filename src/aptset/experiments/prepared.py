"""Prepared data in the cache: what took long to compute, with a digest, so that damage is seen."""

from __future__ import annotations

import hashlib
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.experiments.checks import warn_damaged_cache
from aptset.running.writing import atomic_write


def keep(path: Path, X: NDArray[Any], y: NDArray[Any]) -> None:
    """Keep prepared data; a cache that cannot be written is no reason to stop."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez(file, X=X, y=y, digest=_digest(X, y))


def kept(path: Path) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return what was kept, or None; a damaged file is named and removed."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            X, y, digest = arrays["X"], arrays["y"], str(arrays["digest"])
        if digest == str(_digest(X, y)):
            return X, y
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        pass
    warn_damaged_cache(path)
    with suppress(OSError):
        path.unlink()
    return None


def _digest(X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.str_]:
    found = hashlib.sha256()
    for values in (X, y):
        found.update(f"{values.shape} {values.dtype}".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return np.array(found.hexdigest())
