"""What ``aptset predict`` does with a folder to write to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aptset.arrow.formats import TableFile
from aptset.cli.checks import check_columns
from aptset.cli.files import ProbabilityFile
from aptset.cli.inputs import parts_of, source_of
from aptset.cli.parts.checks import check_output_folder
from aptset.cli.parts.discovery import is_one_file
from aptset.cli.parts.many import OnePart
from aptset.cli.parts.stores import is_url, place_of
from aptset.cli.probability_jobs import digest_of, load_artefact, predict_file
from aptset.cli.writer import SetsWriter
from aptset.core.runner import versions
from aptset.core.validate import check_alphas
from aptset.sets import PredictionSets

_FILES = (".csv", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npz", ".npy", ".gz", ".bz2", ".zst")
_OPTIONS = ("prefix", "logits", "normalize", "row_id", "groups", "weights", "batch_rows", "sep", "encoding", "u")


def goes_to_folder(names: Sequence[str], out: str) -> bool:
    """Tell whether output is a folder of parts; several parts can go nowhere else."""
    is_one, is_file_name = is_one_file(names), PurePosixPath(out).suffix.lower() in _FILES
    is_folder = out.endswith("/") or (Path(out).is_dir() if not is_url(out) else not is_file_name)
    if not is_one:
        is_folder = is_folder or (out != "-" and not is_file_name)
        check_output_folder(out, is_folder)
    return is_folder and list(names) != ["-"]


def predict_parts(
    artefact: Path,
    out: str,
    alphas: Sequence[float] | None,
    label: str | None,
    quiet: bool,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Write the sets of every part to a folder, and go on where an earlier run was stopped."""
    parts = parts_of(options["probs"], quiet, options["sep"], options["encoding"])
    names = ("row_id", "groups", "batch_rows", "u")
    if artefact.is_dir():
        from aptset.cli.prediction_jobs import load_run  # loads scikit-learn, as models do

        saved = load_run(artefact, options["trust"])
        levels = [saved[0].alpha] if alphas is None else list(alphas)
        one = sets_of_rows(saved, levels, **{name: options[name] for name in names})
    else:
        levels, calibration = list(alphas or ()), load_artefact(artefact, options["trust"])
        source, of_rows = partial(source_of, options, label), (options["normalize"], options["u"])
        one = sets_of_probabilities(source, calibration, levels, *of_rows)
    check_alphas(levels)
    settings = {"alpha": levels, "label": _label_setting(label), **{name: options[name] for name in _OPTIONS}}
    folders = [place for name in options["probs"] if (place := place_of(name)).is_folder]
    done = parts.write(place_of(out), settings_of_run(artefact, settings), folders, one)
    return {**done, "alpha": levels[0]}


def sets_of_probabilities(
    source_of: Callable[[TableFile], ProbabilityFile],
    calibration: Any,
    alphas: Sequence[float],
    normalize: bool,
    u: Literal["fresh"] | None = None,
) -> OnePart:
    """Return what writes the sets of a part that holds probabilities."""

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        source = source_of(file)
        if file.rows == 0:
            names = _others_without_rows(source, [str(name) for name in calibration.classes.tolist()])
            return write_nothing(file, target, names, calibration.classes, alphas)
        return predict_file(source, calibration, alphas, target, lambda rows: None, normalize, u)

    return one


def sets_of_rows(
    saved: tuple[Any, dict[str, Any]],
    alphas: Sequence[float],
    row_id: str | None,
    groups: str | None,
    batch_rows: int,
    u: Literal["fresh"] | None = None,
) -> OnePart:
    """Return what writes the sets of a part that holds raw rows."""
    from aptset.cli.prediction_jobs import NewTable, predict_table

    classifier, facts = saved

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        table = NewTable.of(file, facts, row_id, groups)
        if file.rows == 0:
            return write_nothing(file, target, file.names, classifier.classes_, alphas)
        return predict_table(table, classifier, alphas, target, batch_rows, progress=False, u=u)

    return one


def write_nothing(
    file: TableFile, out: Path, names: list[str], classes: Any, alphas: Sequence[float]
) -> dict[str, Any]:
    """Write a file of sets without rows, with the columns that it would have."""
    kinds = {field.name: field.type for field in file.schema} if file.kind == "parquet" else {}
    others = {name: pa.array([], kinds.get(name, pa.string())) for name in file.names if name in names}
    none = PredictionSets(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), classes)
    with SetsWriter(out, names, [str(name) for name in classes.tolist()], alphas) as writer:
        writer.write(others, [none] * len(alphas))
    return {"rows": 0, "mean_size": 0.0, "empty": 0}


def _others_without_rows(source: ProbabilityFile, classes: list[str]) -> list[str]:
    """Return the columns that travel along; all that are needed must be there all the same.

    A CSV without rows does not tell which columns hold numbers: those of probabilities are called as the classes are.
    """
    if not source.file.is_text or source.prefix is not None:
        source.classes()
        return source.other_columns()
    found, names = replace(source, prefix="").classes(), source.file.names
    check_columns(source.path, set(classes) <= set(found), "a column for each class", names, classes)
    return [name for name in [*names, *dict(source.file.keys)] if name not in classes]


def _label_setting(label: str | None) -> Any:
    """Return the name of labels; with a digest of their file, if they stand in one of their own beside matrices."""
    is_file = label is not None and label.endswith(".npy") and Path(label).is_file()
    return [label, place_of(str(label)).digest()] if is_file else label


def settings_of_run(artefact: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that the bytes of the output depend on besides the input."""
    of_calibration = {"calibration": digest_of(artefact), "aptset": versions().get("aptset")}
    return {"format": 2, "command": "predict", **of_calibration, **options}
