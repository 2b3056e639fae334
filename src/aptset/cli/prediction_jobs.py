"""What ``aptset predict`` does: from a file, or from many parts, to files of sets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aptset import Calibration, Confidence, PredictionSets
from aptset.arrow.formats import TableFile
from aptset.cli.artefacts import digest_of, load_artefact
from aptset.cli.files import OnRows, ProbabilityFile, shifted_rows
from aptset.cli.inputs import parts_of, source_of
from aptset.cli.writing import CONFIDENCE, SetsWriter, types_of
from aptset.core.levels import Level, check_alphas, check_level
from aptset.core.runner import counting, versions

# Some rows: the columns that travel along, the sets at each level, and the confidence of the guesses if it is wanted.
Piece = tuple[dict[str, Any], Sequence[PredictionSets], Confidence | None]


class MatrixSets:
    """Sets of files of probabilities, by a calibration."""

    def __init__(
        self, artefact: Path, alphas: Sequence[Any], label: str | None, options: Mapping[str, Any], assurance: Any
    ) -> None:
        self._calibration = load_artefact(artefact, options["trust"])
        self._label, self._options, self.alphas = label, options, list(alphas)
        self._levels: list[Any] = levels_of(self.alphas, self._calibration, assurance)
        self.classes, self.confidence = self._calibration.classes.tolist(), bool(options["confidence"])

    def source(self, file: TableFile) -> ProbabilityFile:
        """Return a file with a column of probabilities for each class, and with weights where they are needed."""
        source = source_of(self._options, self._label, file)
        return check_weights_wanted(replace(source, known=[str(name) for name in self.classes]), self._calibration)

    def pieces(self, source: ProbabilityFile) -> Iterator[Piece]:
        """Yield the rows of a file with their sets."""
        asked = {"normalize": self._options["normalize"] or None, "logits": source.logits, "u": self._options["u"]}
        for batch in source.batches(may_be_empty=True):
            of_rows: dict[str, Any] = {"groups": batch.groups, "ids": batch.ids, "weights": batch.weights, **asked}
            of_rows["first_row"] = batch.start if batch.ids is None else 0  # copies are numbered through all rows
            with shifted_rows(source.path, batch.start):
                sets: Any = self._calibration.predict_set(batch.probabilities, self._levels, **of_rows)
                sure = self._calibration.confidence(batch.probabilities, **of_rows) if self.confidence else None
            yield batch.others, sets, sure


def levels_of(alphas: Sequence[Any], calibration: Calibration, assurance: Any) -> list[Level]:
    """Return levels as they are asked for; those of labels or groups, texts in the options, by their own names."""
    groups = calibration.held_out.groups
    levels = []
    for alpha in alphas:
        if isinstance(alpha, dict):
            names = [name for cell in groups.names for name in (cell if groups.rows is not None else (cell,))]
            by_text = {str(name): name for name in reversed(names)}
            alpha = {by_text.get(name, name): part for name, part in alpha.items()}
        levels.append(check_level(alpha, assurance))
    return levels


def check_weights_wanted(source: ProbabilityFile, calibration: Calibration) -> ProbabilityFile:
    """Return a file that has a column of weights where calibration rows had one, and none where they had none."""
    held_out = calibration.held_out
    is_wanted = held_out.has_weights and held_out.ratios is None
    if is_wanted != (source.weight is not None):
        what = "must be read with --weights COLUMN, since" if is_wanted else "must be read without --weights, since no"
        raise ValueError(f"{source.path} {what} calibration rows had weights.")
    return source


def maker_of(
    artefact: Path, alphas: Sequence[Any] | None, label: str | None, options: Mapping[str, Any], assurance: Any
) -> Any:
    """Return what makes sets of files: the classifier of a run of raw rows, a calibration of probabilities."""
    if not artefact.is_dir():
        return MatrixSets(artefact, alphas or (), label, options, assurance)
    from aptset.cli.raw_rows import RowSets  # loads scikit-learn, as models do

    return RowSets(artefact, alphas, options, assurance)


def write_sets(
    maker: Any, file: TableFile, out: Path, on_rows: OnRows, same_dialect: bool = False, is_part: bool = False
) -> dict[str, Any]:
    """Write the sets of a file, piece by piece; every other column travels along.

    In parquet columns of a CSV get their types, unless the file is one of many parts, which must stay alike.
    """
    source = maker.source(file)
    types = {} if is_part or out.suffix.lower() == ".csv" else types_of(file)
    form = (types, file.dialect if same_dialect else None, CONFIDENCE if maker.confidence else ())
    with SetsWriter.to(out, source.other_columns, maker.classes, maker.alphas, *form) as writer:
        for others, sets, sure in maker.pieces(source) if file.rows != 0 else [_nothing(maker, source)]:
            writer.write(others, sets, sure)
            on_rows(len(sets[0]))
    return writer.done()


def _nothing(maker: Any, source: Any) -> Piece:
    """Return the columns of a file without rows, in their types where it has types."""
    file, sets = source.file, PredictionSets.from_labels([], maker.classes)
    kinds = {} if file.is_text else dict(zip(file.names, file.schema.types, strict=True))
    names = [name for name in source.other_columns if name in file.names]
    others = {name: pa.array([], kinds.get(name, pa.string())) for name in names}
    sure = Confidence(sets.classes[:0], np.empty(0), np.empty(0)) if maker.confidence else None
    return others, [sets] * len(maker.alphas), sure


def predict_file(
    file: TableFile,
    artefact: Path,
    alphas: Sequence[Any] | None,
    label: str | None,
    out: Path,
    progress: bool,
    assurance: Any,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the sets of one file."""
    maker = maker_of(artefact, alphas, label, options, assurance)
    with counting(file.rows, "rows", progress) as on_rows:
        return write_sets(maker, file, out, on_rows, options["same_dialect"])


_OPTIONS = ("prefix", "logits", "normalize", "row_id", "groups", "weights", "batch_rows", "sep", "encoding", "u")


def predict_parts(
    artefact: Path,
    alphas: Sequence[Any] | None,
    label: str | None,
    out: str,
    quiet: bool,
    assurance: Any,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the sets of every part to a folder, and go on where an earlier run was stopped."""
    from aptset.cli.manifest import write_parts
    from aptset.cli.stores import location_of

    parts = parts_of(options["probs"], quiet, options["sep"], options["encoding"])
    maker = maker_of(artefact, alphas, label, options, assurance)
    check_alphas(maker.alphas, assurance)
    asked = {"assurance": assurance, "confidence": maker.confidence}
    settings = {  # all that the bytes of the output depend on besides the input
        "format": 2,
        "command": "predict",
        "calibration": digest_of(artefact),
        "aptset": versions().get("aptset"),
        "alpha": maker.alphas,
        "label": label,
        **{name: options[name] for name in _OPTIONS},
        **{name: str(value) for name, value in asked.items() if value},
    }
    if label is not None and label.endswith(".npy") and Path(label).is_file():  # labels that stand beside matrices
        settings["label"] = [label, location_of(label).digest()]
    folders = [location for name in options["probs"] if (location := location_of(name)).is_folder]

    def one(file: TableFile, target: Path) -> dict[str, Any]:
        return write_sets(maker, file, target, lambda rows: None, is_part=True)

    return {**write_parts(parts, location_of(out), settings, folders, one), "alpha": maker.alphas[0]}
