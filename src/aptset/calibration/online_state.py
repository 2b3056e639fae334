"""The state of a stream, and how it stands in a container of :mod:`aptset.core.store`: small, exact, and checked."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.adaptive_level import MOST, AdaptiveLevel, LevelSettings, Past, ThresholdHistory
from aptset.calibration.calibration import Calibration
from aptset.core import store
from aptset.core.validate import warn_caller
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words, seeds_of
from aptset.kernels.rows import BLOCK_ROWS, PREDICTION, own_seeds


class Asked(NamedTuple):
    """A row that was asked about: what it is known by, the seed of its chance, and the moment."""

    key: int
    seed: int
    moment: int


class WaitingRow(NamedTuple):
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


class WaitingRows:
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

    def find(self, keys: Words) -> dict[int, WaitingRow]:
        """Return what waits for each of these rows, by their places here; of equal ones the oldest first."""
        self._look_into_calls()
        if not self._rows:
            return {}
        counts: dict[int, int] = {}
        rows = {}
        for row, key in enumerate(keys.tolist()):
            numbers, which = self._numbers(key), counts.get(key, 0)
            if which < len(numbers):
                counts[key] = which + 1
                rows[row] = WaitingRow(numbers[which], self._rows[numbers[which]])
        return rows

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
        number = self._of_key.get(key)
        return () if number is None else (number,) if isinstance(number, int) else number

    def _forget_oldest(self) -> None:
        self._look_into_calls()
        too_many = len(self._rows) - self.most
        if too_many > 0:
            self.drop([number for number, _ in zip(self._rows, range(too_many), strict=False)])
            if not self._has_forgotten:
                warn_caller(
                    f"more than {self.most:,} sets wait for their labels, and the oldest are dropped: labels that "
                    "still come for them are judged at the level of that moment. Pass waiting=... to keep more."
                )
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
    seeds = (seeds_of(np.arange(len(scores), dtype=np.uint64), calibration.key) for scores in of_groups)
    orders = (np.argsort(of_group, kind="stable")[-window:] for of_group in seeds)
    return [scores[order] for scores, order in zip(of_groups, orders, strict=True)]


class State(NamedTuple):
    """All that a stream knows besides its calibration."""

    settings: LevelSettings
    levels: list[AdaptiveLevel]
    numbering: Numbering
    waiting: WaitingRows
    history: ThresholdHistory


def write_state(path: str | Path, calibration: Calibration, state: State) -> None:
    """Write a state, whole or not at all."""
    settings, waiting_rows, history, last = (
        state.settings,
        state.waiting.everything(),
        state.history,
        state.waiting.last,
    )
    history.forget(row.moment for row in waiting_rows)
    recent: list[Any] = [[] if settings.window is None else adaptive.recent for adaptive in state.levels]
    keys, seeds, moments = zip(*waiting_rows, strict=True) if waiting_rows else ((), (), ())
    from_moments, thresholds, rows = zip(*(at for past in history.past for at in past), strict=True)
    facts = {
        "calibration": _digest(calibration),
        "alpha": str(settings.alpha),
        "step": str(settings.step),
        "window": settings.window,
        "waiting": state.waiting.most,
        "block": state.numbering.block,
        "moment": history.moment,
        "last": None if last is None or last.moment != history.moment else [last.digest, last.form],
    }
    tensors = {
        "tracks": np.array(
            [[adaptive.rows, adaptive.misses, adaptive.delay] for adaptive in state.levels], dtype=np.int64
        ),
        "recent": np.array([score for scores in recent for score in scores], dtype=np.float64),
        "recent_counts": np.array([len(scores) for scores in recent], dtype=np.int64),
        "seen": state.numbering.seen,
        "past_moments": np.array(from_moments, dtype=np.int64),
        "past_thresholds": np.array(thresholds, dtype=np.float64),
        "past_rows": np.array(rows, dtype=np.int64),
        "past_counts": np.array([len(past) for past in history.past], dtype=np.int64),
        "asked_keys": np.array(keys, dtype=np.uint64),
        "asked_seeds": np.array(seeds, dtype=np.uint64),
        "asked_moments": np.array(moments, dtype=np.int64),
    }
    store.write(path, "online", facts, tensors)


def _is_last(stored: list[Any]) -> bool:
    return len(stored) == 2 and isinstance(stored[0], str) and stored[1] in ("set", "mask", "both")


def _rise(values: NDArray[Any], counts: NDArray[Any], strictly: bool) -> bool:
    """Tell whether numbers rise within each group; comparisons do not wrap around, as differences do."""
    is_inside = np.ones(max(len(values) - 1, 0), dtype=np.bool_)
    is_inside[np.cumsum(counts)[:-1] - 1] = False
    up = values[1:] > values[:-1] if strictly else values[1:] >= values[:-1]
    return bool(up[is_inside].all())


def _rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    """Return the relations that hold in every stream, whatever its calibration."""
    levels, window = tensors["tracks"], facts["window"]
    recent, of_recent = tensors["recent"], tensors["recent_counts"]
    moments, rows, of_past = tensors["past_moments"], tensors["past_rows"], tensors["past_counts"]
    asked_moments = tensors["asked_moments"]
    return {
        "its rows, misses and delays must be counts, and no more than its rows": lambda: (
            ((levels >= 0) & (levels < MOST)).all() and (levels[:, 1:] <= levels[:, :1]).all()
        ),
        "its recent scores must be numbers, of each group no more than its window": lambda: (
            store.share_out(of_recent, len(recent), 0)
            and (of_recent <= (window or 0)).all()
            and not np.isnan(recent).any()
        ),
        "its rows of the block must be fewer than a block has": lambda: len(tensors["seen"]) < BLOCK_ROWS,
        "its past must have a moment of each group": lambda: store.share_out(of_past, len(moments), 1),
        "its past must be in order": lambda: _rise(moments, of_past, True) and _rise(rows, of_past, False),
        "its past must be counts up to now": lambda: (
            (moments >= 0).all() and (moments <= facts["moment"]).all() and (rows >= 0).all()
        ),
        "its past thresholds must be numbers": lambda: not np.isnan(tensors["past_thresholds"]).any(),
        "its rows that wait must be no more than wait, in order": lambda: (
            len(asked_moments) <= facts["waiting"] and (asked_moments[1:] >= asked_moments[:-1]).all()
        ),
        "its rows that wait must have come at moments that it knows": lambda: (
            not len(asked_moments)
            or (
                moments[np.cumsum(of_past) - of_past].max() <= asked_moments[0] and asked_moments[-1] <= facts["moment"]
            )
        ),
    }


_STORE = store.Store(
    {
        "online": store.Schema(
            {
                "calibration": store.Field(str),
                "alpha": store.ALPHA,
                "step": store.Field(
                    str, "its step must be from 0 to 2^53", lambda text: 0 <= store.stored_fraction(text) < MOST
                ),
                "window": store.Field(
                    int | None, "its window must be a count", lambda window: window is None or 0 < window < MOST
                ),
                "waiting": store.count("waiting", 1),
                "block": store.count("block"),
                "moment": store.count("moment"),
                "last": store.Field(list | None, "its last question must be a digest and a form", _is_last),
            },
            {
                "tracks": store.Tensor("I64", ("groups", "counts")),
                "recent": store.Tensor("F64", ("recent scores",)),
                "recent_counts": store.Tensor("I64", ("groups",)),
                "seen": store.Tensor("U64", ("rows of the block",)),
                "past_moments": store.Tensor("I64", ("moments",)),
                "past_thresholds": store.Tensor("F64", ("moments",)),
                "past_rows": store.Tensor("I64", ("moments",)),
                "past_counts": store.Tensor("I64", ("groups",)),
                "asked_keys": store.Tensor("U64", ("rows that wait",)),
                "asked_seeds": store.Tensor("U64", ("rows that wait",)),
                "asked_moments": store.Tensor("I64", ("rows that wait",)),
            },
            lambda facts, names: {"counts": 3},
            _rules,
        )
    },
    "kind of state",
    "Start a new stream.",
)


def read_state(path: str | Path, calibration: Calibration) -> State:
    """Read a state; what no stream would have written, or one of another calibration, is refused."""
    facts, tensors = _STORE.read(path)
    if facts["calibration"] != _digest(calibration):
        raise ValueError(
            f"{path} must be the state of a stream that began with this calibration; it began with another one. Load "
            "the calibration that was passed to Online."
        )
    settings = LevelSettings(
        store.stored_fraction(facts["alpha"]), store.stored_fraction(facts["step"]), facts["window"]
    )
    fixed, counts = first_scores(calibration, None), tensors["tracks"].tolist()
    store.require(
        path, {"its groups must be those of its calibration": lambda: len(fixed) == len(counts)}, _STORE.remedy
    )
    recent = fixed if settings.window is None else np.split(tensors["recent"], np.cumsum(tensors["recent_counts"])[:-1])
    levels = [
        AdaptiveLevel(settings, scores.tolist(), *of_group) for scores, of_group in zip(recent, counts, strict=True)
    ]
    history, waiting = ThresholdHistory(levels, facts["moment"]), WaitingRows(facts["waiting"])
    columns = [tensors[f"past_{name}"].tolist() for name in ("moments", "thresholds", "rows")]
    entries = iter(map(Past, *columns))
    history.past = [[*islice(entries, n)] for n in tensors["past_counts"].tolist()]
    now = [Past(history.past[at][-1].moment, adaptive.threshold, adaptive.rows) for at, adaptive in enumerate(levels)]
    is_now = [past[-1] for past in history.past] == now
    store.require(path, {"its past must end with what is in force": lambda: is_now}, _STORE.remedy)
    keys, seeds, moments = (tensors[f"asked_{name}"] for name in ("keys", "seeds", "moments"))
    starts = [0, *(np.flatnonzero(moments[1:] != moments[:-1]) + 1).tolist(), len(moments)]
    for start, stop in pairwise(starts if len(moments) else []):
        waiting.add(keys[start:stop], seeds[start:stop], int(moments[start]))
    waiting.last = None if facts["last"] is None else Last(facts["moment"], *facts["last"])
    return State(settings, levels, Numbering(facts["block"], tensors["seen"]), waiting, history)


def _digest(calibration: Calibration) -> str:
    """Return what tells one calibration from another: its scores, its key, its groups and its labels."""
    (fold,) = calibration.held_out.folds
    settings = (calibration.key, calibration.classes.tolist(), calibration.held_out.groups)
    content = blake2b(repr(settings).encode("utf-8", "surrogatepass"), digest_size=16)
    content.update(np.ascontiguousarray(fold.scores, dtype="<f8").tobytes())
    content.update(np.ascontiguousarray(fold.offsets, dtype="<i8").tobytes())
    return content.hexdigest()
