"""Rows whose turn has not come: a row is judged once all that were predicted before it are known, or given up.

A label that is judged when it becomes known makes a choice of rows that depends on the outcome, where wrong guesses are
labelled sooner (or later) than right ones. In the order of prediction it makes none, however labels come.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

import numpy as np

from aptset.core.store import Facts, Tensors
from aptset.kernels.rowhash import seeds_of
from aptset.metrics.monitor_checks import UNKNOWN, check_numbers, check_one_order, check_same_row, check_times

Key = int | tuple[float, int]  # the number of a prediction; or its time, and what puts those of one time in order
_AT_ONCE = 65_536  # rows


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
        check_one_order(self.mature, self._goes_by(), order is not None, time is not None, len(outcomes))
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

    def _goes_by(self) -> str | None:
        """Return what rows were known by so far, if there were any."""
        return "time" if self.by_time else "order" if self.newest >= 0 else None

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
    check_same_row(number, "group", before.group, now.group, -1)
    check_same_row(number, "outcome", before.outcome, now.outcome, UNKNOWN)
    known = now if now.outcome != UNKNOWN else before
    return Row(known.outcome, max(before.group, now.group), max(before.time, now.time))
