"""What an artefact on disk must say about itself: it is untrusted input, and every relation in it is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FACTS = {
    "format": int,
    "kind": str,
    "score": dict,
    "classes": dict,
    "columns": dict | None,
    "groups": dict,
    "key": str,
    "randomized": bool,
    "allow_empty": bool,
    "n": int,
    "scores_hash": str,
    "library": str,
    "created": str,
}
# Facts that are not in every file, with their types.
_OPTIONAL: dict[str, Any] = {"u": str, "copies": int | float, "normalize": bool, "parts": list, "first_rows": list}
LONGEST_TEXT = 64 * 2**20  # safetensors itself stops at 100 million bytes
_MOST_BRACKETS, _DEEPEST = 64, 8  # ours has 9 and goes 3 deep; a flood of brackets would take 20 times its size
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SHAPES = {"scores": "F64", "offsets": "I64"}


def damaged(path: str | Path, why: str) -> ValueError:
    """Return the one error about a file that cannot be trusted."""
    return ValueError(f"{path} is no intact aptset artefact: {why}. Make it again with `aptset calibrate` or save().")


def unknown_kind(where: str | Path, what: str, name: Any) -> ValueError:
    """Return the one error about something that a later version may have written."""
    shown = re.sub(r"[^ -~]", "?", str(name))[:200]
    return ValueError(
        f"{where} has a {what} that this version of aptset does not know: {shown}. Upgrade aptset, or make it again."
    )


def check_artefact(path: str | Path, metadata: dict[str, str], newest: int) -> dict[str, Any]:
    """Return the facts of an artefact's metadata."""
    if "aptset" not in metadata:
        raise damaged(path, "it has no aptset metadata")
    facts = _parse(path, metadata["aptset"])
    if not isinstance(facts, dict) or type(facts.get("format")) is not int:
        raise damaged(path, "its metadata has no format version")
    if facts["format"] > newest:
        writer = re.sub("[^0-9A-Za-z.+!_-]", "?", str(facts.get("library", "?"))[:40])  # it goes to a terminal
        raise ValueError(
            f"{path} has format {facts['format']}, written by aptset {writer}; this version reads formats up to "
            f"{newest}. Upgrade aptset."
        )
    wrong = [name for name, kind in _FACTS.items() if name not in facts or not _is_a(facts[name], kind)]
    if wrong:
        raise damaged(path, f"its metadata is incomplete ({', '.join(wrong)})")
    unknown = sorted(facts.keys() - _FACTS.keys() - _OPTIONAL.keys())
    unknown += [name for name, kind in _OPTIONAL.items() if name in facts and not _is_a(facts[name], kind)]
    if unknown:  # what this version does not know may change what the scores mean
        raise damaged(path, f"its metadata says {unknown[0][:40]!r}, which this version does not understand")
    if facts["kind"] != "split":
        raise unknown_kind(path, "kind of calibration", facts["kind"])
    if facts["format"] < 1:
        raise damaged(path, "its metadata is incomplete (format)")
    return facts


def _parse(path: str | Path, text: str) -> Any:
    """Parse JSON of ours: no longer, deeper or fuller of brackets than a calibration can be, and no key twice."""
    if len(text) > LONGEST_TEXT:
        raise damaged(path, f"its metadata is longer than {LONGEST_TEXT} characters")
    depth = deepest = 0
    brackets = re.findall(r"[\[\]{}]", _STRINGS.sub("", text))
    for bracket in brackets[: 2 * _MOST_BRACKETS + 1]:
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if len(brackets) > 2 * _MOST_BRACKETS or deepest > _DEEPEST:
        raise damaged(path, "its metadata is nested deeper than that of a calibration")
    try:
        return json.loads(text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise damaged(path, "its metadata is not JSON") from error


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _is_a(value: Any, kind: Any) -> bool:
    """Tell whether a value of JSON has a type; true and false are no numbers."""
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def check_shapes(path: str | Path, facts: dict[str, Any], found: dict[str, tuple[str, list[int]]]) -> None:
    """Refuse tensors of other names, types and sizes than the facts say, before any of them is read."""
    names = facts["groups"].get("names")
    if not isinstance(names, list):
        raise damaged(path, "its groups have no names")
    wanted = {"scores": [facts["n"]], "offsets": [len(names) + 1]}
    if found != {name: (kind, wanted[name]) for name, kind in _SHAPES.items()} or not 0 < facts["n"] < 2**31:
        raise damaged(path, f"it must hold {facts['n']} scores and {len(names) + 1} offsets")


def check_content(path: str | Path, facts: dict[str, Any], scores: NDArray[Any], offsets: NDArray[Any]) -> None:
    """Refuse content that no calibration has, even if its digest fits."""
    starts = offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(scores))]
    falls = scores[1:] < scores[:-1]
    falls[starts - 1] = False  # the first score of a group may be below the last one of the group before
    source, copies, parts = facts.get("u", "content"), facts.get("copies", 0), facts.get("parts", [])
    rules: dict[str, Callable[[], bool]] = {
        # Comparisons, not differences: those of offsets near 2^63 wrap around.
        "its offsets must rise from 0 to n": lambda: bool(
            offsets[0] == 0 and offsets[-1] == len(scores) and (offsets[1:] >= offsets[:-1]).all()
        ),
        "its scores must be finite": lambda: bool(np.isfinite(scores).all()),
        "its scores must be sorted within each group": lambda: not falls.any(),
        "its scores_hash must be that of its scores": lambda: facts["scores_hash"] == hash_of(np.sort(scores)),
        "its key must be a whole number below 2^64": lambda: _is_word(facts["key"]),
        "its u must come from content, ids or the caller": lambda: source in ("content", "ids", "given"),
        "its share of copies must be in [0, 1]": lambda: not isinstance(copies, bool) and 0 <= copies <= 1,
        "its parts must be distinct whole numbers below 2^64": lambda: (
            all(map(_is_word, parts)) and len(set(parts)) == len(parts)
        ),
        "its first rows must be whole numbers below 2^64": lambda: all(map(_is_word, facts.get("first_rows", []))),
        "its version must be a few plain characters": lambda: (
            re.fullmatch(r"[0-9A-Za-z.+!_-]{1,64}", facts["library"]) is not None
        ),
        "its creation must be a time": lambda: _is_time(facts["created"]),
    }
    for rule, holds in rules.items():
        if not holds():
            raise damaged(path, rule)


