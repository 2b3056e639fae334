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
from aptset.probabilities.streams.tracks import Law, Past, Shown, Track
from aptset.probabilities.streams.waiting import Last, Waiting
from aptset.running.writing import atomic_write

_PAST = ("<i8", "<f8", "<i8")  # moments, thresholds and rows of a group


class State(NamedTuple):
    """All that a stream knows besides its calibration."""

    law: Law
    tracks: list[Track]
    numbering: Numbering
    waiting: Waiting
    shown: Shown


def write_state(path: str | Path, calibration: Calibration, state: State) -> None:
    """Write a state, whole or not at all."""
    law, asked, shown, last = state.law, state.waiting.everything(), state.shown, state.waiting.last
    shown.forget(row.moment for row in asked)
    content = {
        "aptset": "online",
        "format": 2,
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
        "moment": shown.moment,
        "past": [_packed_past(past) for past in shown.past],
        "last": None if last is None or last.moment != shown.moment else [last.digest, last.form],
        "asked": {
            "keys": _packed([row.key for row in asked], "<u8"),
            "seeds": _packed([row.seed for row in asked], "<u8"),
            "moments": _packed([row.moment for row in asked], "<i8"),
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
    if found.get("format") not in (1, 2):
        raise ValueError(f"{path} has format {found.get('format')!r}, and this version reads format 2. Update aptset.")
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
    if found["format"] == 1:
        _modernise(found, tracks)
    shown, waiting = _shown_of(found, tracks), Waiting(found["waiting"])
    keys, seeds, moments = (
        _unpacked(found["asked"][name], kind) for name, kind in (("keys", "<u8"), ("seeds", "<u8"), ("moments", "<i8"))
    )
    _require(len(keys) == len(seeds) == len(moments) <= waiting.most and bool((np.diff(moments) >= 0).all()))
    begun = max(past[0].moment for past in shown.past)
    _require(not len(moments) or bool(begun <= moments[0] and moments[-1] <= shown.moment))
    starts = [0, *(np.flatnonzero(np.diff(moments)) + 1).tolist(), len(moments)]
    for start, stop in pairwise(starts if len(moments) else []):
        waiting.add(keys[start:stop], seeds[start:stop], int(moments[start]))
    waiting.last = _last_of(found["last"], shown.moment)
    return State(law, tracks, Numbering(found["block"], seen), waiting, shown)


def _modernise(found: dict[str, Any], tracks: list[Track]) -> None:
    """Bring a state of format 1, which held every group for every moment, into today's form."""
    moments = [(_unpacked(thresholds, "<f8"), _unpacked(rows, "<i8")) for thresholds, rows in found["moments"]]
    _require(all(len(thresholds) == len(rows) == len(tracks) for thresholds, rows in moments))
    if found["is_last_now"] is not True:
        moments.append((np.array([track.threshold for track in tracks]), np.array([track.rows for track in tracks])))
    found |= {"moment": len(moments) - 1, "last": None, "past": []}
    for number in range(len(tracks)):
        past = [Past(moment, at[0][number], at[1][number]) for moment, at in enumerate(moments)]
        found["past"].append(_packed_past(past))


def _shown_of(found: dict[str, Any], tracks: list[Track]) -> Shown:
    """Return what is and was in force: moments go up, as known labels do, and the last of each group is now."""
    _require(_is_count(found["moment"]) and len(found["past"]) == len(tracks))
    shown = Shown(tracks, found["moment"])
    for number, (stored, track) in enumerate(zip(found["past"], tracks, strict=True)):
        moments, thresholds, rows = (_unpacked(text, kind) for text, kind in zip(stored, _PAST, strict=True))
        _require(0 < len(moments) == len(thresholds) == len(rows) and not np.isnan(thresholds).any())
        _require(bool((np.diff(moments) > 0).all() and (np.diff(rows) >= 0).all()))
        _require(bool(moments[0] >= 0 and moments[-1] <= shown.moment and rows[0] >= 0))
        _require(bool(thresholds[-1] == track.threshold and rows[-1] == track.rows))
        listed = (values.tolist() for values in (moments, thresholds, rows))
        shown.past[number] = [Past(*at) for at in zip(*listed, strict=True)]
    return shown


def _last_of(stored: Any, moment: int) -> Last | None:
    if stored is None:
        return None
    digest, form = stored
    _require(type(digest) is str and form in ("set", "mask", "both"))
    return Last(moment, digest, form)


def _track_of(law: Law, stored: Any, fixed: NDArray[np.float64]) -> Track:
    rows, misses, delay, scores = stored
    _require(all(_is_count(number) for number in (rows, misses, delay)) and misses <= rows and delay <= rows)
    recent = fixed if law.window is None else _unpacked(scores, "<f8")
    _require(law.window is None or len(recent) <= law.window)
    _require(not np.isnan(recent).any())
    return Track(law, recent.tolist(), rows, misses, delay)


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError("no stream has such a state")


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and least <= value < MOST


def _packed(values: Any, kind: str) -> str:
    return b64encode(np.asarray(values, dtype=kind).tobytes()).decode()


def _packed_past(past: list[Past]) -> list[str]:
    return [_packed(values, kind) for values, kind in zip(zip(*past, strict=True), _PAST, strict=True)]


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
