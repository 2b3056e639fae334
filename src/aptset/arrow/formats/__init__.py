"""Files as sources of Arrow record batches: one class per format, each in a file of its own.

A new format is one new file here: a class with an ending, the names of the columns, the number of rows, and batches.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from aptset.arrow.formats.table_file import Keys as Keys
from aptset.arrow.formats.table_file import TableFile as TableFile

_ORDER = ("delimited", "parquet", "ipc", "arrays")  # as messages name them; others follow
_COMPRESSED = (".gz", ".bz2", ".zst")


@cache
def formats() -> dict[str, type[TableFile]]:
    """Return the class for each ending of a name: those of all files of this folder."""
    names = [module.name for module in iter_modules(__path__)]
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    modules = [vars(import_module(f"{__name__}.{name}")) for name in names]
    kinds = [kind for module in modules for kind in module.values() if isinstance(kind, type)]
    return {ending: kind for kind in kinds if issubclass(kind, TableFile) for ending in kind.endings}


def format_of(path: Path) -> type[TableFile]:
    """Return what a file is by its name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    ending = suffixes[-1] if suffixes else ""
    if ending not in formats():
        raise ValueError(
            f"{path} must end in one of {', '.join(formats())} (.gz may follow); got {ending or 'no ending'!r}."
        )
    return formats()[ending]


def table_file(path: Path, separator: str | None = None, encoding: str | None = None, keys: Keys = ()) -> TableFile:
    """Return a file as a source of rows; ``separator`` and ``encoding`` are for formats that are text."""
    found = format_of(path)
    dialect: dict[str, Any] = {"separator": separator, "encoding": encoding} if found.is_text else {}
    for option, value in (("--sep", separator), ("--encoding", encoding)):
        if value is not None and not found.is_text:
            raise ValueError(f"{option} is for CSV files; {path} is none.")
    return found(path, keys=keys, **dialect)
