"""What the commands do with files of probabilities: calibrations, sets and decisions, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset import Acceptance, Calibration, Confidence, PredictionSets, calibrate, learn_acceptance
from aptset.arrow.formats import TableFile
from aptset.calibration.calibrate import CalibrationPieces
from aptset.cli.artefacts import digest_of, imported_score, load_artefact
from aptset.cli.files import Batch, OnRows, ProbabilityFile, check_some_labelled, in_file
from aptset.cli.inputs import TableOptions, parts_of, source_of
from aptset.cli.writing import CONFIDENCE, SetsWriter, types_of, write_decisions
from aptset.core.files import atomic_path
from aptset.core.labels import Coded
from aptset.core.levels import Level, check_alphas, check_level


def calibrate_files(
    sources: Iterable[ProbabilityFile],
    on_rows: OnRows,
    by_labels: Any = None,
    skipped: list[int] | None = None,
    **settings: Any,
) -> Calibration:
    """Calibrate on the rows of several files as if they stood in one; classes are in the order of the first.

    ``by_labels`` is "label" or bands of labels, where labels decide the groups; with a column of groups both do. Rows
    without a label are left out, and counted, where there is a list ``skipped``.
    """
    settings["conformity"] = imported_score(settings["conformity"])
    if settings["conformity"] == "auto":
        return _calibrate_whole(labelled_batches(sources, None, skipped), on_rows, by_labels, **settings)
    pieces = CalibrationPieces(**settings)
    for source, batch, classes in labelled_batches(sources, None, skipped):
        of_rows = {"groups": grouped(batch.groups, by_labels), "ids": batch.ids, "weights": batch.weights}
        of_rows |= {"clusters": named(batch.clusters, source.cluster), "classes": classes, "logits": source.logits}
        try:
            pieces.add(batch.probabilities, batch.labels, **of_rows)
        except (ValueError, TypeError) as error:
            raise in_file(error, source.path, batch.start, batch.numbers) from error
        on_rows(len(batch.probabilities))
    return pieces.calibration()


def grouped(of_rows: Any, by_labels: Any) -> Any:
    """Return groups of rows, of labels, or of both at once."""
    if of_rows is None or not by_labels:
        return by_labels or of_rows
    return of_rows, by_labels


def labelled_batches(
    sources: Iterable[ProbabilityFile],
    wanted: list[str] | None = None,
    skipped: list[int] | None = None,
    may_be_unknown: bool = False,
) -> Iterator[tuple[ProbabilityFile, Batch, list[str]]]:
    """Yield the rows of all files with columns in the order of ``wanted``, or of the first file; labels are checked.

    With ``skipped`` rows without a label are left out, and their numbers in each batch are put there. Labels that
    ``may_be_unknown`` need not be classes.
    """
    path, n_labelled = None, 0
    for each in sources:
        source = each if wanted is None else replace(each, known=wanted)
        path, wanted = source.path, source.classes
        for batch in source.batches():
            may_be = [*wanted, *([] if skipped is None else [None])]
            if may_be_unknown and batch.labels is not None:
                may_be += [label for label in batch.labels.values if label is not None]
            check_labels_present(source.path, batch.labels, batch.start, may_be, str(source.label))
            if skipped is not None:
                n_rows, batch = len(batch.probabilities), batch.labelled()
                skipped.append(n_rows - len(batch.probabilities))
            n_labelled += len(batch.probabilities)
            if len(batch.probabilities):
                yield source, batch, wanted
    if path is not None:
        check_some_labelled(path, n_labelled, n_labelled + sum(skipped or [0]))


def _calibrate_whole(
    batches: Iterable[tuple[ProbabilityFile, Batch, list[str]]], on_rows: OnRows, by_labels: Any, **settings: Any
) -> Calibration:
    """Calibrate on all rows at once: a score is chosen on rows of the whole file, so they must all be there."""
    rows, of_rows, classes, logits = all_rows(batches, on_rows)
    labels, groups = of_rows.pop("labels"), grouped(of_rows.pop("groups"), by_labels)
    of_rows |= {"groups": groups, "classes": classes, "logits": logits}
    return calibrate(np.concatenate(rows), labels, **{**settings, **of_rows})


def all_rows(
    batches: Iterable[tuple[ProbabilityFile, Batch, list[str]]], on_rows: OnRows
) -> tuple[list[NDArray[Any]], dict[str, Any], list[str], bool]:
    """Return the rows of all files in memory: matrices; labels, groups, ids and weights; the classes; if logits."""
    matrices: list[NDArray[Any]] = []
    known: dict[str, list[Any]] = {"labels": [], "groups": [], "ids": [], "weights": [], "clusters": []}
    cluster = None
    classes: list[str] = []
    logits = False
    for source, batch, classes in batches:  # noqa: B007 - the last says it for all
        matrices.append(batch.probabilities)
        known["labels"] += batch.labels.in_full() if batch.labels else []
        known["groups"] += batch.groups or []
        known["ids"] += batch.ids or []
        known["weights"] += [] if batch.weights is None else [batch.weights]
        known["clusters"] += batch.clusters or []
        logits, cluster = source.logits, source.cluster
        on_rows(len(batch.probabilities))
    of_rows: dict[str, Any] = {name: values or None for name, values in known.items()}
    of_rows["weights"] = np.concatenate(known["weights"]) if known["weights"] else None
    of_rows["clusters"] = named(of_rows["clusters"], cluster)
    return matrices, of_rows, classes, logits


def named(clusters: Any, column: str | None) -> Any:
    """Return clusters that know what they are called; None where there are none."""
    if clusters is None:
        return None
    import pandas as pd

    return pd.Series(clusters, name=column, dtype=object)


def check_labels_present(path: Path, labels: Coded | None, start: int, classes: Sequence[Any], column: str) -> None:
    """Refuse missing labels and labels that no column of probabilities stands for; None among them may be missing."""
    known = set(classes)
    if labels is None or known.issuperset(labels.values):
        return
    for number, label in enumerate(labels.in_full()):
        if label not in known:
            if label is None:
                raise ValueError(
                    f"{path}, row {start + number}, column {column!r}: the label is missing. Pass --skip-unlabelled to "
                    "leave such rows out."
                )
            named = [str(one) for one in classes if one is not None]
            raise ValueError(
                f"{path}, row {start + number}, column {column!r}: the label is {label!r}, which no column of "
                f"probabilities stands for. The classes are {', '.join(named[:8])}{', ...' if len(named) > 8 else ''}."
            )


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
            try:
                sets: Any = self._calibration.predict_set(batch.probabilities, self._levels, **of_rows)
                sure = self._calibration.confidence(batch.probabilities, **of_rows) if self.confidence else None
            except (ValueError, TypeError) as error:
                raise in_file(error, source.file.path, batch.start) from error
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
    artefact: Path, alphas: Sequence[Any] | None, label: str | None, assurance: Any, options: Mapping[str, Any]
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
    writer = SetsWriter(out, source.other_columns, maker.classes, maker.alphas, *form)
    with atomic_path(out) as writer.target, closing(writer):
        for piece in maker.pieces(source) if file.rows != 0 else [_nothing(maker, source)]:
            on_rows(writer.write(*piece))
    return writer.done()


def _nothing(maker: Any, source: Any) -> Piece:
    """Return the columns of a file without rows, in their types where it has types."""
    file, sets = source.file, PredictionSets.from_labels([], maker.classes)
    kinds = {} if file.is_text else dict(zip(file.names, file.schema.types, strict=True))
    names = [name for name in source.other_columns if name in file.names]
    others = {name: pa.array([], kinds.get(name, pa.string())) for name in names}
    sure = Confidence(sets.classes[:0], np.empty(0), np.empty(0)) if maker.confidence else None
    return others, [sets] * len(maker.alphas), sure


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
    from aptset.core.runner import versions  # with what runs many jobs, which one file does not need

    parts = parts_of(options["probs"], TableOptions(options["sep"], options["encoding"], quiet))
    maker = maker_of(artefact, alphas, label, assurance, options)
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


def learn_files(
    sources: Iterable[ProbabilityFile], on_rows: OnRows, skipped: list[int] | None = None, **settings: Any
) -> Acceptance:
    """Learn on the rows of several files as if they stood in one; with ``skipped`` rows need no label."""
    rows, of_rows, classes, logits = all_rows(labelled_batches(sources, None, skipped), on_rows)
    labels = of_rows.pop("labels")
    of_rows.pop("weights")
    try:
        return learn_acceptance(np.concatenate(rows), labels, classes=classes, logits=logits, **of_rows, **settings)
    except (ValueError, TypeError) as error:
        raise in_file(error, Path("the files")) from error


def accept_files(
    sources: Iterable[ProbabilityFile],
    rule: Acceptance,
    error: Any,
    assurance: float | None,
    out: Path,
    on_rows: OnRows,
    normalize: bool = False,
) -> dict[str, Any]:
    """Write which rows to act on, and the guess of each; all rows together are the batch."""
    rule = replace(rule, reading=replace(rule.reading, normalize=normalize or rule.reading.normalize))
    names = [str(name) for name in (() if rule.reading.classes is None else rule.reading.classes.tolist())]
    matrices, tables, groups, ids, logits = [], [], list[Any](), list[Any](), False
    for each in sources:
        source = replace(each, known=names)
        if source.file.rows == 0:
            tables.append(pa.table({name: pa.array([], pa.null()) for name in source.other_columns}))
        for batch in source.batches(may_be_empty=True):
            matrices.append(batch.probabilities)
            tables.append(pa.table(batch.others))
            groups += batch.groups or []
            ids += batch.ids or []
            logits = source.logits
            on_rows(len(batch.probabilities))
    matrix = np.concatenate(matrices) if matrices else np.empty((0, len(names)))
    try:
        act, promise = _decided(rule, matrix, error, assurance, groups or None, ids or None, logits)
    except (ValueError, TypeError) as failure:
        raise in_file(failure, Path("the files")) from failure
    guess = [names[column] for column in matrix.argmax(axis=1).tolist()]
    others = pa.concat_tables(tables, promote_options="default")
    columns = dict(zip(others.column_names, others.columns, strict=True))
    write_decisions(out, columns, {"act": pa.array(act), "guess": pa.array(guess)}, names)
    return {"rows": len(act), "acted": int(act.sum()), "error": error, "assurance": assurance, "promise": promise}


def _decided(
    rule: Acceptance, matrix: NDArray[Any], error: Any, assurance: float | None, groups: Any, ids: Any, logits: bool
) -> tuple[NDArray[np.bool_], str]:
    """Return on which rows to act, and what is promised of them."""
    error = errors_by_name(error, rule.reading.groups.names)
    if not len(matrix):
        return np.empty(0, dtype=np.bool_), "There is no row."
    if assurance is not None:
        threshold = rule.threshold(error, assurance)
        return threshold.accept(matrix, groups=groups, ids=ids, logits=logits), threshold.sentence()
    if len(matrix) == 1:
        raise ValueError(
            "--assurance must be given for a file of one row, since rows are decided in batches without it. Pass "
            "--assurance 0.9, for instance."
        )
    promise = f"On average over batches at most {_shares(error)} of the rows acted on are wrong."
    return rule.accept(matrix, error, groups=groups, logits=logits), promise


def errors_by_name(error: Any, names: Iterable[Any]) -> Any:
    """Return the errors of labels or groups under the names that the rule has for them: options are texts."""
    by_text = {str(name): name for name in names}
    return {by_text.get(name, name): part for name, part in error.items()} if isinstance(error, dict) else error


def _shares(error: Any) -> str:
    if not isinstance(error, dict):
        return f"{error:g}"
    return ", ".join(f"{value:g} ({label})" for label, value in error.items())


def in_words(done: dict[str, Any], out: str) -> str:
    """Return what was decided."""
    share = done["acted"] / max(1, done["rows"])
    return f"{done['acted']:,} of {done['rows']:,} rows ({share:.0%}) are acted on: {out}\n{done['promise']}"
