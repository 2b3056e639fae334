"""What is finished in a folder of sets: a manifest of the run, and a record for each part, written when it is whole.

A record is a file of its own. One list of all parts would have to be written anew after each of them, and two runs on
different parts of the same input could not share a folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow.fs import FileType

from aptset.arrow.formats import TableFile
from aptset.cli.many_files import FilePart, Parts, Reader
from aptset.cli.stores import Location, is_of_all_bytes, local_target, refuse_changing_input
from aptset.core.runner import Bar
from aptset.core.validate import warn_caller

try:
    import fcntl
except ImportError:  # Windows: nobody is told of the others
    fcntl = None  # type: ignore[assignment]


@contextmanager
def shared(path: Path, begin: Callable[[bool], None]) -> Iterator[None]:
    """Hold a lock that is shared from when ``begin`` is over, which is told whether nobody else holds it.

    Without locks, or where none may be made, everybody is alone.
    """
    handle = _opened(path)
    try:
        is_alone = handle is None or _takes(handle)
        begin(is_alone)
        if handle is not None and is_alone and _shares(handle):  # another may have been quicker between the two locks
            begin(False)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _opened(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return None if fcntl is None else os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None


def _takes(handle: int) -> bool:
    """Take the lock alone, or else wait until it can be shared; without locks everybody is alone."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return not _shares(handle)
    except OSError:
        return True
    return True


