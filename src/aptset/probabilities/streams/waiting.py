"""Sets that were given and whose labels are still to come: each is judged as it was given, whenever that was."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from aptset.kernels.rowhash import Words
from aptset.probabilities.streams.checks import warn_of_forgotten_rows


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
