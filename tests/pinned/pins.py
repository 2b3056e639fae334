"""The digests on disk, and those of this tree."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from pinned import faces, levels, probabilities
from pinned.digest import digest_of

PINS = Path(__file__).with_name("pins.json")
ROOMS = {"probabilities": probabilities.answers, "faces": faces.answers, "levels": levels.answers}


def computed(room: str | None = None) -> dict[str, str]:
    """Return the digest of every answer (of one room)."""
    digests = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether a warning comes is held elsewhere
        for name, answers in ROOMS.items():
            if room in (None, name):
                digests |= {case: digest_of(answer()) for case, answer in answers()}
    return digests


def written(digests: dict[str, str]) -> str:
    return json.dumps(dict(sorted(digests.items())), indent=0) + "\n"


def differing(digests: dict[str, str]) -> list[str]:
    """Return the names of answers that are not as they were pinned."""
    pinned = json.loads(PINS.read_text(encoding="utf-8"))
    return sorted(name for name, digest in digests.items() if pinned.get(name) != digest)
