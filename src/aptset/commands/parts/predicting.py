"""What ``aptset predict`` does with a folder to write to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aptset.commands.checks import check_columns
from aptset.commands.files import ProbabilityFile
from aptset.commands.inputs import parts_of, source_of
from aptset.commands.parts.checks import check_output_folder
from aptset.commands.parts.finding import is_one_file
from aptset.commands.parts.many import OnePart
from aptset.commands.parts.stores import is_url, place_of
from aptset.commands.probability_jobs import load_artefact, predict_file
from aptset.commands.reading import Keys, kind_of, names_of
from aptset.commands.writer import SetsWriter
from aptset.data.sets import PredictionSets
from aptset.data.setting_checks import check_alphas
from aptset.probabilities.artefacts import read
from aptset.running.path_checks import as_utf8
from aptset.running.versions import versions

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
        from aptset.commands.prediction_jobs import load_run  # loads scikit-learn, as models do

        saved = load_run(artefact, options["trust"])
        levels = [saved[0].alpha] if alphas is None else list(alphas)
        one = sets_of_rows(saved, levels, **{name: options[name] for name in names})
    else:
        levels, calibration = list(alphas or ()), load_artefact(artefact, options["trust"])
        source, of_rows = source_of(options, label, Path()), (options["normalize"], options["u"])
        one = sets_of_probabilities(source, calibration, levels, *of_rows)
    check_alphas(levels)
    settings = {"alpha": levels, "label": label, **{name: options[name] for name in _OPTIONS}}
    folders = [place for name in options["probs"] if (place := place_of(name)).is_folder]
    done = parts.write(place_of(out), settings_of_run(artefact, settings), folders, one)
    return {**done, "alpha": levels[0]}


def sets_of_probabilities(
    like: ProbabilityFile,
    calibration: Any,
    alphas: Sequence[float],
    normalize: bool,
    u: Literal["fresh"] | None = None,
) -> OnePart:
    """Return what writes the sets of a part that holds probabilities."""

    def one(path: Path, keys: Keys, target: Path) -> dict[str, Any]:
        source = replace(like, path=path, keys=keys)
        if source.count() == 0:
            names = _others_without_rows(source, [str(name) for name in calibration.classes.tolist()])
            return write_nothing(path, target, names, calibration.classes, alphas)
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
    from aptset.commands.new_rows import NewTable
    from aptset.commands.prediction_jobs import predict_table

    classifier, facts = saved

    def one(path: Path, keys: Keys, target: Path) -> dict[str, Any]:
        table = NewTable.of(path, facts, row_id, groups, keys)
        if table.rows == 0:
            return write_nothing(path, target, table.names, classifier.classes_, alphas)
        return predict_table(table, classifier, alphas, target, batch_rows, progress=False, u=u)

    return one


def write_nothing(path: Path, out: Path, names: list[str], classes: Any, alphas: Sequence[float]) -> dict[str, Any]:
    """Write a file of sets without rows, with the columns that it would have."""
    others = {name: column for name, column in _without_rows(path).items() if name in names}
    none = PredictionSets(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), classes)
    with SetsWriter(out, names, [str(name) for name in classes.tolist()], alphas) as writer:
        writer.write(others, [none] * len(alphas))
    return {"rows": 0, "mean_size": 0.0, "empty": 0}


def _others_without_rows(source: ProbabilityFile, classes: list[str]) -> list[str]:
    """Return the columns that travel along; all that are needed must be there all the same.

    A CSV without rows does not tell which columns hold numbers: those of probabilities are called as the classes are.
    """
    if kind_of(source.path) != "csv" or source.prefix is not None:
        source.classes()
        return source.other_columns()
    found, names = replace(source, prefix="").classes(), names_of(source.path)
    check_columns(source.path, set(classes) <= set(found), "a column for each class", names, classes)
    return [name for name in [*names, *dict(source.keys)] if name not in classes]


def _without_rows(path: Path) -> dict[str, pa.Array]:
    """Return the columns of a file without rows."""
    if kind_of(path) != "parquet":
        return {name: pa.array([], pa.string()) for name in names_of(path)}
    schema = pq.read_schema(as_utf8(path))
    return {field.name: pa.array([], field.type) for field in schema}


def settings_of_run(artefact: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return all that the bytes of the output depend on besides the input."""
    of_calibration = {"calibration": _digest_of(artefact), "aptset": versions().get("aptset")}
    return {"format": 1, "command": "predict", **of_calibration, **options}


def _digest_of(artefact: Path) -> str:
    """Return a digest of what a calibration says, not of when it was made: a script that makes it anew goes on, too."""
    facts, tensors = (json.loads((artefact / "aptset.json").read_bytes()), {}) if artefact.is_dir() else read(artefact)
    plain = {name: value for name, value in facts.items() if name not in ("created", "digest")}
    found = blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        found.update(np.ascontiguousarray(tensors[name]).tobytes())
    return found.hexdigest()
