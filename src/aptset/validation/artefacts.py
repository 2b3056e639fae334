"""What an artefact on disk must say about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FACTS = {
    "format": int,
    "kind": str,
    "score": dict,
    "classes": dict,
    "groups": dict,
    "key": str,
    "randomized": bool,
    "allow_empty": bool,
    "n": int,
    "scores_hash": str,
    "library": str,
    "created": str,
}


def damaged(path: str | Path, why: str) -> ValueError:
    """Return the one error about a file that cannot be trusted."""
    return ValueError(f"{path} is no intact aptset artefact: {why}. Make it again with `aptset calibrate` or save().")


def check_artefact(path: str | Path, text: str | None, newest: int) -> dict[str, Any]:
    """Return the facts of an artefact's metadata."""
    if text is None:
        raise damaged(path, "it has no aptset metadata")
    try:
        facts = json.loads(text)
    except ValueError as error:
        raise damaged(path, "its metadata is not JSON") from error
    if not isinstance(facts, dict) or not isinstance(facts.get("format"), int):
        raise damaged(path, "its metadata has no format version")
    if facts["format"] > newest:
        raise ValueError(
            f"{path} has format {facts['format']}, written by aptset {facts.get('library', '?')}; this version reads "
            f"formats up to {newest}. Upgrade aptset."
        )
    wrong = [name for name, kind in _FACTS.items() if not isinstance(facts.get(name), kind)]
    if wrong or "columns" not in facts or facts["format"] < 1 or facts["kind"] != "split":
        raise damaged(path, f"its metadata is incomplete ({', '.join(wrong) or 'kind'})")
    return facts


def check_content(path: str | Path, facts: dict[str, Any], scores: NDArray[Any], offsets: NDArray[Any]) -> None:
    """Refuse content that no calibration has, even if its digest fits."""
    groups, classes, columns = facts["groups"], facts["classes"], facts["columns"]
    named = [part for part in (classes, columns) if part is not None]
    kinds = {"all", "label", "row"}
    holds = (
        groups.get("kind") in kinds
        and isinstance(groups.get("names"), list)
        and all(isinstance(part, dict) and isinstance(part.get("values"), list) and "objects" in part for part in named)
        and len(set(classes["values"])) == len(classes["values"]) >= 2
        and facts["key"].isdigit()
        and facts.get("u", "content") in ("content", "ids", "given")
        and isinstance(facts.get("normalize", False), bool)
        and isinstance(facts.get("copies", 0.0), float | int)
        and 0 <= facts.get("copies", 0.0) <= 1
        and isinstance(facts.get("parts", []), list)
        and all(isinstance(part, str) and part.isdecimal() and len(part) <= 20 for part in facts.get("parts", []))
        and scores.dtype == np.float64
        and offsets.dtype == np.int64
        and scores.ndim == offsets.ndim == 1
        and facts["n"] == len(scores) > 0
        and len(offsets) == len(groups["names"]) + 1
        and offsets[0] == 0
        and offsets[-1] == len(scores)
        and bool((np.diff(offsets) >= 0).all())
        and bool(np.isfinite(scores).all())
    )
    if not holds or any((np.diff(part) < 0).any() for part in np.split(scores, offsets[1:-1])):
        raise damaged(path, "its content is not that of a calibration")


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
