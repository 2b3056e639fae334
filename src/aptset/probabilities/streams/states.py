"""The state of a stream in a file: small, exact, and checked when it is read, since anybody may have written it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.data.setting_checks import stored_fraction
from aptset.kernels.copies import BLOCK_ROWS
from aptset.probabilities.calibration import Calibration
from aptset.probabilities.streams.beginnings import first_scores
from aptset.probabilities.streams.checks import MOST
from aptset.probabilities.streams.numbering import Numbering
from aptset.probabilities.streams.tracks import Law, Shown, Track
from aptset.probabilities.streams.waiting import Waiting
from aptset.running.writing import atomic_write


class State(NamedTuple):
    """All that a stream knows besides its calibration."""

    law: Law
    tracks: list[Track]
    numbering: Numbering
    waiting: Waiting
    shown: Shown


def write_state(path: str | Path, calibration: Calibration, state: State) -> None:
    """Write a state, whole or not at all."""
    law, asked = state.law, state.waiting.everything()
    moments = list({id(row.shown): row.shown for row in asked}.values())
    number_of = {id(shown): number for number, shown in enumerate(moments)}
    content = {
        "aptset": "online",
        "format": 1,
        "calibration": _digest(calibration),
        "alpha": str(law.alpha),
        "step": str(law.step),
        "window": law.window,
        "waiting": state.waiting.most,
        "tracks": [
            [track.rows, track.misses, track.delay, None if law.window is None else _packed(list(track.recent), "<f8")]
            for track in state.tracks
        ],
        "block": state.numbering.block,
        "seen": _packed(state.numbering.seen, "<u8"),
        "moments": [[_packed(shown.thresholds, "<f8"), _packed(shown.rows, "<i8")] for shown in moments],
        "is_last_now": bool(moments) and moments[-1] is state.shown,
        "asked": {
            "keys": _packed([row.key for row in asked], "<u8"),
            "seeds": _packed([row.seed for row in asked], "<u8"),
            "moments": _packed([number_of[id(row.shown)] for row in asked], "<i8"),
        },
    }
    with atomic_write(Path(path)) as file:
        file.write(json.dumps(content).encode())


def read_state(path: str | Path, calibration: Calibration) -> State:
    """Read a state; what no stream would have written, or one of another calibration, is refused."""
    found = _opened(path)
    if found.get("calibration") != _digest(calibration):
        raise ValueError(
            f"{path} must be the state of a stream that began with this calibration; it began with another one. Load "
            "the calibration that was passed to Online."
        )
    try:
        return _state_of(found, calibration)
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: no stream has such a state. Start a new one.") from error


def _opened(path: str | Path) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_bytes())
        is_state = found["aptset"] == "online"
    except (ValueError, TypeError, KeyError, RecursionError):
        is_state = False
    if not is_state:
        raise ValueError(f"{path} is not the state of a stream, or it is damaged. Start a new one.")
    if found.get("format") != 1:
        raise ValueError(f"{path} has format {found.get('format')!r}, and this version reads format 1. Update aptset.")
    opened: dict[str, Any] = found
    return opened


def _state_of(found: dict[str, Any], calibration: Calibration) -> State:
    law = Law(stored_fraction(found["alpha"]), stored_fraction(found["step"]), found["window"])
    _require(0 < law.alpha < 1 and 0 <= law.step < MOST and (law.window is None or _is_count(law.window, 1)))
    fixed = first_scores(calibration, None)
    _require(len(found["tracks"]) == len(fixed) and _is_count(found["waiting"], 1) and _is_count(found["block"]))
    tracks = [_track_of(law, stored, scores) for stored, scores in zip(found["tracks"], fixed, strict=True)]
    seen = _unpacked(found["seen"], "<u8")
    _require(len(seen) < BLOCK_ROWS)
    waiting, moments = Waiting(found["waiting"]), [_moment_of(stored, tracks) for stored in found["moments"]]
    keys, seeds, numbers = (
        _unpacked(found["asked"][name], kind) for name, kind in (("keys", "<u8"), ("seeds", "<u8"), ("moments", "<i8"))
    )
    _require(len(keys) == len(seeds) == len(numbers) <= waiting.most and bool((np.diff(numbers) >= 0).all()))
    _require(len(moments) == 0 if not len(numbers) else bool(numbers[0] == 0 and numbers[-1] == len(moments) - 1))
    starts = np.searchsorted(numbers, np.arange(len(moments) + 1)).tolist()
    for shown, (start, stop) in zip(moments, pairwise(starts), strict=True):
        waiting.add(keys[start:stop], seeds[start:stop], shown)
    now = Shown.of_all(tracks)
    shown = moments[-1] if found["is_last_now"] is True else now
    _require(np.array_equal(shown.thresholds, now.thresholds) and np.array_equal(shown.rows, now.rows))
    return State(law, tracks, Numbering(found["block"], seen), waiting, shown)


def _track_of(law: Law, stored: Any, fixed: NDArray[np.float64]) -> Track:
    rows, misses, delay, scores = stored
    _require(all(_is_count(number) for number in (rows, misses, delay)) and misses <= rows and delay <= rows)
    recent = fixed if law.window is None else _unpacked(scores, "<f8")
    _require(law.window is None or len(recent) <= law.window)
    _require(not np.isnan(recent).any())
    return Track(law, recent.tolist(), rows, misses, delay)


def _moment_of(stored: Any, tracks: list[Track]) -> Shown:
    thresholds, rows = _unpacked(stored[0], "<f8"), _unpacked(stored[1], "<i8")
    known = np.array([track.rows for track in tracks])
    _require(len(thresholds) == len(rows) == len(tracks) and not np.isnan(thresholds).any())
    _require(bool(((rows >= 0) & (rows <= known)).all()))
    return Shown(thresholds, rows)


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError("no stream has such a state")


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < MOST


def _packed(values: Any, kind: str) -> str:
    return b64encode(np.asarray(values, dtype=kind).tobytes()).decode()


def _unpacked(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(b64decode(text, validate=True), dtype=kind).astype(np.dtype(kind).newbyteorder("="))


def _digest(calibration: Calibration) -> str:
    """Return what tells one calibration from another: its scores, its key, its groups and its labels."""
    (fold,) = calibration.held_out.folds
    settings = (calibration.key, calibration.classes.tolist(), calibration.held_out.groups)
    told = blake2b(repr(settings).encode("utf-8", "surrogatepass"), digest_size=16)
    told.update(np.ascontiguousarray(fold.scores, dtype="<f8").tobytes())
    told.update(np.ascontiguousarray(fold.offsets, dtype="<i8").tobytes())
    return told.hexdigest()