def _is_word(text: Any) -> bool:
    """Tell whether a text is a whole number of 64 bits, written in the one way."""
    return isinstance(text, str) and re.fullmatch("0|[1-9][0-9]{0,19}", text) is not None and int(text) < 2**64


def hash_of(scores: NDArray[np.float64]) -> str:
    """Return the hash of sorted scores, which people compare."""
    return blake2b(scores.data, digest_size=16).hexdigest()


def _is_time(text: str) -> bool:
    try:
        return len(text) < 64 and text.isprintable() and bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def check_stored_labels(path: str | Path, stored: Any, what: str) -> NDArray[Any]:
    """Return labels as an array; refuse those that are there twice or come back as something else."""
    parts = stored if isinstance(stored, dict) and stored.keys() == {"values", "objects"} else {}
    values, objects = parts.get("values"), parts.get("objects")
    if not isinstance(values, list) or not isinstance(objects, bool) or len(values) < 2:
        raise damaged(path, f"its {what} must be a list of at least 2 labels")
    check_stored_values(path, values, what)
    found = stored_array(values, objects)
    if not same_values(found.tolist(), values):
        raise damaged(path, f"its {what} must be of one kind, or objects")
    return found


def check_stored_columns(path: str | Path, stored: Any, n_classes: int) -> NDArray[Any]:
    """Return the names of the columns, as many as there are classes."""
    found = check_stored_labels(path, stored, "columns")
    if len(found) != n_classes:
        raise damaged(path, f"it must have one column for each of the {n_classes} classes; it has {len(found)}")
    return found


def check_writable_text(path: str | Path, text: str) -> None:
    """Refuse to write what could not be read again."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"{path} cannot hold so many names of classes and groups: {len(text)} characters, where {LONGEST_TEXT} "
            "are the limit. Use shorter names or fewer groups."
        )


def check_stored_values(path: str | Path, values: list[Any], what: str) -> None:
    """Refuse values that no label or group is, and values that are there twice (1, 1.0 and true are the same)."""
    for value in values:
        if not is_storable(value):
            raise damaged(path, f"its {what} must be texts, numbers, booleans or null; got {str(value)[:60]!r}")
    if len(set(values)) != len(values):
        raise damaged(path, f"its {what} must be distinct")


def is_storable(value: Any) -> bool:
    """Tell whether a label or a group can go into an artefact and come back: half a character of UTF-16 cannot."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or isinstance(value, bool | int) or (isinstance(value, float) and value == value)


def stored_array(values: list[Any], objects: bool) -> NDArray[Any]:
    """Return an array of labels."""
    if not objects:
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def same_values(found: list[Any], values: list[Any]) -> bool:
    """Tell whether values came through an array as they were, of the same types."""
    return found == values and list(map(type, found)) == list(map(type, values))


def check_stored_groups(path: str | Path, facts: dict[str, Any], classes: NDArray[Any]) -> tuple[Any, ...]:
    """Return the names of the groups; those of labels must be the classes, one group must be called "all"."""
    kind, names = facts["groups"].get("kind"), facts["groups"]["names"]
    if facts["groups"].keys() != {"kind", "names"} or kind not in ("all", "label", "row") or not names:
        raise damaged(path, "its groups must be of kind all, label or row, with names")
    check_stored_values(path, names, "groups")
    if kind == "all" and names != ["all"]:
        raise damaged(path, "its one group must be all")
    if kind == "label" and not same_values(names, classes.tolist()):
        raise damaged(path, "its groups by label must be its classes")
    return tuple(names)


def check_mergeable(differences: list[str], overlap: bool) -> None:
    """Refuse to join calibrations that do not speak of the same scores, or that speak of the same rows."""
    if differences:
        raise ValueError(
            f"other must be a calibration of the same kind; it differs in {', '.join(differences)}. "
            "Calibrate every shard with the same settings and the same integer random_state."
        )
    if overlap:
        raise ValueError(
            "other must be a calibration of other rows; some of its rows are in this one already and would count "
            "twice. Merge every shard once; shards with the same content are told apart by ids=... in calibrate."
        )