def _shares(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:
        return False
    return True


_FOLDER = "_aptset"  # readers of datasets leave out what begins with _
_MANIFEST = f"{_FOLDER}/manifest.json"
_LOCK = f"{_FOLDER}/.lock"
_CLAIM = ".claim"
COUNTS = ("rows", "labels", "empty")  # what a record says about the sets of a part
_FACTS = ("part", "input", "input_digest", "output_digest")  # what it says about the files
_READERS = 16  # records are many and small, and a store answers slowly


def check_output_names(names: Sequence[tuple[str, str]]) -> None:
    """Refuse parts whose sets would go to one file; each has the name of its output, and what the user calls it."""
    seen: dict[str, str] = {}
    for name, shown in names:
        if {"", ".", ".."} & set(name.split("/")):
            raise ValueError(f"{shown} must have a name without empty folders and ..; its sets go to {name!r}.")
        if name in seen:
            raise ValueError(f"{shown} and {seen[name]} must have different names; both would be written to {name}.")
        seen[name] = shown


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


class Look(NamedTuple):
    """What an earlier run left of a part: the record of sets that still hold, or why they are made anew, or neither."""

    record: dict[str, Any] | None = None
    is_copy: bool = False  # the input has another name than then, and the same bytes
    anew: str = ""
    other_input: str = ""  # whose sets stand where those of this part would


@dataclass(frozen=True)
class Manifest:
    """The records in a folder of output."""

    out: Location

    @classmethod
    @contextmanager
    def open(
        cls, out: Location, settings: dict[str, Any], parts: Sequence[FilePart], folders: Sequence[Location]
    ) -> Iterator[Manifest]:
        """Begin a run in a folder, or go on with one of the same settings; ``folders`` are those that are read."""
        check_output_names([(part.output_name, part.location.shown) for part in parts])
        inside = any(_is_below(out, folder) for folder in folders) or any(
            _is_below(part.location, out) for part in parts
        )
        if inside:  # the next run would take sets for input
            raise ValueError(
                f"{out.shown} must be outside of the folder that is read: its files would be read next time."
            )
        if out.is_local:
            Path(out.path).mkdir(parents=True, exist_ok=True)
        manifest, settings = cls(out), json.loads(json.dumps(settings))
        manifest._holds_something()  # nothing is written into a folder of somebody else
        if not out.is_local:
            manifest._begin(settings, is_alone=True)
            yield manifest
            return
        with shared(Path(out.below(_LOCK).path), partial(manifest._begin, settings)):
            yield manifest

    def _holds_something(self) -> bool:
        """Tell whether parts were finished here; refuse a folder that is not ours."""
        there = {name for name, info in self.out.listed(recursive=True) if info.type == FileType.File}
        has_parts = any(name != _MANIFEST and not _is_hidden(name) for name in there)
        if has_parts and _MANIFEST not in there:
            raise ValueError(
                f"{self.out.shown} must be an empty folder, or hold an earlier run of the same command; it holds other "
                "files. Name another folder."
            )
        return has_parts

    def _begin(self, settings: dict[str, Any], is_alone: bool) -> None:
        """Write down the settings of the run; those of one that is at work or finished something stay."""
        manifest = self.out.below(_MANIFEST)
        if is_alone and self.out.is_local:
            for claim in Path(self.out.below(_FOLDER).path).rglob(f".*{_CLAIM}"):
                claim.unlink(missing_ok=True)  # of a run that was killed
        if not is_alone or self._holds_something():
            check_same_run(self.out.shown, _read(manifest), settings)
        else:  # nothing was finished: what went wrong may have been the settings
            manifest.write(_as_json(settings))

    def looks(self, parts: Sequence[FilePart]) -> Iterator[Look]:
        """Yield for each part what an earlier run left of it; files are hashed in several threads, ahead."""
        there = {name for name, info in self.out.listed(recursive=True) if info.type == FileType.File}
        with ThreadPoolExecutor(_READERS) as readers:
            yield from readers.map(partial(self._look, there), parts)

    def _look(self, there: set[str], part: FilePart) -> Look:
        """Compare a part with its record: the input by its name and its content, the output by its content."""
        name = part.output_name
        if _record_of(part) not in there:
            return Look(anew="it has no record" if name in there else "")
        record = _read_record(self.out, part)
        if record is None:
            return Look(anew="its record cannot be read")
        digest, is_same_name = part.location.digest(), record["input"] == part.location.full_name
        is_same = digest == record["input_digest"]
        is_copy = is_same and is_of_all_bytes(digest) and record["part"] == part.name
        if not is_same_name and not is_copy:
            return Look(other_input=record["input"])
        if not is_same:
            return Look(anew=f"its input {part.location.shown} has changed")
        if name not in there:
            return Look(anew="it was no longer there")
        if self.out.below(name).digest() != record["output_digest"]:
            return Look(anew="it was changed or cut short after it was written")
        return Look(record, is_copy=not is_same_name)

    @contextmanager
    def claimed(self, part: FilePart, digest: str) -> Iterator[None]:
        """Keep a part to one input while it is written: runs at the same time look at each other's claims and records.

        A claim is an empty file whose name tells the input. Who finds another one beside his own gives up, so of two at
        most one goes on. On a store there is no order in which this could be done.
        """
        shown = self.out.below(part.output_name).shown
        if not self.out.is_local:
            yield
            return
        folder, _, name = self.out.below(f"{_FOLDER}/parts/{part.output_name}").path.rpartition("/")
        who = ["" if is_of_all_bytes(digest) else part.location.full_name, part.name, digest]
        beginning = f".{sha256(name.encode()).hexdigest()[:16]}-"
        claim = Path(folder) / f"{beginning}{sha256(json.dumps(who).encode()).hexdigest()[:16]}{_CLAIM}"
        claim.parent.mkdir(parents=True, exist_ok=True)
        try:
            claim.touch()
            if list(Path(folder).glob(f"{beginning}*{_CLAIM}")) != [claim]:
                raise ValueError(
                    f"{shown} is being written by a run that reads another input than {part.location.shown}. Name "
                    "another folder by --out."
                )
            record = _read_record(self.out, part)
            if record is not None and record["input_digest"] != digest and record["input"] != part.location.full_name:
                check_same_inputs([(shown, record["input"], part.location.full_name)])
            yield
        finally:
            claim.unlink(missing_ok=True)

    def others(self, parts: Sequence[FilePart]) -> int:
        """Return how many parts were finished here that this run does not know."""
        known = {_record_of(part) for part in parts}
        noted = self.out.below(f"{_FOLDER}/parts").listed(recursive=True)
        names = [name for name, info in noted if info.type == FileType.File and not _is_hidden(name)]
        return sum(f"{_FOLDER}/parts/{name}" not in known for name in names)

    def note(self, part: FilePart, input_digest: str, counts: dict[str, int]) -> None:
        """Write down that a part is finished, from what and to what."""
        facts = {"part": part.name, "input": part.location.full_name, "input_digest": input_digest}
        facts["output_digest"] = self.out.below(part.output_name).digest()
        self.out.below(_record_of(part)).write(_as_json({**facts, **counts}))


def _is_hidden(name: str) -> bool:
    """Tell files that are being written, locks and claims from those that stay."""
    return name.rpartition("/")[2].startswith(".")


def _record_of(part: FilePart) -> str:
    """Return the name of a record; it goes by the output, which a.csv and a.csv.gz have in common."""
    return f"{_FOLDER}/parts/{part.output_name}.json"


def _read_record(out: Location, part: FilePart) -> dict[str, Any] | None:
    record = _read(out.below(_record_of(part)))
    kinds = {**dict.fromkeys(_FACTS, str), **dict.fromkeys(COUNTS, int)}
    is_record = isinstance(record, dict) and all(type(record.get(name)) is kind for name, kind in kinds.items())
    return record if is_record and all(0 <= record[name] < 2**63 for name in COUNTS) else None


def _read(location: Location) -> Any:
    try:
        return json.loads(location.read())
    except (ValueError, RecursionError, FileNotFoundError):
        return None


def _as_json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode()


def _is_below(location: Location, folder: Location) -> bool:
    """Tell whether a location is in a folder, or is that folder."""
    if location.store != folder.store:
        return False
    paths = [str(Path(one.path).resolve()) if one.is_local else one.path for one in (location, folder)]
    return paths[0] == paths[1] or paths[0].startswith(paths[1].rstrip("/") + "/")


_SHOWN = 5  # parts that a warning names


def warn_anew(out: str, reasons: Sequence[tuple[str, str]]) -> None:
    """Say which parts are predicted again, and why: nothing that was finished is replaced in silence."""
    if reasons:
        shown = ", ".join(f"{name} ({why})" for name, why in reasons[:_SHOWN])
        more = f" and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
        many = "1 part is" if len(reasons) == 1 else f"{len(reasons):,} parts are"
        warn_caller(f"{out}: {many} predicted anew: {shown}{more}.")


OnePart = Callable[[TableFile, Path], dict[str, Any]]  # what is done with one part, and the file to write


def write_parts(
    parts: Parts, out: Location, settings: dict[str, Any], folders: Sequence[Location], one: OnePart
) -> dict[str, Any]:
    """Write the sets of each part to a folder; parts that an earlier run finished are left as they are."""
    with Manifest.open(out, settings, parts.parts, folders) as manifest, parts.bar() as bar:
        looks = _looks(parts.parts, manifest, bar)
        records = {part.name: look.record for part, look in zip(parts.parts, looks, strict=True) if look.record}
        n_before = len(records)
        for part in [part for part in parts.parts if part.name not in records]:
            records[part.name] = _write_one(parts.reader, manifest, part, one)
            bar.advance(1, part.name)
        n_others = manifest.others(parts.parts)
    rows, labels, empty = (sum(record[name] for record in records.values()) for name in COUNTS)
    done = {"rows": rows, "mean_size": labels / rows if rows else 0.0, "empty": empty, "parts": len(parts.parts)}
    done |= {"finished_before": n_before, "finished_from_copies": sum(look.is_copy for look in looks)}
    return {**done, "predicted_anew": sum(bool(look.anew) for look in looks), "other_parts": n_others}


def _looks(parts: Sequence[FilePart], manifest: Manifest, bar: Bar) -> list[Look]:
    """Return what is there of each part; refuse sets of another input, and say which are made anew."""
    looks = []
    for look in manifest.looks(parts):
        looks.append(look)
        bar.advance(look.record is not None)
    named = list(zip(parts, looks, strict=True))
    others = [(part, look.other_input) for part, look in named if look.other_input]
    check_same_inputs([(manifest.out.below(p.output_name).shown, old, p.location.full_name) for p, old in others])
    warn_anew(manifest.out.shown, [(part.output_name, look.anew) for part, look in named if look.anew])
    return looks


def _write_one(reader: Reader, manifest: Manifest, part: FilePart, one: OnePart) -> dict[str, Any]:
    location = manifest.out.below(part.output_name)
    if location.is_local:
        Path(location.path).parent.mkdir(parents=True, exist_ok=True)
    version, digest = part.location.version(), part.location.digest()
    with manifest.claimed(part, digest):
        with reader.file_of(part) as file, local_target(location) as target:
            reader.on_name(target, location.shown)
            done = one(file, target)
            if part.location.version() != version and part.location.digest() != digest:
                target.unlink(missing_ok=True)  # sets of two states of a file; on a store none were put yet
                refuse_changing_input(part.location.shown)
        counts = {"rows": done["rows"], "labels": round(done["mean_size"] * done["rows"]), "empty": done["empty"]}
        manifest.note(part, digest, counts)
    return counts
