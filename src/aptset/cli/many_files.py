"""Many parts, opened one by one: read as if they were one file, or each written to a file of its own."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from aptset import Confidence, PredictionSets
from aptset.arrow.formats import BATCH_ROWS, TableFile, check_rows_present, format_of
from aptset.cli.checks import check_columns, check_distinct_columns
from aptset.cli.discovery import FilePart, Reader, local_target, scratch_folder
from aptset.cli.files import CONFIDENCE, ProbabilityFile, SetsWriter
from aptset.cli.inputs import parts_of, source_of
from aptset.cli.manifest import COUNTS, Look, Manifest, check_same_inputs
from aptset.cli.options import assurance_of
from aptset.cli.probability_jobs import digest_of, load_artefact, predict_file
from aptset.cli.stores import Location, location_of, refuse_changing_input
from aptset.core.files import as_utf8
from aptset.core.levels import check_alphas
from aptset.core.runner import Bar, versions
from aptset.core.validate import warn_caller

OnePart = Callable[[TableFile, Path], dict[str, Any]]  # what is done with one part, and the file to write


_SHOWN = 5  # parts that a warning names


def warn_anew(out: str, reasons: Sequence[tuple[str, str]]) -> None:
    """Say which parts are predicted again, and why: nothing that was finished is replaced in silence."""
    if reasons:
        shown = ", ".join(f"{name} ({why})" for name, why in reasons[:_SHOWN])
        more = f" and {len(reasons) - _SHOWN:,} more" if len(reasons) > _SHOWN else ""
        many = "1 part is" if len(reasons) == 1 else f"{len(reasons):,} parts are"
        warn_caller(f"{out}: {many} predicted anew: {shown}{more}.")


@dataclass(frozen=True)
class Parts:
    """Many files, each of which is opened when its turn has come."""

    parts: Sequence[FilePart]
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

    def write(
        self, out: Location, settings: dict[str, Any], folders: Sequence[Location], one: OnePart
    ) -> dict[str, Any]:
        """Write the sets of each part to a folder; parts that an earlier run finished are left as they are."""
        with Manifest.open(out, settings, self.parts, folders) as manifest:
            return self._write_all(manifest, one)

    def _write_all(self, manifest: Manifest, one: OnePart) -> dict[str, Any]:
        bar = Bar(len(self.parts), "parts", self.progress)
        try:
            looks = self._looks(manifest, bar)
            records = {part.name: look.record for part, look in zip(self.parts, looks, strict=True) if look.record}
            n_before = len(records)
            for part in [part for part in self.parts if part.name not in records]:
                records[part.name] = self._write_one(manifest, part, one)
                bar.advance(1, part.name)
        finally:
            bar.close()
        rows, labels, empty = (sum(record[name] for record in records.values()) for name in COUNTS)
        done = {"rows": rows, "mean_size": labels / rows if rows else 0.0, "empty": empty, "parts": len(self.parts)}
        done |= {"finished_before": n_before, "finished_from_copies": sum(look.is_copy for look in looks)}
        done["predicted_anew"] = sum(bool(look.anew) for look in looks)
        return {**done, "other_parts": manifest.others(self.parts)}

    def _looks(self, manifest: Manifest, bar: Bar) -> list[Look]:
        """Return what is there of each part; refuse sets of another input, and say which are made anew."""
        looks = []
        for look in manifest.looks(self.parts):
            looks.append(look)
            bar.advance(look.record is not None)
        named = list(zip(self.parts, looks, strict=True))
        others = [(part, look.other_input) for part, look in named if look.other_input]
        check_same_inputs([(manifest.out.below(p.output_name).shown, old, p.location.full_name) for p, old in others])
        warn_anew(manifest.out.shown, [(part.output_name, look.anew) for part, look in named if look.anew])
        return looks

    def _write_one(self, manifest: Manifest, part: FilePart, one: OnePart) -> dict[str, Any]:
        location = manifest.out.below(part.output_name)
        if location.is_local:
            Path(location.path).parent.mkdir(parents=True, exist_ok=True)
        version, digest = part.location.version(), part.location.digest()
        with manifest.claimed(part, digest):
            with self.reader.file_of(part) as file, local_target(location) as target:
                self.reader.on_name(target, location.shown)
                done = one(file, target)
                if part.location.version() != version and part.location.digest() != digest:
                    target.unlink(missing_ok=True)  # sets of two states of a file; on a store none were put yet
                    refuse_changing_input(part.location.shown)
            counts = {"rows": done["rows"], "labels": round(done["mean_size"] * done["rows"]), "empty": done["empty"]}
            manifest.note(part, digest, counts)
        return counts


def join(parts: Parts, called: str) -> Path:
    """Return one file with the rows of all parts, one after the other; it goes when the process ends."""
    is_csv = [format_of(Path(part.name)).is_text for part in parts.parts]
    if any(is_csv) and not all(is_csv):  # some parts have types, and others have none
        raise ValueError(
            f"{called} must hold files of one kind, to be read as one table; some are CSV, others are not."
        )
    stack = ExitStack()
    atexit.register(stack.close)
    stem = "".join(letter for letter in called.rstrip("/").rpartition("/")[2] if letter not in "*?[]") or "table"
    target = stack.enter_context(scratch_folder()) / (stem + (".csv" if all(is_csv) else ".parquet"))
    tables = _tables(parts)
    first: Any = next(tables, None)
    check_rows_present(Path(called), 0 if first is None else first.num_rows)
    if not all(is_csv):
        try:
            pq.write_table(pa.concat_tables([first, *tables], promote_options="permissive"), as_utf8(target))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise ValueError(f"{called} must hold columns of the same types in all files; {error}") from error
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
        for piece in file.pieces(BATCH_ROWS):
            for name, column in file.key_columns(piece.num_rows).items():
                piece = piece.append_column(name, column)
            yield piece.select(wanted)


_OPTIONS = ("prefix", "logits", "normalize", "row_id", "groups", "weights", "batch_rows", "sep", "encoding", "u")


def predict_parts(
    artefact: Path,
    out: str,
    alphas: Sequence[Any] | None,
    label: str | None,
    quiet: bool,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Write the sets of every part to a folder, and go on where an earlier run was stopped."""
    parts = parts_of(options["probs"], quiet, options["sep"], options["encoding"])
    sure, confidence = assurance_of(options), options["confidence"]
    names = ("row_id", "groups", "batch_rows", "u", "confidence")
    if artefact.is_dir():
        from aptset.cli.prediction_jobs import load_run  # loads scikit-learn, as models do

        saved = load_run(artefact, options["trust"])
        levels = [saved[0].alpha] if alphas is None else list(alphas)
        one = sets_of_rows(saved, levels, **{name: options[name] for name in names}, assurance=sure)
    else:
        levels, calibration = list(alphas or ()), load_artefact(artefact, options["trust"])
        source, of_rows = partial(source_of, options, label), (options["normalize"], options["u"], sure, confidence)
        one = sets_of_probabilities(source, calibration, levels, *of_rows)
    check_alphas(levels, sure)
    settings = {"alpha": levels, "label": _label_setting(label), **{name: options[name] for name in _OPTIONS}}
    settings |= {name: str(value) for name, value in {"assurance": sure, "confidence": confidence}.items() if value}
    folders = [location for name in options["probs"] if (location := location_of(name)).is_folder]
    done = parts.write(location_of(out), settings_of_run(artefact, settings), folders, one)
    return {**done, "alpha": levels[0]}


