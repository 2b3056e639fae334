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

from aptset.calibration.calibrate import calibrate, calibration_of, load_calibration
from aptset.calibration.calibration import Calibration
from aptset.calibration.labelled_rows import LabelledRequest, score_labels
from aptset.calibration.online_state import Numbering
from aptset.calibration.request import Weighing
from aptset.calibration.storage import read
from aptset.calibration.stored_scores import find_score
from aptset.cli.checks import (
    check_labels_present,
    check_one_model,
    check_same_classes,
    check_weight_column,
    shifted_rows,
)
from aptset.cli.files import Batch, ProbabilityFile
from aptset.cli.reading import as_texts
from aptset.cli.writer import SetsWriter
from aptset.conformal.weight_checks import check_some_weight
from aptset.core.files import atomic_write
from aptset.core.randomization import check_ids
from aptset.core.validate import check_alphas
from aptset.kernels.rows import CALIBRATION
from aptset.metrics.evaluation import Evaluation
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
        weighing = Weighing(weights_of(source, batch), is_part=True)
        with shifted_rows(source.path, batch.start):
            of_rows = {"groups": by_labels or _groups_of(source, batch), "ids": _ids_of(source, batch)}
            of_rows |= {"weighing": weighing, "number_copies": number_copies, "logits": source.logits}
            settings |= {"classes": classes, "least_distinct": 0.0, "u": None, **of_rows}
            found = score_labels(batch.probabilities, batch.labels, LabelledRequest(**settings))
        parts.append(calibration_of(found, True, settings["normalize"]))
        seeds.append(found.seeds if source.row_id is not None else found.seeds[:0])
        on_rows(len(batch.probabilities))
    if any(map(len, seeds)):  # of all rows: how they were cut into batches decides nothing
        check_ids(np.concatenate(seeds), sum(map(len, seeds)), least_distinct=0.5)
    first, *others = parts
    n_copies = sum(part.chance.copies * part.n for part in parts)
    held_out = first.held_out.merge(*(part.held_out for part in others))
    if held_out.is_weighted:
        check_some_weight(held_out.weights)
    chance, fingerprint = first.chance.with_copies(n_copies, held_out.n), sum(part.parts[0] for part in parts) % 2**64
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
            some = batch if order is None else replace(batch, probabilities=batch.probabilities[:, order])
            yield source, some, wanted


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
    found: Calibration = check_one_model(path, load_calibration(path, trust=trust))
    return found


def digest_of(artefact: Path) -> str:
    """Return a digest of what a calibration says, not of when it was made: a script that makes it anew goes on, too."""
    facts, tensors = (json.loads((artefact / "aptset.json").read_bytes()), {}) if artefact.is_dir() else read(artefact)
    plain = {name: value for name, value in facts.items() if name not in ("created", "digest", "library")}
    found = blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=16)
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        found.update(np.ascontiguousarray(tensors[name]).tobytes())
    return found.hexdigest()


def beside_the_user() -> None:
    """Let modules of the working folder be imported, as they are for a script there."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _calibrate_whole(
    sources: Iterable[ProbabilityFile], on_rows: OnRows, by_labels: Any, **settings: Any
) -> Calibration:
    """Calibrate on all rows at once: a score is chosen on rows of the whole file, so they must all be there."""
    matrices: list[Any] = []
    labels: list[Any] = []
    groups: list[Any] = []
    ids: list[Any] = []
    weights: list[Any] = []
    for source, batch, wanted in labelled_batches(sources):
        matrices.append(batch.probabilities)
        labels += batch.labels.in_full() if batch.labels else []
        groups += _groups_of(source, batch) or []
        ids += _ids_of(source, batch) or []
        weights += [] if source.weight is None else [weights_of(source, batch)]
        settings |= {"classes": wanted, "logits": source.logits}
        on_rows(len(batch.probabilities))
    by: Any = by_labels or groups or None
    of_rows = {"groups": by, "ids": ids or None, "weights": np.concatenate(weights) if weights else None}
    return calibrate(np.concatenate(matrices), labels, **of_rows, **settings)


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
    order = check_same_classes(source.path, source.classes(), [str(name) for name in calibration.classes.tolist()])
    rows = labels = empty = 0
    names = [str(name) for name in calibration.classes.tolist()]
    with SetsWriter(out, source.other_columns(), names, alphas) as writer:
        for batch in source.batches():
            weights = weights_of(source, batch)
            with shifted_rows(source.path, batch.start):
                by, ids = _groups_of(source, batch), _ids_of(source, batch)
                options = {"groups": by, "ids": ids, "normalize": normalize or None, "first_row": batch.start}
                options |= {"weights": weights, "logits": source.logits, "u": u}
                sets: Any = calibration.predict_set(batch.probabilities[:, order], list(alphas), **options)
            writer.write(source.written_columns(batch.others), sets)
            rows, labels = rows + len(sets[0]), labels + len(sets[0].indices)
            empty += int((sets[0].sizes == 0).sum())
            on_rows(len(sets[0]))
    done = {"rows": rows, "alpha": alphas[0], "mean_size": labels / rows, "empty": empty, "out": str(out)}
    return {**done, "columns": writer.names}


def _groups_of(source: ProbabilityFile, batch: Batch) -> Any:
    """Return the group of each row as text, which a number is in one kind of file and a text in another."""
    return None if source.group is None else as_texts(batch.others[source.group])


def _ids_of(source: ProbabilityFile, batch: Batch) -> Any:
    """Return the id of each row as text, for the same reason."""
    return None if source.row_id is None else as_texts(batch.others[source.row_id])


def check_weights_wanted(source: ProbabilityFile, calibration: Calibration) -> None:
    """Refuse rows without a column of weights where calibration rows had one, and the other way round."""
    held_out = calibration.held_out
    is_wanted = held_out.is_weighted and held_out.ratios is None
    if is_wanted != (source.weight is not None):
        what = "with --weights COLUMN, as at calibration" if is_wanted else "without --weights, as at calibration"
        raise ValueError(f"{source.path} must come {what}.")


def weights_of(source: ProbabilityFile, batch: Batch) -> Any:
    """Return the weight of each row as a number."""
    if source.weight is None:
        return None
    return check_weight_column(source.path, source.weight, batch.others[source.weight], batch.start)


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
