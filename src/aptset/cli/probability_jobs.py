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
from numpy.typing import NDArray

from aptset import Calibration, Evaluation, calibrate
from aptset.calibration.calibrate import calibration_of, load_calibration
from aptset.calibration.labelled_rows import LabelledRequest, score_labels
from aptset.calibration.online_state import Numbering
from aptset.calibration.request import EQUAL, Weighing
from aptset.calibration.storage import STORE
from aptset.calibration.stored_scores import find_score
from aptset.cli.checks import (
    check_labels_present,
    check_one_model,
    check_same_classes,
    shifted_rows,
)
from aptset.cli.files import Batch, ProbabilityFile, SetsWriter
from aptset.conformal.importance import check_some_weight
from aptset.core.files import atomic_write
from aptset.core.randomization import check_ids
from aptset.core.validate import check_alphas
from aptset.kernels.rows import CALIBRATION
from aptset.scores import Score
from aptset.scores.conformity import AUTO, check_conformity

OnRows = Callable[[int], None]


def calibrate_files(
    sources: Iterable[ProbabilityFile], on_rows: OnRows, by_labels: Any = None, **settings: Any
) -> Calibration:
    """Calibrate on the rows of several files as if they stood in one; classes are in the order of the first.

    ``by_labels`` is "label" or bands of labels, where labels decide the groups.
    """
    settings["conformity"] = imported_score(settings["conformity"])
    if settings["conformity"] == AUTO:
        return _calibrate_whole(sources, on_rows, by_labels, **settings)
    check_conformity(settings["conformity"])
    parts: list[Calibration] = []
    seeds: list[Any] = []
    number_copies = Numbering(side=CALIBRATION).next_seeds  # of all rows: copies in other files have u of their own
    for source, batch, classes in labelled_batches(sources):
        with shifted_rows(source.path, batch.start):
            of_rows = {"groups": by_labels or batch.groups, "ids": batch.ids, "logits": source.logits}
            weighing = EQUAL if batch.weights is None else Weighing(batch.weights, is_part=True)
            of_rows |= {"weighing": weighing, "number_copies": number_copies}
            of_rows |= {"clusters": named(batch.clusters, source.cluster)}
            settings |= {"classes": classes, "least_distinct": 0.0, "u": None, **of_rows}
            scored = score_labels(batch.probabilities, batch.labels, LabelledRequest(**settings))
        parts.append(calibration_of(scored, True, settings["normalize"]))
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


def labelled_batches(
    sources: Iterable[ProbabilityFile], wanted: list[str] | None = None
) -> Iterator[tuple[ProbabilityFile, Batch, list[str]]]:
    """Yield the rows of all files with columns in the order of ``wanted``, or of the first file; labels are checked."""
    for source in sources:
        classes = source.classes()
        wanted = classes if wanted is None else wanted
        order = None if classes == wanted else check_same_classes(source.path, classes, wanted)
        for batch in source.batches():
            check_labels_present(source.path, batch.labels, batch.start, classes, str(source.label))
            rows = batch.probabilities
            yield source, batch if order is None else batch._replace(probabilities=rows[:, order]), wanted


def imported_score(name: str | Score) -> str | Score:
    """Return the score at module:object, which the user named; a plain name, or a score, as it is."""
    if not isinstance(name, str) or ":" not in name:
        return name
    beside_the_user()
    return find_score("--conformity", {"name": name, "settings": None}, trust=[name.partition(":")[0]])


def load_artefact(path: Path, trust: tuple[str, ...]) -> Calibration:
    """Read an artefact; its score may come from modules that the user trusts."""
    if trust:
        beside_the_user()
    calibration: Calibration = check_one_model(path, load_calibration(path, trust=trust))
    return calibration


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
    sources: Iterable[ProbabilityFile], on_rows: OnRows, by_labels: Any, **settings: Any
) -> Calibration:
    """Calibrate on all rows at once: a score is chosen on rows of the whole file, so they must all be there."""
    rows, of_rows, classes, logits = all_rows(labelled_batches(sources), on_rows)
    labels, groups = of_rows.pop("labels"), by_labels or of_rows.pop("groups")
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
    alphas: Sequence[float],
    out: Path,
    on_rows: OnRows,
    normalize: bool = False,
    u: Literal["fresh"] | None = None,
) -> dict[str, Any]:
    """Write the sets of a file, batch by batch; every other column travels along."""
    check_alphas(alphas)
    check_weights_wanted(source, calibration)
    names = [str(name) for name in calibration.classes.tolist()]
    order = check_same_classes(source.path, source.classes(), names)
    with SetsWriter(out, source.other_columns(), names, alphas) as writer:
        for batch in source.batches():
            options: dict[str, Any] = {"groups": batch.groups, "ids": batch.ids, "weights": batch.weights}
            options |= {"normalize": normalize or None, "logits": source.logits, "u": u}
            with shifted_rows(source.path, batch.start):
                sets: Any = calibration.predict_set(batch.probabilities[:, order], list(alphas), **options)
            writer.write(batch.others, sets)
            on_rows(len(sets[0]))
    return writer.done()


def check_weights_wanted(source: ProbabilityFile, calibration: Calibration) -> ProbabilityFile:
    """Return a file that has a column of weights where calibration rows had one, and none where they had none."""
    held_out = calibration.held_out
    is_wanted = held_out.has_weights and held_out.ratios is None
    if is_wanted != (source.weight is not None):
        what = "with --weights COLUMN, as at calibration" if is_wanted else "without --weights, as at calibration"
        raise ValueError(f"{source.path} must come {what}.")
    return source


def evaluation_as_json(evaluation: Evaluation, **more: Any) -> dict[str, Any]:
    """Return an evaluation as plain values; what is not finite becomes None."""
    rows = []
    for metric, by, group, estimate in evaluation.rows():
        row = {"metric": metric, "by": by, "group": group, "value": float(estimate), "low": estimate.low}
        row |= {"high": estimate.high, "n": estimate.n}
        rows.append({key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()})
    return {"alpha": evaluation.alpha, "n": evaluation.n, **more, "estimates": rows}


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    with atomic_write(path) as file:
        file.write(as_json(content))


def as_json(content: dict[str, Any]) -> bytes:
    """Return JSON that people can read."""
    return json.dumps(content, indent=2, allow_nan=False).encode()
