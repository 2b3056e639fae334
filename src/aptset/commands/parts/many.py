"""Many parts, opened one by one: read as if they were one file, or each written to a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aptset.commands.checks import check_rows_present
from aptset.commands.files import ProbabilityFile
from aptset.commands.parts.checks import check_same_inputs, refuse_changing_input, warn_anew
from aptset.commands.parts.finding import Part
from aptset.commands.parts.ledger import COUNTS, Ledger, Look
from aptset.commands.parts.opening import Reader, local_target
from aptset.commands.parts.stores import Place
from aptset.commands.reading import Keys
from aptset.running.progress import Bar

# What is done with one part: a file of this machine, what its folders say of its rows, and the file to write.
OnePart = Callable[[Path, Keys, Path], dict[str, Any]]


@dataclass(frozen=True)
class Parts:
    """Many files, each of which is opened when its turn has come."""

    parts: Sequence[Part]
    reader: Reader
    progress: bool

    def opened(self) -> Iterator[tuple[Path, Keys]]:
        """Yield a plain file of this machine for each part, and what its folders say about its rows."""
        bar = Bar(len(self.parts), "parts", self.progress)
        try:
            for part in self.parts:
                with self.reader.opened(part) as path:
                    yield path, part.keys
                bar.advance(1, part.name)
        finally:
            bar.close()

    def sources(self, like: ProbabilityFile) -> Iterator[ProbabilityFile]:
        """Yield the parts as files of probabilities; those without rows have nothing to say, unless all are such."""
        path, n_some = Path(), 0
        for path, keys in self.opened():
            source = replace(like, path=path, keys=keys)
            if source.count() != 0:
                n_some += 1
                yield source
        check_rows_present(path, n_some)

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
            with self.reader.opened(part) as path, local_target(place) as target:
                self.reader.on_name(target, place.shown)
                done = one(path, part.keys, target)
                if part.place.version() != version and part.place.digest() != digest:
                    target.unlink(missing_ok=True)  # sets of two states of a file; on a store none were put yet
                    refuse_changing_input(part.place.shown)
            counts = {"rows": done["rows"], "labels": round(done["mean_size"] * done["rows"]), "empty": done["empty"]}
            ledger.note(part, digest, counts)
        return counts
