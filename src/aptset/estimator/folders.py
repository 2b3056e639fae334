"""What a saved classifier must say about itself: the folder is untrusted input until all of it was checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.stored_checks import (
    LONGEST_TEXT,
    check_stored_groups,
    check_stored_labels,
    is_storable,
    unknown_kind,
)
from aptset.core.files import check_plain_file
from aptset.core.groups import groups_labels

NEWEST = 1
_FACTS: dict[str, Any] = {
    "format": int,
    "kind": str,
    "settings": dict,
    "scheme": str,
    "score": dict,
    "key": str,
    "u": str,
    "randomized": bool,
    "copies": int | float,
    "group_setting": str | int | None,
    "groups": dict,
    "classes": dict,
    "known_classes": dict | None,
    "unseen_label_chance": int | float,
    "n": int,
    "n_models": int,
    "n_members": int,
    "table": dict | None,
    "library": str,
    "versions": dict,
    "created": str,
    "files": dict,
    "digest": str,
}
_TENSORS = {"scores": ("<f8", 1), "offsets": ("<i8", 2), "labels": ("<i8", 1), "label_counts": ("<i8", 1)}


def check_saveable(state: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse what has no name under which it could be found again."""
    if not isinstance(state["scheme"], dict):
        raise TypeError(
            f"calibration must be one of the library's to be saved; got {state['scheme']!r}. Pickle keeps an object of "
            "your own, for the same versions of everything."
        )
    if settings.get("weights") is not None:
        raise TypeError(
            f"weights must be None for a classifier to be saved: a function cannot be; got {settings['weights']!r}. "
            "Save calibration_, which keeps the weights of its rows, or pickle the classifier."
        )
    for name in settings.keys() - {"estimator", "calibration", "conformity", "classes", "random_state"}:
        value = settings[name]
        if name == "groups" and groups_labels(value):  # they are among the groups
            continue
        if not is_storable(value.item() if isinstance(value, np.generic) else value):
            raise TypeError(
                f"{name} must be a text, a number, a boolean or None to be saved; got {value!r}. "
                + ("Pass the groups to fit and predict_set instead." if name == "groups" else "Set it after load.")
            )


def broken(folder: Path, why: str) -> ValueError:
    """Return the one error about a folder that cannot be trusted."""
    return ValueError(f"{folder} is no intact folder of a classifier: {why}. Make it again by `aptset run` or save().")


def digest_of_facts(facts: dict[str, Any]) -> str:
    """Return the digest of all facts but itself."""
    content = {name: value for name, value in facts.items() if name != "digest"}
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).hexdigest()


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the checked facts of a folder, with its classes as an array under ``class_labels``."""
    path = folder / "aptset.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} must be the folder of a classifier; it holds no aptset.json.")
    check_plain_file(path)
    content = path.read_bytes()
    if len(content) > LONGEST_TEXT:
        raise broken(folder, "its aptset.json is too long")
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise broken(folder, "its aptset.json is not JSON") from error
    if not isinstance(facts, dict) or type(facts.get("format")) is not int:
        raise broken(folder, "its aptset.json has no format version")
    if facts["format"] > NEWEST:
        writer = re.sub("[^0-9A-Za-z.+!_-]", "?", str(facts.get("library", "?"))[:40])
        raise ValueError(
            f"{folder} has format {facts['format']}, written by aptset {writer}; this version reads formats up to "
            f"{NEWEST}. Upgrade aptset."
        )
    if facts.get("kind") != "classifier":
        raise unknown_kind(folder, "kind", facts.get("kind"))
    _check_facts(folder, facts)
    facts["class_labels"] = check_stored_labels(folder, facts["classes"], "classes")
    check_stored_groups(folder, facts, facts["class_labels"])
    return facts


def _check_facts(folder: Path, facts: dict[str, Any]) -> None:
    unknown = sorted(facts.keys() - _FACTS.keys())
    if unknown:  # it may change what the scores mean
        raise unknown_kind(folder, "fact", unknown[0])
    for name, kind in _FACTS.items():
        if name not in facts or not isinstance(facts[name], kind) or (kind is int and isinstance(facts[name], bool)):
            raise broken(folder, f"its aptset.json is incomplete ({name})")
    if facts["digest"] != digest_of_facts(facts):
        raise broken(folder, "its aptset.json does not match its digest")
    is_word = re.fullmatch("0|[1-9][0-9]{0,19}", facts["key"]) is not None and int(facts["key"]) < 2**64
    if not is_word or facts["u"] not in ("content", "ids", "given") or facts["format"] < 1:
        raise broken(folder, "its key, its u or its format is none")
    for name in ("copies", "unseen_label_chance"):
        if isinstance(facts[name], bool) or not 0 <= facts[name] <= 1:
            raise broken(folder, f"its {name} must be in [0, 1]")
    if facts["score"].keys() != {"name", "settings"}:
        raise broken(folder, "its score must have a name and settings")


def check_settings(folder: Path, facts: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the settings of the constructor but for the estimator, which is among the models."""
    settings = dict(facts["settings"])
    unknown = sorted(settings.keys() - (set(known) - {"estimator"}))
    if unknown:
        raise unknown_kind(folder, "setting", unknown[0])
    if not {"calibration", "conformity"} <= settings.keys():
        raise broken(folder, "its settings are incomplete")
    classes = facts["known_classes"]
    if classes is not None:
        settings["classes"] = check_stored_labels(folder, classes, "known classes")
    return settings


