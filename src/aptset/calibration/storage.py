"""Calibrations on disk: one safetensors file with JSON metadata. Opening one runs no code.

Layout, version 1. Tensors: ``scores`` (float64, upward within each group) and ``offsets`` (int64, where groups start).
Of several folds (kind "cross") the scores come fold by fold, ``offsets`` has one row for each, and where several models
judge a row together, ``judges`` (bool, (folds, models)) says which. ``weights`` (float64) has those of the scores, if
there are any: see :mod:`aptset.calibration.stored_fields`. What stands in the place of scores where none were
kept is said in :mod:`aptset.calibration.stored_fields`. Metadata: ``aptset``, a JSON text with everything
else, and ``digest``, the blake2b of that text and of the bytes of the tensors, so that any damage is noticed. A digest
is no signature: whoever can write the file can renew it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.storage_checks import (
    CROSS,
    check_artefact,
    check_content,
    check_facts,
    check_scheme_of_folds,
    check_shapes,
    hash_of,
)
from aptset.calibration.stored_checks import (
    check_stored_columns,
    check_stored_groups,
    check_stored_labels,
    check_writable_text,
    damaged,
    is_storable,
    same_values,
    stored_array,
)
from aptset.calibration.stored_fields import (
    COUNTED,
    check_counts,
    counts_from,
    describe_scheme,
    describe_weights,
    facts_of,
    find_scheme,
    hash_of_counts,
    kind_of_counts,
    tensors_of,
    weighted_from,
    weights_of,
)
from aptset.calibration.stored_scores import check_counted_classes, describe_score, find_score
from aptset.conformal.fold_scores import FoldScores
from aptset.conformal.measure import Measure, Thresholds
from aptset.core.files import atomic_path, check_plain_file
from aptset.core.groups import Groups, flat_groups
from aptset.core.randomization import Chance

FORMAT_VERSION = 1


def write_calibration(path: str | Path, fields: dict[str, Any]) -> None:
    """Write the fields of a calibration, atomically: a kill at any moment leaves the old file or the new one."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    tensors = _tensors(fields["held_out"])
    text = json.dumps(_describe(fields, tensors), sort_keys=True)
    check_writable_text(path, text)
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={"aptset": text, "digest": _digest(text, tensors)})
        except SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error


