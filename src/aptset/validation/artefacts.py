"""What an artefact on disk must say about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
}


def damaged(path: str | Path, why: str) -> ValueError:
    """Return the one error about a file that cannot be trusted."""
    return ValueError(f"{path} is no intact aptset artefact: {why}. Make it again with `aptset calibrate` or save().")


def check_artefact(path: str | Path, text: str | None, newest: int, scores: list[str]) -> dict[str, Any]:
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
    if wrong or facts["score"].get("name") not in scores or facts["kind"] != "split":
        raise damaged(path, f"its metadata is incomplete ({', '.join(wrong) or 'score or kind'})")
    return facts


def check_mergeable(differences: list[str]) -> None:
    """Refuse to join calibrations that do not speak of the same scores."""
    if differences:
        raise ValueError(
            f"other must be a calibration of the same kind; it differs in {', '.join(differences)}. "
            "Calibrate every shard with the same settings and the same integer random_state."
        )