def read_tensors(folder: Path, facts: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the tensors, each of the shape that the facts ask for."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    content = read_file(folder, facts, "scores")
    try:
        tensors: dict[str, NDArray[Any]] = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise broken(folder, f"its scores are no file of tensors ({error})") from error
    found = {name: (values.dtype.str, values.ndim) for name, values in tensors.items()}
    judges = tensors.get("judges")
    if found != {**_TENSORS, **({} if judges is None else {"judges": ("|b1", 2)})}:
        raise broken(folder, "its tensors have other names, types or dimensions")
    scores, offsets = tensors["scores"], tensors["offsets"]
    counts, labels = tensors["label_counts"], tensors["labels"]
    rules = {
        "it must have one fold at least": len(offsets) > 0 and len(scores) == facts["n"] > 0,
        "offsets must be those of its groups": offsets.shape[1] == len(facts["groups"]["names"]) + 1,
        "offsets must rise from 0": bool((offsets[:, 0] == 0).all() and (offsets[:, 1:] >= offsets[:, :-1]).all()),
        "offsets must end at the number of scores": int(offsets[:, -1].clip(0, len(scores)).sum()) == len(scores)
        and bool((offsets[:, -1] <= len(scores)).all()),
        "scores must be finite": bool(np.isfinite(scores).all()),
        "it must have labels for each model": len(counts) == facts["n_models"] > 0
        and bool(((counts >= -1) & (counts <= len(labels))).all())
        and int(np.maximum(counts, 0).sum()) == len(labels),
        "judges must be those of its folds": judges is None
        or judges.shape == (len(offsets), facts["n_members"] or facts["n_models"]),
        "it must have as many members as judges": facts["n_members"] == 0
        or (facts["n_members"] > 0 and judges is not None),
        "it must have one model for each fold": judges is not None or facts["n_models"] == len(offsets),
        "labels must be among the classes": bool(((labels >= 0) & (labels < len(facts["class_labels"]))).all()),
    }
    for rule, holds in rules.items():
        if not holds:
            raise broken(folder, rule)
    _check_sorted(folder, scores, offsets)
    return tensors


def _check_sorted(folder: Path, scores: NDArray[Any], offsets: NDArray[Any]) -> None:
    starts = np.concatenate([[0], np.cumsum(offsets[:, -1])])[:-1, None] + offsets
    falls = scores[1:] < scores[:-1]
    inner = starts[(starts > 0) & (starts < len(scores))]
    falls[inner - 1] = False  # the first score of a group may be below the last one of the group before
    if falls.any():
        raise broken(folder, "scores must be sorted within each group")


def read_file(folder: Path, facts: dict[str, Any], what: str) -> bytes:
    """Return what stands in a file of the folder, which must match its digest."""
    entry = facts["files"].get(what)
    name, digest = (entry.get("name"), entry.get("digest")) if isinstance(entry, dict) else (None, None)
    if not isinstance(name, str) or re.fullmatch(r"[a-z]+-[0-9a-f]{12}\.[a-z]+", name) is None:
        raise broken(folder, f"it names no file of {what}")
    path = folder / name
    if not path.is_file():
        raise broken(folder, f"{name} is missing")
    content = path.read_bytes()
    if blake2b(content, digest_size=16).hexdigest() != digest:
        raise broken(folder, f"{name} does not match its digest")
    return content


def check_table(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return how rows of a file become rows of X; refuse a folder that does not say."""
    table = facts["table"]
    if table is None:
        raise ValueError(
            f"{folder} does not say which columns of a file its model takes: it was saved from Python. Load it there, "
            "with aptset.load, or make a folder with `aptset run`."
        )
    columns = table.get("columns")
    wanted = {"name", "kind", "values", "missing", "left_out", "format"}
    if table.keys() != {"target", "columns", "groups", "id"} or not isinstance(columns, list):
        raise unknown_kind(folder, "description of its table", sorted(table))
    for column in columns:
        if not isinstance(column, dict) or column.keys() != wanted:
            raise unknown_kind(folder, "description of a column", column)
        if column["kind"] not in ("number", "category", "date", "text"):
            raise unknown_kind(folder, "kind of column", column["kind"])
    return dict(table)