def read_calibration(
    path: str | Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a calibration and the facts behind them; whatever is not intact is refused with one error.

    The file is untrusted: nothing of it reaches a loop before every relation between its parts was checked.
    """
    facts, tensors = read(path)
    classes = check_stored_labels(path, facts["classes"], "classes")
    groups = check_stored_groups(path, facts, classes)
    columns, score = facts["columns"], find_score(path, facts["score"], scores, trust)
    check_counted_classes(path, score, len(classes))
    if facts["kind"] in COUNTED:
        held_out: Thresholds = counts_from(path, facts, tensors, groups, score)
    elif "weights" in facts:
        held_out = weighted_from(path, facts, tensors, groups, len(classes))
    else:
        held_out = Measure(_folds(tensors, groups), groups, tensors.get("judges"))
    fields = {
        "held_out": held_out,
        "classes": classes,
        "conformity": score,
        "key": int(facts["key"]),
        "chance": Chance(facts.get("u", "content"), facts["randomized"], float(facts.get("copies", 0.0))),
        "allow_empty": facts["allow_empty"],
        "columns": None if columns is None else check_stored_columns(path, columns, len(classes)),
        "normalize": facts.get("normalize", False),
        "parts": tuple(int(part) for part in facts.get("parts", [])),
    }
    if facts["kind"] == CROSS:
        scheme = find_scheme(path, facts["scheme"])
        check_scheme_of_folds(path, scheme.name, scheme.combine.holds_all_models, "judges" in tensors)
        return {**fields, "folds": check_stored_labels(path, facts["folds"], "folds"), "scheme": scheme}, facts
    return {**fields, "first_rows": tuple(int(row) for row in facts.get("first_rows", ["0"]))}, facts


def _folds(tensors: dict[str, NDArray[Any]], groups: Groups) -> tuple[FoldScores, ...]:
    """Return the scores of each fold: views of one array, which nobody may change."""
    tensors["scores"].flags.writeable = False
    offsets = np.atleast_2d(tensors["offsets"])
    parts = np.split(tensors["scores"], np.cumsum(offsets[:, -1])[:-1])
    return tuple(FoldScores(part, starts, groups) for part, starts in zip(parts, offsets, strict=True))


def _tensors(held_out: Thresholds) -> dict[str, NDArray[Any]]:
    if not isinstance(held_out, Measure):
        return tensors_of(held_out)
    (first, *others) = held_out.folds
    scores = np.concatenate([first.scores, *(fold.scores for fold in others)]) if others else first.scores
    offsets = np.array([fold.offsets for fold in held_out.folds], dtype=np.int64)
    tensors = {"scores": np.ascontiguousarray(scores), "offsets": offsets if others else offsets[0]}
    if held_out.is_weighted:
        return {**tensors, "weights": weights_of(held_out)}
    if held_out.judges is None:
        return tensors
    return {**tensors, "offsets": offsets, "judges": np.ascontiguousarray(held_out.judges, dtype=np.bool_)}


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the checked facts and tensors of an artefact; what they mean is checked by ``read_calibration``."""
    from safetensors import SafetensorError, safe_open

    check_plain_file(Path(path))
    try:
        with safe_open(Path(path), framework="np") as file:
            metadata = file.metadata() or {}
            facts = check_artefact(path, metadata, FORMAT_VERSION)
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dictionary
            check_shapes(path, facts, {name: (part.get_dtype(), part.get_shape()) for name, part in parts.items()})
            tensors = {name: file.get_tensor(name) for name in parts}
    except (SafetensorError, TypeError, KeyError, AttributeError, MemoryError) as error:
        raise damaged(path, f"not a readable file of tensors ({error})") from error
    if metadata.keys() != {"aptset", "digest"} or metadata["digest"] != _digest(metadata["aptset"], tensors):
        raise damaged(path, "its content does not match its digest")
    check_facts(path, facts)
    if facts["kind"] in COUNTED:
        check_counts(path, facts, tensors)
    else:
        check_content(path, facts, tensors["scores"], np.atleast_2d(tensors["offsets"]))
    return facts, tensors


def _describe(fields: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> dict[str, Any]:
    from importlib.metadata import version  # takes as long to load as a third of numpy

    held_out: Thresholds = fields["held_out"]
    score, columns, chance = fields["conformity"], fields["columns"], fields["chance"]
    counted = kind_of_counts(held_out)
    facts = {
        "format": FORMAT_VERSION,
        "kind": CROSS if "scheme" in fields else counted or "split",
        "score": describe_score(score),
        "classes": as_plain_labels(fields["classes"]),
        "columns": None if columns is None else as_plain_labels(columns),
        "groups": plain_groups(flat_groups(held_out.groups)),
        "key": str(fields["key"]),
        "randomized": chance.randomized,
        "u": chance.source,
        "copies": chance.copies,
        "allow_empty": fields["allow_empty"],
        "normalize": fields["normalize"],
        "parts": [str(part) for part in fields["parts"]],
        "n": held_out.n,
        "scores_hash": hash_of_counts(tensors) if counted else hash_of(held_out.scores),
        **({"weights": describe_weights(held_out)} if isinstance(held_out, Measure) and held_out.is_weighted else {}),
        "library": version("aptset"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if facts["kind"] == CROSS:
        return {**facts, "folds": as_plain_labels(fields["folds"]), "scheme": describe_scheme(fields["scheme"])}
    return {**facts, **facts_of(held_out), "first_rows": [str(row) for row in fields["first_rows"]]}


def plain_groups(flat: dict[str, Any]) -> dict[str, Any]:
    """Return flattened groups as JSON takes them."""
    return {
        key: [plain_value(one) for one in value] if isinstance(value, list) else value for key, value in flat.items()
    }


def _digest(text: str, tensors: dict[str, NDArray[Any]]) -> str:
    digest = blake2b(text.encode(), digest_size=16)
    in_order = [name for name in ("scores", "offsets", "judges", "weights") if name in tensors]
    for name in in_order if "scores" in tensors else sorted(tensors):
        digest.update(str(tensors[name].dtype).encode())
        digest.update(tensors[name].data)
    return digest.hexdigest()


def plain_value(value: Any) -> Any:
    """Return a label, a group or a setting as JSON takes it."""
    value = value.item() if isinstance(value, np.generic) else value
    if is_storable(value):
        return value
    raise TypeError(
        f"labels, groups and folds must be texts, numbers, booleans or None to be saved; got {value!r}. Pass texts "
        "that stand for them instead, such as str(label), or the name of a member of an Enum."
    )


def as_plain_labels(values: NDArray[Any]) -> dict[str, Any]:
    """Return labels as JSON takes them; as objects where an array would make something else of them."""
    plain = [plain_value(value) for value in values.tolist()]
    return {
        "values": plain,
        "objects": values.dtype == object or not same_values(stored_array(plain, False).tolist(), plain),
    }
