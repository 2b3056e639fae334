"""Experiments: names, folders, data sets, optional packages."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aptset.core import validate


def check_count(value: Any, name: str) -> int:
    """Return a positive whole number."""
    return validate.whole(value, name, 1, "a positive whole number")


def check_whole(text: Any, name: str) -> int:
    """Return the positive whole number that a text stands for."""
    try:
        return check_count(int(text), name)
    except ValueError as error:
        raise ValueError(f"{name} must be positive whole numbers; got {text!r}.") from error


def warn_left_out(names: Sequence[str]) -> None:
    """Say which experiments have nothing to show."""
    if names:
        warnings.warn(f"no finished result belongs to {', '.join(names)}: nothing is drawn.", stacklevel=2)


def check_finished_folder(folder: Path) -> Path:
    """Refuse to draw from a folder that is not there."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must hold finished results to draw; leave out --draw-only to compute them.")
    return folder


def warn_damaged_cache(path: Path) -> None:
    """Say that kept data cannot be used."""
    warnings.warn(f"{path} is damaged and is made again.", stacklevel=2)


def check_names(names: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    """Refuse names that are not known, and say which are."""
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{what} must be among {', '.join(known)}; got {name!r}.")
    return wanted


def check_something_left(tasks: Sequence[Any], filters: dict[str, Any]) -> None:
    """Refuse a choice that leaves nothing to do."""
    if not tasks:
        chosen = ", ".join(f"{name}={value}" for name, value in filters.items() if value)
        raise ValueError(f"the experiments must have something to run; nothing is left with {chosen}.")


def check_some_finished(count: int, folder: Path) -> None:
    """Refuse to draw nothing."""
    if count == 0:
        raise ValueError(f"{folder} must hold at least one finished result at this alpha and seed; it holds none.")


def check_checksum(path: Path, sha256: str) -> Path:
    """Refuse a file whose content is not the published one."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != sha256:
        raise ValueError(f"{path} must have sha256 {sha256[:16]}...; got {digest[:16]}.... Fetch it again.")
    return path


def check_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], n_classes: int, classes: int) -> None:
    """Refuse data that are not the ones of the paper."""
    if shape != wanted or n_classes != classes:
        raise ValueError(
            f"data set {name!r} must have shape {wanted} and {classes} classes; got {shape} and {n_classes}."
        )


def check_sizes(name: str, n: int, n_train: int, n_test: int) -> None:
    """Refuse to draw more rows than there are."""
    if n_train + n_test > n:
        raise ValueError(f"n_train + n_test must be at most the {n} rows of {name}; got {n_train} + {n_test}.")


def offline_error(name: str, source: str, folder: Path | None, files: Sequence[str], error: Exception) -> OSError:
    """Return the error for data that can be found nowhere."""
    local = f"{folder} has no {files[0]}" if folder is not None else "no folder was given"
    return OSError(
        f"data set {name!r} must come from a local folder, the cache or OpenML; {local}, and OpenML "
        f"({source}) could not be reached ({type(error).__name__}). Pass --data DIR with {', '.join(files)}."
    )
