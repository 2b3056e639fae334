"""What the commands do: from files to calibrations, sets and evaluations, in bounded memory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aptset import Calibration, Confidence, Evaluation, PredictionSets, calibrate
from aptset.arrow.formats import Dialect, TableFile
from aptset.calibration.calibrate import calibration_of, load_calibration
from aptset.calibration.labelled_rows import LabelledRequest, score_labels
from aptset.calibration.online_state import Numbering
from aptset.calibration.storage import STORE, find_score
from aptset.calibration.weights import EQUAL, ImportanceWeights
from aptset.cli.checks import (
    check_labels_present,
    check_one_model,
    check_same_classes,
    check_some_labelled,
    shifted_rows,
)
from aptset.cli.files import CONFIDENCE, Batch, ProbabilityFile, SetsWriter, types_of
from aptset.conformal.importance import check_some_weight
from aptset.core.files import atomic_write
from aptset.core.levels import check_level
from aptset.core.randomization import check_ids
from aptset.core.store import stored_kind
from aptset.kernels.rows import CALIBRATION
from aptset.scores import Score
from aptset.scores.conformity import AUTO, check_conformity

OnRows = Callable[[int], None]


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
    if settings["conformity"] == AUTO:
        return _calibrate_whole(labelled_batches(sources, None, skipped), on_rows, by_labels, **settings)
    check_conformity(settings["conformity"])
    allow_empty = settings.pop("allow_empty")
    parts: list[Calibration] = []
    seeds: list[Any] = []
    number_copies = Numbering(side=CALIBRATION).next_seeds  # of all rows: copies in other files have u of their own
    for source, batch, classes in labelled_batches(sources, None, skipped):
        with shifted_rows(source.path, batch.start, batch.numbers):
            of_rows = {"groups": grouped(batch.groups, by_labels), "ids": batch.ids, "logits": source.logits}
            weighing = EQUAL if batch.weights is None else ImportanceWeights(batch.weights, is_part=True)
            of_rows |= {"weighing": weighing, "number_copies": number_copies}
            of_rows |= {"clusters": named(batch.clusters, source.cluster)}
            settings |= {"classes": classes, "least_distinct": 0.0, "u": None, **of_rows}
            scored = score_labels(batch.probabilities, batch.labels, LabelledRequest(**settings))
        parts.append(calibration_of(scored, allow_empty, settings["normalize"]))
        seeds.append(scored.seeds if source.row_id is not None else scored.seeds[:0])
        on_rows(len(batch.probabilities))
    if any(map(len, seeds)):  # of all rows: how they were cut into batches decides nothing
        check_ids(np.concatenate(seeds), sum(map(len, seeds)), least_distinct=0.5)
    first, *others = parts
    n_copies = sum(part.chance.copies * part.rows for part in parts)
    held_out = first.held_out.merge(*(part.held_out for part in others))
    if held_out.has_weights:
        check_some_weight(held_out.weights)
    chance, fingerprint = (
        first.chance.with_copies(n_copies, held_out.rows),
        sum(part.parts[0] for part in parts) % 2**64,
    )
    return replace(first, held_out=held_out, chance=chance, parts=(fingerprint,))


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
    for source in sources:
        path = source.path
        classes = source.classes()
        wanted = classes if wanted is None else wanted
        order = None if classes == wanted else check_same_classes(source.path, classes, wanted)
        for batch in source.batches():
            may_be = [*classes, *([] if skipped is None else [None])]
            if may_be_unknown and batch.labels is not None:
                may_be += [label for label in batch.labels.values if label is not None]
            check_labels_present(source.path, batch.labels, batch.start, may_be, str(source.label))
            if skipped is not None:
                n_rows, batch = len(batch.probabilities), batch.labelled()
                skipped.append(n_rows - len(batch.probabilities))
            rows = batch.probabilities
            n_labelled += len(rows)
            if len(rows):
                yield source, batch if order is None else batch._replace(probabilities=rows[:, order]), wanted
    if path is not None:
        check_some_labelled(path, n_labelled, n_labelled + sum(skipped or [0]))


def imported_score(name: str | Score) -> str | Score:
    """Return the score at module:object, which the user named; a plain name, or a score, as it is."""
    if not isinstance(name, str) or ":" not in name:
        return name
    beside_the_user()
    return find_score("--conformity", {"name": name, "settings": None}, trust=[name.partition(":")[0]])


def load_artefact(path: Path, trust: tuple[str, ...]) -> Calibration:
    """Read an artefact, or what a run calibrated; its score may come from modules that the user trusts."""
    if trust:
        beside_the_user()
    if path.is_dir():
        from aptset.cli.prediction_jobs import load_run  # with scikit-learn, which few jobs need

        made: Calibration = check_one_model(path, load_run(path, trust)[0].calibration_)
        return made
    if stored_kind(path) in ("acceptance", "acceptance_threshold"):
        raise ValueError(f"{path} was made by `aptset calibrate --accept`, for decisions: pass it to `aptset accept`.")
    calibration: Calibration = check_one_model(path, load_calibration(path, trust=trust))
    return calibration


def classes_of(path: Path, trust: tuple[str, ...]) -> list[Any]:
    """Return the classes of an artefact, or of what a run trained, on however many folds."""
    if not path.is_dir():
        return list(load_calibration(path, trust=trust).classes.tolist())
    from aptset.cli.prediction_jobs import load_run

    return list(load_run(path, trust)[0].classes_.tolist())


def digest_of(artefact: Path) -> str:
    """Return a digest of what a calibration says, not of when it was made: a script that makes it anew goes on, too."""
    from aptset.estimator.storage import read_folder  # with scikit-learn, which few jobs need

    facts, tensors = read_folder(artefact) if artefact.is_dir() else STORE.read(artefact)
    plain = {name: value for name, value in facts.items() if name not in ("created", "library")}
    digest = blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def beside_the_user() -> None:
    """Let modules of the working folder be imported, as they are for a script there."""
    if "" not in sys.path:
        sys.path.insert(0, "")


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


def evaluation_as_json(evaluation: Evaluation, **more: Any) -> dict[str, Any]:
    """Return an evaluation as plain values; what is not finite becomes None."""
    rows = []
    for metric, by, group, estimate in evaluation.rows():
        row = {"metric": metric, "by": by, "group": group, "value": float(estimate), "low": estimate.low}
        row |= {"high": estimate.high, "n": estimate.n}
        rows.append({key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()})
    said = {"remarks": list(evaluation.remarks)} if evaluation.remarks else {}
    return {"alpha": evaluation.alpha, "n": evaluation.n, **more, **said, "estimates": rows}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    with atomic_write(path) as file:
        file.write(as_json(content))


def as_json(content: dict[str, Any]) -> bytes:
    """Return JSON that people can read."""
    return json.dumps(content, indent=2, allow_nan=False).encode()
