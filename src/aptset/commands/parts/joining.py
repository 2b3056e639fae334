"""Parts as one table, for commands that train on all rows at once."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from aptset.commands.checks import check_columns, check_distinct_columns, check_rows_present
from aptset.commands.parts.checks import check_joined, check_one_kind
from aptset.commands.parts.many import Parts
from aptset.commands.parts.opening import scratch_folder
from aptset.commands.reading import key_columns, kind_of, names_of, pieces_of
from aptset.running.path_checks import as_utf8

_ROWS = 65_536


def join(parts: Parts, called: str) -> Path:
    """Return one file with the rows of all parts, one after the other; it goes when the process ends."""
    is_csv = [kind_of(Path(part.name)) == "csv" for part in parts.parts]
    check_one_kind(called, any(is_csv), all(is_csv))
    stack = ExitStack()
    atexit.register(stack.close)
    stem = "".join(letter for letter in called.rstrip("/").rpartition("/")[2] if letter not in "*?[]") or "table"
    target = stack.enter_context(scratch_folder()) / (stem + (".csv" if all(is_csv) else ".parquet"))
    tables = _tables(parts)
    first: Any = next(tables, None)
    check_rows_present(Path(called), 0 if first is None else first.num_rows)
    if not all(is_csv):
        with check_joined(called):
            pq.write_table(pa.concat_tables([first, *tables], promote_options="permissive"), as_utf8(target))
        return target
    # All columns are texts, as they are written: what is a number is decided when all are there.
    with pa_csv.CSVWriter(as_utf8(target), first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
    return target


def _tables(parts: Parts) -> Iterator[pa.Table]:
    """Yield the rows of all parts in pieces, with the columns of the first, and with those that folders stand for."""
    wanted: list[str] = []
    for path, keys in parts.opened():
        names = names_of(path)
        check_distinct_columns(path, names)
        every = [*names, *key_columns(keys, names, 0)]
        wanted = wanted or every
        what = f"the columns of the first file: {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        check_columns(path, sorted(every) == sorted(wanted), what, every, wanted)
        for piece in pieces_of(path, dict.fromkeys(names, pa.string()), _ROWS):
            for name, column in key_columns(keys, names, piece.num_rows).items():
                piece = piece.append_column(name, column)
            yield piece.select(wanted)
