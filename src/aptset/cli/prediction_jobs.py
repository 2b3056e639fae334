"""What ``aptset predict`` does: from a file, or from many parts, to files of sets, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aptset import Calibration, Confidence, PredictionSets
from aptset.arrow.formats import Dialect, TableFile
from aptset.cli.artefacts import digest_of, load_artefact
from aptset.cli.files import ProbabilityFile, check_columns, check_same_classes, shifted_rows
from aptset.cli.inputs import parts_of, source_of
from aptset.cli.manifest import OnePart, write_parts
from aptset.cli.options import assurance_of
from aptset.cli.probability_jobs import OnRows
from aptset.cli.stores import location_of
from aptset.cli.writing import CONFIDENCE, SetsWriter, types_of
from aptset.core.levels import check_alphas, check_level
from aptset.core.runner import versions


def predict_file(
    source: ProbabilityFile,
    calibration: Calibration,
    alphas: Sequence[Any],
    out: Path,
    on_rows: OnRows,
    normalize: bool = False,
    u: Literal["fresh"] | None = None,
    same_dialect: bool = False,
    is_part: bool = False,
    assurance: Any = None,
    confidence: bool = False,
) -> dict[str, Any]:
    """Write the sets of a file, batch by batch; every other column travels along.

    In parquet columns of a CSV get their types, unless the file is one of many parts, which must stay alike.
    """
    levels: list[Any] = [check_level(named_as(alpha, calibration), assurance) for alpha in alphas]
    check_weights_wanted(source, calibration)
    names = [str(name) for name in calibration.classes.tolist()]
    source = source.for_classes(names)
    order = check_same_classes(source.path, source.classes(), names)
    labels, forms = calibration.classes.tolist(), forms_of(source.file, out, same_dialect, is_part)
    more = CONFIDENCE if confidence else ()
    with SetsWriter(out, source.other_columns(), labels, alphas, *forms, more) as writer:
        if source.file.rows == 0:
            write_nothing(writer, source.other_columns(), labels, len(alphas), confidence)
        for batch in source.batches(may_be_empty=True):
            options: dict[str, Any] = {"groups": batch.groups, "ids": batch.ids, "weights": batch.weights}
            options |= {"normalize": normalize or None, "logits": source.logits, "u": u}
            with shifted_rows(source.path, batch.start):
                sets: Any = calibration.predict_set(batch.probabilities[:, order], levels, **options)
                sure = calibration.confidence(batch.probabilities[:, order], **options) if confidence else None
            writer.write(batch.others, sets, sure)
            on_rows(len(sets[0]))
    return writer.done()


def named_as(alpha: Any, calibration: Calibration) -> Any:
    """Return levels of labels or groups under the names that the calibration has for them: options are texts."""
    if not isinstance(alpha, dict):
        return alpha
    groups = calibration.held_out.groups
    names = [name for cell in groups.names for name in (cell if groups.rows is not None else (cell,))]
    by_text = {str(name): name for name in reversed(names)}
    return {by_text.get(name, name): part for name, part in alpha.items()}


def forms_of(file: TableFile, out: Path, same_dialect: bool, is_part: bool) -> tuple[dict[str, Any], Dialect | None]:
    """Return the types of columns in parquet, and the dialect of a CSV: that of the input, if it is wanted."""
    types = {} if is_part or out.suffix.lower() == ".csv" else types_of(file)
    return types, file.dialect if same_dialect else None


def write_nothing(
    writer: SetsWriter, names: Sequence[str], classes: Sequence[Any], n_levels: int, confidence: bool = False
) -> None:
    """Write the columns of a file without rows."""
    sets = PredictionSets.from_labels([], classes)
    nothing = Confidence(sets.classes[:0], np.empty(0), np.empty(0)) if confidence else None
    writer.write({name: pa.array([], pa.string()) for name in names}, [sets] * n_levels, nothing)


def check_weights_wanted(source: ProbabilityFile, calibration: Calibration) -> ProbabilityFile:
    """Return a file that has a column of weights where calibration rows had one, and none where they had none."""
    held_out = calibration.held_out
    is_wanted = held_out.has_weights and held_out.ratios is None
    if is_wanted != (source.weight is not None):
        what = "must be read with --weights COLUMN, since" if is_wanted else "must be read without --weights, since no"
        raise ValueError(f"{source.path} {what} calibration rows had weights.")
    return source


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
        from aptset.cli.artefacts import load_run  # loads scikit-learn, as models do

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
    done = write_parts(parts, location_of(out), settings_of_parts(artefact, settings), folders, one)
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
            return write_empty_part(file, target, names, calibration.classes, alphas, confidence)
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
    from aptset.cli.raw_rows import NewTable, predict_table

    classifier, facts = saved

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        table = NewTable.of(file, facts, row_id, groups)
        if file.rows == 0:
            return write_empty_part(file, target, file.names, classifier.classes_, alphas, confidence)
        more = {"assurance": assurance, "confidence": confidence, "is_part": True}
        return predict_table(table, classifier, alphas, target, batch_rows, progress=False, u=u, **more)

    return one


def write_empty_part(
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


def settings_of_parts(artefact: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that the bytes of the output depend on besides the input."""
    of_calibration = {"calibration": digest_of(artefact), "aptset": versions().get("aptset")}
    return {"format": 2, "command": "predict", **of_calibration, **options}
