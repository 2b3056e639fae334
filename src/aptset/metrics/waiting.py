"""Rows whose turn has not come: a row is judged once all that were predicted before it are known, or given up.

A label that is judged when it becomes known makes a choice of rows that depends on the outcome, where wrong guesses are
labelled sooner (or later) than right ones. In the order of prediction it makes none, however labels come.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

import numpy as np

from aptset.core.dates import DAY_FIRST, MONTH_FIRST, read_times
from aptset.core.store import Facts, Tensors
from aptset.core.tables import plain_list
from aptset.kernels.rowhash import seeds_of

Key = int | tuple[float, int]  # the number of a prediction; or its time, and what puts those of one time in order
MOST = 2**53  # rows: beyond this, counts are no exact numbers
COVERED, MISSED, UNKNOWN = 0, 1, 2  # what became of a row
_AT_ONCE = 65_536  # rows
_FARTHEST = 10**7  # predictions ahead of the next one: a number beyond that is an id or a time


def check_mature(mature: Any) -> int | timedelta | None:
    """Return how old a prediction may become without a label: so many predictions later, or so much time."""
    if isinstance(mature, np.timedelta64) and not np.isnat(mature):
        mature = mature.astype("timedelta64[us]").item()
    is_number = isinstance(mature, int | np.integer) and not isinstance(mature, bool | np.bool_)
    if mature is None or (isinstance(mature, timedelta) and mature >= timedelta(0)):
        return mature
    if is_number and 0 <= mature < MOST:
        return int(mature)
    raise ValueError(
        "mature must be a whole number of predictions from 0 on, a time such as datetime.timedelta(days=30), "
        f"or None: how long a missing label is waited for; got {mature!r}."
    )


def mature_of(facts: Facts) -> int | timedelta | None:
    """Return how long a stored monitor waits: a number of predictions, or microseconds."""
    mature: int | None = facts["mature"]
    return mature if not facts["in_time"] or mature is None else timedelta(microseconds=mature)


def check_one_order(
    mature: int | timedelta | None, goes_by: str | None, has_order: bool, has_time: bool, n_rows: int
) -> None:
    """Refuse rows whose place among the predictions, or whose age, is not known."""
    is_in_time = isinstance(mature, timedelta)
    if has_time and not is_in_time:
        raise ValueError(
            f"time must be left out: this monitor does not wait for a length of time (mature={mature!r}). "
            "Make it with mature=datetime.timedelta(days=30), for instance, or pass the number of each "
            "prediction as order."
        )
    if is_in_time and n_rows and not has_time:
        raise ValueError(
            f"time must be passed: this monitor waits for {mature}. Pass when each prediction was made (and its number "
            "as order, if you know it)."
        )
    if n_rows and goes_by is not None and goes_by != ("time" if has_time and not has_order else "order"):
        raise ValueError(
            f"order must be passed in every call or in none: this monitor has ordered rows by their {goes_by} "
            "so far. Go on in the same way, or make a new monitor."
        )


def check_numbers(order: Any, n_rows: int | None, settled: int, following: int) -> list[int]:
    """Return the number of each prediction; without any the rows are the next ones. One number for ``now``."""
    name = "order" if n_rows is not None else "now"
    if order is None:
        return list(range(following, following + (n_rows or 0)))
    values = np.atleast_1d(np.asarray(order if np.ndim(order) == 0 else plain_list(order)))
    if len(values) == 0:
        values = values.astype(np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) != (1 if n_rows is None else n_rows):
        raise ValueError(
            f"{name} must be whole numbers, one for each row: how many predictions were made before it, since the "
            f"monitor began; got {order!r:.80}."
        )
    if len(values) and not (values.min() >= 0 and values.max() <= settled + _FARTHEST):
        wrong = values[(values < 0) | (values > settled + _FARTHEST)][0]
        raise ValueError(
            f"{name} must count predictions, 0, 1, 2, ... since the monitor began, of which {settled:,} were settled; "
            f"got {wrong}. Subtract the number of the first prediction, or number the rows in the order of their times."
        )
    if len(np.unique(values)) < len(values):
        numbers, counts = np.unique(values, return_counts=True)
        raise ValueError(f"{name} must name each prediction once; {numbers[counts > 1][0]} is there twice.")
    return [int(value) for value in values]


def check_times(time: Any, n_rows: int | None) -> list[float]:
    """Return times in seconds; dates without a zone are taken for UTC, numbers for seconds. One time for ``now``.

    Of texts only those with the year first are taken: rows come call by call, and a later call must not read 03/04/2026
    in another way than an earlier one.
    """
    name = "time" if n_rows is not None else "now"
    values = np.atleast_1d(np.asarray(time))
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        seconds[np.isnat(values)] = np.nan
    elif values.dtype.kind in "iuf":
        seconds = values.astype(np.float64)
    elif values.ndim == 1 and all(isinstance(value, str | date | None) for value in values.tolist()):
        times = read_times(values.tolist(), name)
        if times.how in (DAY_FIRST, MONTH_FIRST):
            raise ValueError(
                f"{name} must hold dates (datetime, numpy or pandas), numbers of seconds or texts such as 2024-12-31; "
                f"got texts {times.how}. Pass pandas.to_datetime(column, dayfirst={times.how == DAY_FIRST})."
            )
        seconds = np.array(times.keys, dtype=np.float64)
    else:
        seconds = np.array([np.nan])
    if seconds.ndim != 1 or len(seconds) != (1 if n_rows is None else n_rows) or not np.isfinite(seconds).all():
        raise ValueError(
            f"{name} must say when each prediction was made, one date (datetime, numpy or pandas) or number of seconds "
            f"for each row, none missing; got {time!r:.80}."
        )
    listed: list[float] = seconds.tolist()
    return listed


class Row(NamedTuple):
    """A prediction: covered, missed or not known; the number of its group, -1 if not known; the time, if one came."""

    outcome: int
    group: int
    time: float


_NOBODY = Row(UNKNOWN, -1, -inf)


class Waiting:
    """Predictions by their number, or by their time, until it is their turn."""

    def __init__(self, mature: int | timedelta | None) -> None:
        self.mature = mature
        self.settled = 0  # predictions that were judged or given up; the number of the next one
        self.newest = -1  # the number of the last prediction that is known of
        self.clock = -inf  # the last time that is known of
        self.by_time = False
        self.rows: dict[Key, Row] = {}
        self._keys: list[Key] = []  # a heap
        self.arrived = 0  # rows that came by their time

    @property
    def n_known(self) -> int:
        """Rows that wait although their labels are known."""
        return sum(row.outcome != UNKNOWN for row in self.rows.values())

    def remarks(self, unlabelled: int, ignored: int) -> list[str]:
        """Return what is to be known about labels that did not come in the order of prediction."""
        said = []
        if self.n_known:
            until = "until they are mature" if self.by_time else f"for earlier ones, prediction {self.settled:,} first"
            said.append(f"{self.n_known:,} more wait {until}.")
        if unlabelled:
            said.append(
                f"{unlabelled:,} of {self.settled:,} predictions had no label when they were mature: "
                "they never raise the evidence."
            )
        if ignored:
            said.append(f"{ignored:,} labels came after their predictions were settled, and were not judged.")
        if ignored and self.by_time:
            said.append(
                "Labels that come later than mature bias the choice of rows: begin a new monitor with a larger mature."
            )
        return said

    def fields(self) -> tuple[Facts, Tensors]:
        """Return what a file keeps: of each row its time, its number (or what decides ties), outcome and group."""
        numbers, rows = [key[1] if isinstance(key, tuple) else key for key in self.rows], [*self.rows.values()]
        tensors = {
            "clock": np.array([self.clock]),
            "waiting_times": np.array([row.time for row in rows], dtype=np.float64),
            "waiting_numbers": np.array(numbers, dtype=np.uint64),
            "waiting_outcomes": np.array([row.outcome for row in rows], dtype=np.int64),
            "waiting_groups": np.array([row.group for row in rows], dtype=np.int64),
        }
        mature = self.mature // timedelta(microseconds=1) if isinstance(self.mature, timedelta) else self.mature
        facts = {"newest": self.newest, "by_time": self.by_time, "arrived": self.arrived}
        return {**facts, "mature": mature, "in_time": isinstance(self.mature, timedelta)}, tensors

    def restore(self, settled: int, facts: Facts, tensors: Tensors) -> None:
        """Go on with the rows that waited when a monitor was saved."""
        self.settled, self.newest = settled, max(facts["newest"], -1 if facts["by_time"] else settled - 1)
        self.clock, self.by_time, self.arrived = float(tensors["clock"][0]), facts["by_time"], facts["arrived"]
        columns = (tensors[f"waiting_{name}"].tolist() for name in ("times", "numbers", "outcomes", "groups"))
        for time, number, outcome, group in zip(*columns, strict=True):
            self.rows[(time, number) if self.by_time else number] = Row(outcome, group, time)
        self._keys = sorted(self.rows)

    def skip(self, n_rows: int) -> None:
        """Count rows that were judged at once: the next ones, while nothing waits."""
        self.settled += n_rows
        self.newest = max(self.newest, self.settled - 1)

    def add(self, outcomes: Sequence[int], groups: Sequence[int], order: Any, time: Any, now: Any) -> int:
        """Let rows wait; return how many labels came for predictions that had been settled before."""
        in_time = isinstance(self.mature, timedelta)
        goes_by = "time" if self.by_time else "order" if self.newest >= 0 else None
        check_one_order(self.mature, goes_by, order is not None, time is not None, len(outcomes))
        times = [-inf] * len(outcomes) if time is None else check_times(time, len(outcomes))
        clock = check_times(now, None)[0] if in_time and now is not None else -inf
        rows = [Row(*row) for row in zip(outcomes, groups, times, strict=True)]
        if order is None and time is not None:
            ignored = self._add_timed(rows)
        else:
            numbers = check_numbers(order, len(rows), self.settled, self.newest + 1)
            newest = -1 if in_time or now is None else check_numbers(now, None, self.settled, 0)[0]
            ignored = self._add_numbered(numbers, rows)
            self.newest = max([self.newest, newest, *numbers])
        self.clock = max([self.clock, clock, *times])
        return ignored

    def _add_numbered(self, numbers: Sequence[int], rows: Sequence[Row]) -> int:
        joined: dict[Key, Row] = {}
        for number, row in zip(numbers, rows, strict=True):
            if number >= self.settled:
                joined[number] = row if number not in self.rows else _joined(number, self.rows[number], row)
        for key in joined.keys() - self.rows.keys():
            heappush(self._keys, key)
        self.rows.update(joined)
        return sum(n < self.settled and row.outcome != UNKNOWN for n, row in zip(numbers, rows, strict=True))

    def _add_timed(self, rows: Sequence[Row]) -> int:
        """Take rows by their time; those of one time get an order that does not look at the outcome."""
        self.by_time |= len(rows) > 0
        ties = seeds_of(np.arange(self.arrived, self.arrived + len(rows), dtype=np.uint64), 0).tolist()
        self.arrived += len(rows)
        over = self._over()
        for tie, row in zip(ties, rows, strict=True):
            if row.time > over:
                self.rows[row.time, tie] = row
                heappush(self._keys, (row.time, tie))
        return sum(row.time <= over and row.outcome != UNKNOWN for row in rows)

    def _over(self) -> float:
        """Return the time up to which predictions are mature."""
        assert isinstance(self.mature, timedelta)
        return self.clock - self.mature.total_seconds()

    def take(self) -> list[Row]:
        """Return the rows whose turn has come, in their order, no more than 65,536 at once."""
        taken: list[Row] = []
        while len(taken) < _AT_ONCE and self._is_next_settled():
            key = heappop(self._keys) if self.by_time else self.settled
            taken.append(self.rows.pop(key, _NOBODY))
            self.settled += 1
            while not self.by_time and self._keys and self._keys[0] < self.settled:  # type: ignore[operator]
                heappop(self._keys)
        return taken

    def _is_next_settled(self) -> bool:
        """Tell whether the next prediction is known, or too old to wait for.

        One that nobody has mentioned is at least as old as the next one that somebody has.
        """
        if not self.by_time and self.rows.get(self.settled, _NOBODY).outcome != UNKNOWN:
            return True
        if self.mature is None:
            return False
        if isinstance(self.mature, timedelta):
            return bool(self._keys) and self.rows[self._keys[0]].time <= self._over()
        return self.settled + self.mature <= self.newest


def _joined(number: int, before: Row, now: Row) -> Row:
    """Return all that is known of a prediction; what was known must not have changed."""
    pairs = {"group": (before.group, now.group, -1), "outcome": (before.outcome, now.outcome, UNKNOWN)}
    for what, (first, second, unknown) in pairs.items():
        if first != second and unknown not in (first, second):
            raise ValueError(
                f"order must name each prediction once: prediction {number} waits with another {what}. Give every "
                "prediction a number of its own, and its label once."
            )
    known = now if now.outcome != UNKNOWN else before
    return Row(known.outcome, max(before.group, now.group), max(before.time, now.time))
