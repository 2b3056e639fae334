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

from aptset.calibration.stored_checks import LONGEST_TEXT, damaged, unknown_kind
from aptset.calibration.stored_fields import COUNTED, GRID, THRESHOLDS, shapes_of
from aptset.core.overlapping import are_addable

CROSS = "cross"  # the kind of calibration that has several folds
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
_OPTIONAL: dict[str, Any] = {"u": str, "copies": int | float, "normalize": bool, "parts": list, "weights": dict}
_OF_KIND: dict[str, dict[str, Any]] = {
    "split": {"first_rows": list},
    THRESHOLDS: {"first_rows": list, "levels": list},
    GRID: {"first_rows": list},
    CROSS: {"folds": dict, "scheme": dict},
}
_MOST_BRACKETS, _DEEPEST = 64, 8  # ours has 9 and goes 3 deep; a flood of brackets would take 20 times its size
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


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
    if isinstance(facts.get("kind"), str) and facts["kind"] not in _OF_KIND:
        raise unknown_kind(path, "kind of calibration", facts["kind"])
    _check_facts(path, facts)
    return facts


def _check_facts(path: str | Path, facts: dict[str, Any]) -> None:
    """Refuse facts that are missing, of another type, or unknown."""
    of_kind = _OF_KIND.get(facts["kind"], {}) if isinstance(facts.get("kind"), str) else {}
    needed = {**_FACTS, **(of_kind if facts.get("kind") in (CROSS, *COUNTED) else {})}
    wrong = [name for name, kind in needed.items() if name not in facts or not _is_a(facts[name], kind)]
    if wrong or facts["format"] < 1:
        raise damaged(path, f"its metadata is incomplete ({', '.join(wrong or ['format'])})")
    optional = {**_OPTIONAL, **of_kind}
    unknown = sorted(facts.keys() - needed.keys() - optional.keys())
    unknown += [name for name, kind in optional.items() if name in facts and not _is_a(facts[name], kind)]
    if unknown:  # what this version does not know may change what the scores mean
        raise damaged(path, f"its metadata says {unknown[0][:40]!r}, which this version does not understand")


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
    if facts["kind"] in COUNTED:
        if found != shapes_of(path, facts, found, len(names)) or "weights" in facts:
            raise damaged(path, f"its tensors must be those of {len(names)} groups, of the kind {facts['kind']}")
        return
    wanted, folds = {"scores": ("F64", [facts["n"]]), "offsets": ("I64", [len(names) + 1])}, ""
    if facts["kind"] == CROSS:
        of_models = facts["folds"].get("values")
        n_models = len(of_models) if isinstance(of_models, list) else 0
        judged = found.get("judges", ("", [n_models]))[1][:1]  # as many folds as it likes, where models judge together
        wanted["offsets"], folds = ("I64", [*judged, len(names) + 1]), f" for each of {sum(judged)} folds"
        if "judges" in found:
            wanted["judges"] = ("BOOL", [*judged, n_models])
    if "weights" in facts:
        wanted["weights"] = ("F64", [facts["n"]])
    if found != wanted or not 0 < facts["n"] < 2**31:
        raise damaged(path, f"it must hold {facts['n']} scores and {len(names) + 1} offsets{folds}")


def check_scheme_of_folds(path: str | Path, name: str, judges_together: bool, has_judges: bool) -> None:
    """Refuse a scheme that never makes such folds."""
    if name == "split" or judges_together != has_judges:
        raise damaged(path, f"its folds must be those of its scheme, {name}")


def check_content(path: str | Path, facts: dict[str, Any], scores: NDArray[Any], offsets: NDArray[Any]) -> None:
    """Refuse content that no calibration has, even if its digest fits; ``offsets`` is (folds, groups + 1)."""
    _check_offsets(path, len(scores), offsets)
    starts = (np.cumsum(offsets[:, -1]) - offsets[:, -1])[:, None] + offsets
    falls = scores[1:] < scores[:-1]
    falls[starts[(starts > 0) & (starts < len(scores))] - 1] = False  # a group may begin below the end of the last one
    rules: dict[str, Callable[[], bool]] = {
        "its scores must be finite": lambda: bool(np.isfinite(scores).all()),
        "its overlapping scores must be small enough to be added": lambda: (
            facts["groups"].get("kind") != "overlap" or are_addable(scores)
        ),
        "its scores must be sorted within each group": lambda: not falls.any(),
        "its scores_hash must be that of its scores": lambda: facts["scores_hash"] == _hash_in_order(scores),
    }
    _check_rules(path, rules)


def check_facts(path: str | Path, facts: dict[str, Any]) -> None:
    """Refuse facts that no calibration has, of whatever kind it is."""
    source, copies, parts = facts.get("u", "content"), facts.get("copies", 0), facts.get("parts", [])
    rules: dict[str, Callable[[], bool]] = {
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
    _check_rules(path, rules)


def _check_rules(path: str | Path, rules: dict[str, Callable[[], bool]]) -> None:
    for rule, holds in rules.items():
        if not holds():
            raise damaged(path, rule)


def _check_offsets(path: str | Path, n: int, offsets: NDArray[Any]) -> None:
    """Refuse folds that do not share the scores out, or are empty where there are several."""
    # Comparisons, not differences, and no sum before each is small: those of offsets near 2^63 wrap around.
    rise = bool((offsets[:, 0] == 0).all() and (offsets[:, 1:] >= offsets[:, :-1]).all())
    if not rise or not bool((offsets[:, -1] <= n).all()) or int(offsets[:, -1].sum()) != n:
        raise damaged(path, "its offsets must rise from 0 to n")
    if not (offsets[:, -1] > 0).all():
        raise damaged(path, "each of its folds must hold a score")


def _is_word(text: Any) -> bool:
    """Tell whether a text is a whole number of 64 bits, written in the one way."""
    return isinstance(text, str) and re.fullmatch("0|[1-9][0-9]{0,19}", text) is not None and int(text) < 2**64


def hash_of(scores: NDArray[np.float64]) -> str:
    """Return the hash of sorted scores, which people compare."""
    return blake2b(scores.data, digest_size=16).hexdigest()


def _hash_in_order(scores: NDArray[np.float64]) -> str:
    return hash_of(np.sort(scores, kind="stable"))  # which merges those of groups and folds: they are sorted already


def _is_time(text: str) -> bool:
    try:
        return len(text) < 64 and text.isprintable() and bool(datetime.fromisoformat(text))
    except ValueError:
        return False