def sets_of_probabilities(
    source_of: Callable[[TableFile], ProbabilityFile],
    calibration: Any,
    alphas: Sequence[Any],
    normalize: bool,
    u: Literal["fresh"] | None = None,
    assurance: Any = None,
    confidence: bool = False,
) -> OnePart:
    """Return what writes the sets of a part that holds probabilities."""

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        source = source_of(file)
        if file.rows == 0:
            names = _others_without_rows(source, [str(name) for name in calibration.classes.tolist()])
            return write_nothing(file, target, names, calibration.classes, alphas, confidence)
        more = {"assurance": assurance, "confidence": confidence, "is_part": True}
        return predict_file(source, calibration, alphas, target, lambda rows: None, normalize, u, **more)

    return one


def sets_of_rows(
    saved: tuple[Any, dict[str, Any]],
    alphas: Sequence[Any],
    row_id: str | None,
    groups: str | None,
    batch_rows: int,
    u: Literal["fresh"] | None = None,
    confidence: bool = False,
    assurance: Any = None,
) -> OnePart:
    """Return what writes the sets of a part that holds raw rows."""
    from aptset.cli.prediction_jobs import NewTable, predict_table

    classifier, facts = saved

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        table = NewTable.of(file, facts, row_id, groups)
        if file.rows == 0:
            return write_nothing(file, target, file.names, classifier.classes_, alphas, confidence)
        more = {"assurance": assurance, "confidence": confidence, "is_part": True}
        return predict_table(table, classifier, alphas, target, batch_rows, progress=False, u=u, **more)

    return one


def write_nothing(
    file: TableFile, out: Path, names: list[str], classes: Any, alphas: Sequence[Any], confidence: bool = False
) -> dict[str, Any]:
    """Write a file of sets without rows, with the columns that it would have."""
    kinds = {field.name: field.type for field in file.schema} if file.kind == "parquet" else {}
    others = {name: pa.array([], kinds.get(name, pa.string())) for name in file.names if name in names}
    none = PredictionSets(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), classes)
    nothing = Confidence(classes[:0], np.empty(0), np.empty(0)) if confidence else None
    texts, more = [str(name) for name in classes.tolist()], CONFIDENCE if confidence else ()
    with SetsWriter(out, names, texts, alphas, more=more) as writer:
        writer.write(others, [none] * len(alphas), nothing)
    return writer.done()


def _others_without_rows(source: ProbabilityFile, classes: list[str]) -> list[str]:
    """Return the columns that travel along; all that are needed must be there all the same.

    A CSV without rows does not tell which columns hold numbers: those of probabilities are called as the classes are.
    """
    if not source.file.is_text or source.prefix is not None:
        source.classes()
        return source.other_columns()
    columns, names = replace(source, prefix="").classes(), source.file.names
    check_columns(source.path, set(classes) <= set(columns), "a column for each class", names, classes)
    return [name for name in [*names, *dict(source.file.keys)] if name not in classes]


def _label_setting(label: str | None) -> Any:
    """Return the name of labels; with a digest of their file, if they stand in one of their own beside matrices."""
    is_file = label is not None and label.endswith(".npy") and Path(label).is_file()
    return [label, location_of(str(label)).digest()] if is_file else label


def settings_of_run(artefact: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that the bytes of the output depend on besides the input."""
    of_calibration = {"calibration": digest_of(artefact), "aptset": versions().get("aptset")}
    return {"format": 2, "command": "predict", **of_calibration, **options}
