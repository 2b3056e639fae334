"""Many parts, opened one by one: read as if they were one file, or each written to a file of its own."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from aptset.arrow.formats import TableFile, format_of
from aptset.arrow.formats.table_file import check_rows_present
from aptset.cli.checks import check_columns, check_distinct_columns
from aptset.cli.files import ProbabilityFile
from aptset.cli.parts.checks import check_joined, check_one_kind, check_same_inputs, refuse_changing_input, warn_anew
from aptset.cli.parts.discovery import Part, Reader, local_target, scratch_folder
from aptset.cli.parts.manifest import COUNTS, Ledger, Look
from aptset.cli.parts.stores import Place
from aptset.core.files import as_utf8
from aptset.core.progress import Bar

OnePart = Callable[[TableFile, Path], dict[str, Any]]  # what is done with one part, and the file to write


@dataclass(frozen=True)
class Parts:
    """Many files, each of which is opened when its turn has come."""

    parts: Sequence[Part]
    reader: Reader
    progress: bool

    def files(self) -> Iterator[TableFile]:
        """Yield a file of this machine for each part."""
        bar = Bar(len(self.parts), "parts", self.progress)
        try:
            for part in self.parts:
                with self.reader.file_of(part) as file:
                    yield file
                bar.advance(1, part.name)
        finally:
            bar.close()

    def sources(self, source_of: Callable[[TableFile], ProbabilityFile]) -> Iterator[ProbabilityFile]:
        """Yield the parts as files of probabilities; those without rows have nothing to say, unless all are such."""
        path, n_sources = Path(), 0
        for file in self.files():
            path = file.path
            if file.rows != 0:
                n_sources += 1
                yield source_of(file)
        check_rows_present(path, n_sources)

    def write(self, out: Place, settings: dict[str, Any], folders: Sequence[Place], one: OnePart) -> dict[str, Any]:
        """Write the sets of each part to a folder; parts that an earlier run finished are left as they are."""
        with Ledger.open(out, settings, self.parts, folders) as ledger:
            return self._write_all(ledger, one)

    def _write_all(self, ledger: Ledger, one: OnePart) -> dict[str, Any]:
        bar = Bar(len(self.parts), "parts", self.progress)
        try:
            looks = self._looks(ledger, bar)
            records = {part.name: look.record for part, look in zip(self.parts, looks, strict=True) if look.record}
            n_before = len(records)
            for part in [part for part in self.parts if part.name not in records]:
                records[part.name] = self._write_one(ledger, part, one)
                bar.advance(1, part.name)
        finally:
            bar.close()
        rows, labels, empty = (sum(record[name] for record in records.values()) for name in COUNTS)
        done = {"rows": rows, "mean_size": labels / rows if rows else 0.0, "empty": empty, "parts": len(self.parts)}
        done |= {"finished_before": n_before, "finished_from_copies": sum(look.is_copy for look in looks)}
        done["predicted_anew"] = sum(bool(look.anew) for look in looks)
        return {**done, "other_parts": ledger.others(self.parts)}

    def _looks(self, ledger: Ledger, bar: Bar) -> list[Look]:
        """Return what is there of each part; refuse sets of another input, and say which are made anew."""
        looks = []
        for look in ledger.looks(self.parts):
            looks.append(look)
            bar.advance(look.record is not None)
        named = list(zip(self.parts, looks, strict=True))
        others = [(part, look.other_input) for part, look in named if look.other_input]
        check_same_inputs([(ledger.out.below(p.output_name).shown, old, p.place.full_name) for p, old in others])
        warn_anew(ledger.out.shown, [(part.output_name, look.anew) for part, look in named if look.anew])
        return looks

    def _write_one(self, ledger: Ledger, part: Part, one: OnePart) -> dict[str, Any]:
        place = ledger.out.below(part.output_name)
        if place.is_local:
            Path(place.path).parent.mkdir(parents=True, exist_ok=True)
        version, digest = part.place.version(), part.place.digest()
        with ledger.claimed(part, digest):
            with self.reader.file_of(part) as file, local_target(place) as target:
                self.reader.on_name(target, place.shown)
                done = one(file, target)
                if part.place.version() != version and part.place.digest() != digest:
                    target.unlink(missing_ok=True)  # sets of two states of a file; on a store none were put yet
                    refuse_changing_input(part.place.shown)
            counts = {"rows": done["rows"], "labels": round(done["mean_size"] * done["rows"]), "empty": done["empty"]}
            ledger.note(part, digest, counts)
        return counts


_ROWS = 65_536


def join(parts: Parts, called: str) -> Path:
    """Return one file with the rows of all parts, one after the other; it goes when the process ends."""
    is_csv = [format_of(Path(part.name)).is_text for part in parts.parts]
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
    for file in parts.files():
        check_distinct_columns(file.path, file.names)
        every = [*file.names, *file.key_columns(0)]
        wanted = wanted or every
        what = f"the columns of the first file: {', '.join(wanted[:12])}{', ...' if len(wanted) > 12 else ''}"
        check_columns(file.path, sorted(every) == sorted(wanted), what, every, wanted)
        for piece in file.pieces(_ROWS):
            for name, column in file.key_columns(piece.num_rows).items():
                piece = piece.append_column(name, column)
            yield piece.select(wanted)
