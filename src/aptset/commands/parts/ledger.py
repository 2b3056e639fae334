"""What is finished in a folder of sets: a manifest of the run, and a record for each part, written when it is whole.

A record is a file of its own. One list of all parts would have to be written anew after each of them, and two runs on
different parts of the same input could not share a folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow.fs import FileType

from aptset.commands.parts.checks import (
    check_free,
    check_output_names,
    check_outside,
    check_same_run,
)
from aptset.commands.parts.finding import Part
from aptset.commands.parts.sharing import shared
from aptset.commands.parts.stores import Place

_FOLDER = "_aptset"  # readers of datasets leave out what begins with _
_MANIFEST = f"{_FOLDER}/manifest.json"
_LOCK = f"{_FOLDER}/.lock"
COUNTS = ("rows", "labels", "empty")  # what a record says about the sets of a part
_READERS = 16  # records are many and small, and a store answers slowly


@dataclass(frozen=True)
class Ledger:
    """The records in a folder of output."""

    out: Place

    @classmethod
    @contextmanager
    def open(
        cls, out: Place, settings: dict[str, Any], parts: Sequence[Part], folders: Sequence[Place]
    ) -> Iterator[Ledger]:
        """Begin a run in a folder, or go on with one of the same settings; ``folders`` are those that are read."""
        check_output_names([(part.output_name, part.place.shown) for part in parts])
        inside = any(_is_below(out, folder) for folder in folders) or any(_is_below(part.place, out) for part in parts)
        check_outside(out.shown, not inside)
        if out.is_local:
            Path(out.path).mkdir(parents=True, exist_ok=True)
        ledger, settings = cls(out), json.loads(json.dumps(settings))
        ledger._holds_something()  # nothing is written into a folder of somebody else
        if not out.is_local:
            ledger._begin(settings, is_alone=True)
            yield ledger
            return
        with shared(Path(out.below(_LOCK).path), partial(ledger._begin, settings)):
            yield ledger

    def _holds_something(self) -> bool:
        """Tell whether parts were finished here; refuse a folder that is not ours."""
        there = {name for name, info in self.out.listed(recursive=True) if info.type == FileType.File}
        found = any(name != _MANIFEST and not name.rpartition("/")[2].startswith(".") for name in there)
        check_free(self.out.shown, not found or _MANIFEST in there)
        return found

    def _begin(self, settings: dict[str, Any], is_alone: bool) -> None:
        """Write down the settings of the run; those of one that is at work or finished something stay."""
        manifest = self.out.below(_MANIFEST)
        if not is_alone or self._holds_something():
            check_same_run(self.out.shown, _read(manifest), settings)
        else:  # nothing was finished: what went wrong may have been the settings
            manifest.write(_as_json(settings))

    def finished(self, parts: Sequence[Part]) -> dict[str, dict[str, Any]]:
        """Return the records of the parts whose input and output are as they were when the part was finished."""
        there = {name: info for name, info in self.out.listed(recursive=True) if info.type == FileType.File}
        noted = [part for part in parts if _record_of(part) in there]
        read = partial(_read_record, self.out)
        with ThreadPoolExecutor(_READERS) as readers:
            records = list(readers.map(read, noted))
        found = {}
        for part, record in zip(noted, records, strict=True):
            output = there.get(part.output_name)
            if record is not None and output is not None and _facts(part, output.size) == _facts_in(record):
                found[part.name] = record
        return found

    def others(self, parts: Sequence[Part]) -> int:
        """Return how many parts were finished here that this run does not know."""
        known = {_record_of(part) for part in parts}
        noted = self.out.below(f"{_FOLDER}/parts").listed(recursive=True)
        return sum(info.type == FileType.File and f"{_FOLDER}/parts/{name}" not in known for name, info in noted)

    def note(self, part: Part, counts: dict[str, int]) -> None:
        """Write down that a part is finished."""
        size = self.out.below(part.output_name).info.size
        self.out.below(_record_of(part)).write(_as_json({**_facts(part, size), **counts}))


def _record_of(part: Part) -> str:
    return f"{_FOLDER}/parts/{part.name}.json"


def _facts(part: Part, size: int | None) -> dict[str, Any]:
    """Return what must not change between two runs: a part that is replaced, or damaged, is done again."""
    return {"input_size": part.size, "input_changed": part.changed, "output_size": size}


def _facts_in(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record.get(name) for name in ("input_size", "input_changed", "output_size")}


def _read_record(out: Place, part: Part) -> dict[str, Any] | None:
    found = _read(out.below(_record_of(part)))
    return found if isinstance(found, dict) and all(type(found.get(name)) is int for name in COUNTS) else None


def _read(place: Place) -> Any:
    try:
        return json.loads(place.read())
    except (ValueError, FileNotFoundError):
        return None


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _is_below(place: Place, folder: Place) -> bool:
    """Tell whether a place is in a folder, or is that folder."""
    if place.store != folder.store:
        return False
    paths = [str(Path(one.path).resolve()) if one.is_local else one.path for one in (place, folder)]
    return paths[0] == paths[1] or paths[0].startswith(paths[1].rstrip("/") + "/")
