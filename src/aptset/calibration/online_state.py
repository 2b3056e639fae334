"""The state of a stream in a file: small, exact, and checked when it is read, since anybody may have written it."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.adaptive_level import MOST, Law, Past, Shown, Track, warn_of_forgotten_rows
from aptset.calibration.calibration import Calibration
from aptset.core.files import atomic_write
from aptset.core.validate import stored_fraction
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words, seeds_of
from aptset.kernels.rows import BLOCK_ROWS, PREDICTION, own_seeds


class Asked(NamedTuple):
    """A row that was asked about: what it is known by, the seed of its chance, and the moment."""

    key: int
    seed: int
    moment: int


class Found(NamedTuple):
    """A row that waits, and its number in the queue."""

    number: int
    asked: Asked


class _Call(NamedTuple):
    keys: Words
    seeds: Words
    moment: int
    by_id: bool


class Last(NamedTuple):
    """The last question: its moment, a digest of its rows, and whether their set, their mask or both were asked for."""

    moment: int
    digest: str
    form: str


class Waiting:
    """Rows that were asked about, in their order; no more than ``most``, the oldest go first.

    Calls are kept as they came, until labels come for other rows than the first of the oldest call: only then rows
    are looked up one by one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._calls: deque[_Call] = deque()
        self._in_calls = 0
        self.last: Last | None = None
        self._some_by_id = False
        self._rows: OrderedDict[int, Asked] = OrderedDict()
        self._of_key: dict[int, int | deque[int]] = {}  # one number, or those of equal rows: a queue takes more room
        self._next = 0
        self._has_forgotten = False

    def __len__(self) -> int:
        if self._some_by_id and (self._rows or len(self._calls) > 1):
            self._look_into_calls()  # a row that was asked about again waits once
        return self._in_calls + len(self._rows)

    def add(self, keys: Words, seeds: Words, moment: int, by_id: bool = False, form: str = "") -> None:
        """Remember the rows of a call.

        Rows whose set and whose mask are asked for, one call after the other, are asked about once. A row that an id
        names and that is asked about again is judged by what it was told last.
        """
        last, digest = self.last, blake2b(seeds.tobytes(), digest_size=16).hexdigest()
        self.last = Last(moment, digest, form)
        if last is not None and last[:2] == (moment, digest) and {last.form, form} == {"set", "mask"}:
            self.last = last._replace(form="both")
            return
        self._calls.append(_Call(keys, seeds, moment, by_id))
        self._in_calls += len(keys)
        self._some_by_id |= by_id
        if self._in_calls + len(self._rows) > self.most:
            self._forget_oldest()

    def is_next(self, keys: Words) -> bool:
        """Tell whether these are the first rows of the oldest call, and no others have to be looked at."""
        if self._rows or not self._calls or (self._some_by_id and len(self._calls) > 1):
            return False
        return len(keys) > 0 and np.array_equal(self._calls[0].keys[: len(keys)], keys)

    def next_rows(self, n_rows: int) -> tuple[Words, int]:
        """Return the seeds of the first rows of the oldest call, and its moment."""
        return self._calls[0].seeds[:n_rows], self._calls[0].moment

    @property
    def n_at_most(self) -> int:
        """Rows that wait, those that were asked about again by their id counted again."""
        return self._in_calls + len(self._rows)

    def moments(self) -> set[int]:
        """Return the moments of all rows that wait."""
        return {call.moment for call in self._calls} | {row.moment for row in self._rows.values()}

    def drop_next(self, n_rows: int) -> None:
        """Forget the first rows of the oldest call: their labels have come."""
        call = self._calls.popleft()
        self._in_calls -= n_rows
        if n_rows < len(call.keys):
            self._calls.appendleft(call._replace(keys=call.keys[n_rows:], seeds=call.seeds[n_rows:]))

    def find(self, keys: Words) -> dict[int, Found]:
        """Return what waits for each of these rows, by their places here; of equal ones the oldest first."""
        self._look_into_calls()
        if not self._rows:
            return {}
        met: dict[int, int] = {}
        found = {}
        for row, key in enumerate(keys.tolist()):
            numbers, which = self._numbers(key), met.get(key, 0)
            if which < len(numbers):
                met[key] = which + 1
                found[row] = Found(numbers[which], self._rows[numbers[which]])
        return found

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget rows whose labels have come."""
        for number in numbers:
            key = self._rows.pop(number).key
            waiting = self._of_key[key]
            if isinstance(waiting, deque) and len(waiting) > 1:
                waiting.remove(number)
            else:
                del self._of_key[key]

    def everything(self) -> Sequence[Asked]:
        """Return all rows that wait, in their order."""
        self._look_into_calls()
        return list(self._rows.values())

    def _look_into_calls(self) -> None:
        """Make rows of calls."""
        while self._calls:
            keys, seeds, moment, by_id = self._calls.popleft()
            for key, seed in zip(keys.tolist(), seeds.tolist(), strict=True):
                if by_id:
                    self.drop([*self._numbers(key)])
                equal = self._numbers(key)
                self._rows[self._next] = Asked(key, seed, moment)
                if isinstance(equal, deque):
                    equal.append(self._next)
                else:
                    self._of_key[key] = deque([*equal, self._next]) if equal else self._next
                self._next += 1
        self._in_calls, self._some_by_id = 0, False

    def _numbers(self, key: int) -> Sequence[int]:
        """Return the numbers of the rows that are known by this, the oldest first."""
        found = self._of_key.get(key)
        return () if found is None else (found,) if isinstance(found, int) else found

    def _forget_oldest(self) -> None:
        self._look_into_calls()
        too_many = len(self._rows) - self.most
        if too_many > 0:
            self.drop([number for number, _ in zip(self._rows, range(too_many), strict=False)])
            if not self._has_forgotten:
                warn_of_forgotten_rows(self.most)
            self._has_forgotten = True


class Numbering:
    """The number of the block that the rows of a side have reached, and the contents that came in it so far."""

    def __init__(self, block: int = 0, seen: Words | None = None, side: int = PREDICTION) -> None:
        self.block, self.side = block, side
        self.seen: Words = np.empty(0, dtype=np.uint64) if seen is None else seen

    def own_seeds(self, keys: Words) -> Words:
        """Return the seeds of rows that come next, where copies have their own."""
        if len(keys) == 1 and not (self.seen == keys[0]).any():
            return keys
        joined = np.concatenate([self.seen, keys])
        return own_seeds(joined, self.side, self.block * BLOCK_ROWS)[len(self.seen) :]

    def next_seeds(self, keys: Words) -> Words:
        """Return the seeds of rows that come next, and count them."""
        seeds = self.own_seeds(keys)
        self.go_on(keys)
        return seeds

    def go_on(self, keys: Words) -> None:
        """Count rows: in a stream, those whose labels are known."""
        joined = np.concatenate([self.seen, keys])
        n_blocks = len(joined) // BLOCK_ROWS
        self.block, self.seen = self.block + n_blocks, joined[n_blocks * BLOCK_ROWS :]


def first_scores(calibration: Calibration, window: int | None) -> list[Floats]:
    """Return the scores of each group, in an order that the key decides; of more than a window the last ones."""
    (fold,) = calibration.held_out.folds
    of_groups = [fold.scores[start:stop] for start, stop in pairwise(fold.offsets.tolist())]
    if window is None:
        return of_groups
    return [scores[_shuffled(len(scores), calibration.key)][-window:] for scores in of_groups]


def _shuffled(n: int, key: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.argsort(seeds_of(np.arange(n, dtype=np.uint64), key), kind="stable")


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
