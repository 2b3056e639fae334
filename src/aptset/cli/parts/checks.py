"""Parts: that there are some, that they can be told apart, and that a folder of output is theirs."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from aptset.arrow.formats import format_of

_SHOWN = 5  # parts that a warning names


@contextmanager
def check_store_installed(url: str) -> Iterator[None]:
    """Say what to install for a kind of URL."""
    try:
        yield
    except ImportError as error:
        scheme = url.partition(":")[0]
        raise ImportError(
            f"{url} needs a package that is not installed: pyarrow itself cannot reach {scheme}://, and fsspec says: "
            f"{error}. For example: pip install fsspec s3fs gcsfs adlfs aiohttp"
        ) from error


@contextmanager
def check_url_known(url: str) -> Iterator[None]:
    """Refuse a kind of URL that nobody knows."""
    try:
        yield
    except ValueError as error:
        raise ValueError(
            f"{url} must be a URL of a store that pyarrow or fsspec knows, such as s3://, gs://, abfs:// or hdfs://; "
            f"{error}."
        ) from error


def check_length(shown: str, found: int, said: int | None) -> None:
    """Refuse a copy that is not as long as the original."""
    if said is not None and found != said:
        raise OSError(f"{shown} must give back all of its {said} bytes; {found} came. Was it replaced? Try again.")


def check_no_circle(folder: str, is_new: bool) -> None:
    """Refuse a link to a folder that it is in."""
    if not is_new:
        raise OSError(f"{folder} must not be a link to a folder above it. Remove the link.")


def check_files(kinds: Sequence[tuple[str, bool]]) -> None:
    """Refuse what is neither a file nor a folder, such as a pipe or a link to nothing: data may be missing."""
    for shown, is_file in kinds:
        if not is_file:
            raise OSError(f"{shown} must be a file; it is a link to nothing, a pipe or a device. Remove it.")


def check_found(shown: str, number: int, is_folder: bool) -> None:
    """Refuse a folder without files, and a glob that matches none."""
    if number == 0 and is_folder:
        raise FileNotFoundError(
            f"{shown} must hold at least one file; it holds none (names that begin with . or _ are left out)."
        )
    if number == 0:
        raise FileNotFoundError(f"{shown!r} must match at least one file; it matches none.")


def check_there(shown: str, is_there: bool) -> None:
    """Refuse a name that nothing has."""
    if not is_there:
        raise FileNotFoundError(f"{shown} must be a file or a folder; there is none of that name.")


def check_remote_file(url: str, is_file: bool, is_folder: bool) -> None:
    """Refuse a URL that is no file."""
    if is_folder:
        raise IsADirectoryError(f"{url} must be a file; it is a folder. Name a file in it.")
    if not is_file:
        raise FileNotFoundError(f"{url} must be a file; there is none of that name.")


def check_endings(names: Sequence[tuple[str, str]]) -> None:
    """Refuse files of unknown kinds; each has its name, and what the user calls it."""
    for name, shown in names:
        try:
            format_of(Path(name))
        except ValueError as error:
            rule = str(error).partition(" must ")[2]
            raise ValueError(f"{shown} must {rule} To leave a file out, name the others by a glob.") from error


def check_told_apart(places: Sequence[tuple[str, str]]) -> None:
    """Refuse a file that was named twice: its rows would count twice."""
    counts = Counter(path for path, _ in places)
    for path, shown in places:
        if counts[path] > 1:
            raise ValueError(f"{shown} must be named once; it is named {counts[path]} times, or a glob matches it too.")


def check_one_store(shown: Sequence[str], is_one: bool) -> None:
    """Refuse parts on several file systems: their names have no folder in common."""
    if not is_one:
        raise ValueError(f"{', '.join(shown[:3])} must be on one file system. Run the command once for each.")


def check_one_kind(called: str, some_csv: bool, all_csv: bool) -> None:
    """Refuse a table of which some parts have types and others, being CSV, have none."""
    if some_csv and not all_csv:
        raise ValueError(
            f"{called} must hold files of one kind, to be read as one table; some are CSV, others are not."
        )


@contextmanager
def check_joined(called: str) -> Iterator[None]:
    """Name the parts whose columns do not go together."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{called} must hold columns of the same types in all files; {error}") from error


def check_output_names(names: Sequence[tuple[str, str]]) -> None:
    """Refuse parts whose sets would go to one file; each has the name of its output, and what the user calls it."""
    seen: dict[str, str] = {}
    for name, shown in names:
        if {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"{shown} must have a name without empty folders and ..; its sets go to {name!r}.")
        if name in seen:
            raise ValueError(f"{shown} and {seen[name]} must have different names; both would be written to {name}.")
        seen[name] = shown


def check_output_folder(out: str, is_folder: bool) -> None:
    """Refuse one file, or standard output, for the sets of several parts."""
    if not is_folder:
        raise ValueError(f"--out must be a folder where PROBS are several files: one for each; got {out!r}. Try sets/")


def check_outside(out: str, is_outside: bool) -> None:
    """Refuse to write where parts are read: the next run would take sets for input."""
    if not is_outside:
        raise ValueError(f"{out} must be outside of the folder that is read: its files would be read next time.")


def check_free(out: str, is_free: bool) -> None:
    """Refuse a folder with files of somebody else."""
    if not is_free:
        raise ValueError(
            f"{out} must be an empty folder, or hold an earlier run of the same command; it holds other files. Name "
            "another folder."
        )


def check_same_run(out: str, before: Any, now: dict[str, Any]) -> None:
    """Refuse to go on with other settings than those of the parts that are finished."""
    if not isinstance(before, dict):
        raise ValueError(f"{out} must hold an earlier run of the same command; its manifest cannot be read.")
    for name in [*now, *before]:
        if before.get(name) != now.get(name):
            raise ValueError(
                f"{out} holds the parts of another run: {name} was {before.get(name)!r}, and is {now.get(name)!r} now. "
                "Name another folder, or delete this one."
            )


def check_same_inputs(others: Sequence[tuple[str, str, str]]) -> None:
    """Refuse parts of another input; each has the output, the input that it is of, and the one of this run."""
    if others:
        out, before, now = others[0]
        more = f" So it is with {len(others) - 1:,} more." if len(others) > 1 else ""
        raise ValueError(
            f"{out} holds the sets of {before}, and this run reads {now}, whose content is another.{more} Name another "
            "folder by --out, or delete this one."
        )


def check_only_claim(out: str, shown: str, is_only: bool) -> None:
    """Refuse a part that another run is writing from another input."""
    if not is_only:
        raise ValueError(
            f"{out} is being written by a run that reads another input than {shown}. Name another folder by --out."
        )


def warn_anew(out: str, reasons: Sequence[tuple[str, str]]) -> None:
    """Say which parts are predicted again, and why: nothing that was finished is replaced in silence."""
    if reasons:
        shown = ", ".join(f"{name} ({why})" for name, why in reasons[:_SHOWN])
        more = f" and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
        many = "1 part is" if len(reasons) == 1 else f"{len(reasons):,} parts are"
        warnings.warn(f"{out}: {many} predicted anew: {shown}{more}.", stacklevel=2)


def refuse_changing_input(shown: str) -> NoReturn:
    """Refuse a file that somebody writes to."""
    raise OSError(
        f"{shown} must stay as it is while it is read; it changed. Run the command again when nobody writes to it."
    )
