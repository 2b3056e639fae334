"""Does a calibration still keep its promise? Bets against it, row by row, that win only if misses become more frequent.

After a split the misses of new rows follow an urn: with m misses among t rows the next one is missed with probability
(n + 1 - k + m) / (n + 1 + t), whatever the rows are, as long as they come from one source and scores do not tie.
Capital that is bet at these odds is a martingale: it ever reaches 100 in at most one of 100 deployments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, inf, log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aptset.displays import Display
from aptset.kernels.counts import rank_at, size_needed
from aptset.labels import hashable
from aptset.monitors.checks import (
    check_alarm,
    check_covered,
    check_monitored_sizes,
    check_row_groups,
    check_storable_groups,
    check_stored_monitor,
    refuse_impossible_miss,
)
from aptset.running.writing import atomic_write
from aptset.tables import plain_list
from aptset.validation.settings import check_alpha

TIMES = (1.25, 1.5, 2.0, 3.0, 5.0)  # alpha: the rates of misses that are bet on
_HIGHEST_RATE = 0.95
_SHARED = 0.001  # of each capital goes round in every step: who was right long ago does not stay ahead for ever
_MOST_POINTS = 4096  # of the path that are kept
_FAR = 2.0**500  # capitals beyond this, or below its inverse, are scaled


@dataclass
class Urn:
    """Misses and rows of one group since its calibration on n rows; ``first`` is n + 1 - k, 0 where no miss can be."""

    n: int
    first: int
    rows: int = 0
    misses: int = 0

    @property
    def expected(self) -> float:
        """The chance that the next row is missed."""
        return (self.first + self.misses) / (self.n + 1 + self.rows)


@dataclass
class Trail:
    """Evidence along the rows, at no more than so many of them: every other point goes when there are too many."""

    every: int = 1
    points: list[tuple[int, float, int]] = field(default_factory=list)

    def add(self, row: int, log_evidence: float, misses: int) -> None:
        """Keep a point, if it is one of those that are kept."""
        if row % self.every:
            return
        self.points.append((row, log_evidence, misses))
        if len(self.points) > _MOST_POINTS:
            self.every *= 2
            self.points = [point for point in self.points if point[0] % self.every == 0]


class CoverageMonitor:
    """Watches whether sets still cover as often as they should; alarms are false in 1 of ``alarm`` deployments at most.

    Give it, in the order in which true labels become known, whether each set held its label. It bets that misses come
    more often than the calibration makes likely; ``evidence`` is what one unit of capital has become. Unlike a test
    that is repeated every day, it may be looked at after every row.

    Parameters
    ----------
    n : int, or mapping from group to int
        The number of calibration rows of a split (or a frozen model); with groups that of each.
    alpha : float, default=0.1
        The level of the sets.
    alarm : float, default=100
        The evidence at which the alarm goes off: false alarms, ever, in at most 1 of so many deployments.

    Attributes
    ----------
    rows, misses : int
        Rows seen, and those whose set missed the label.
    alarmed_at : int or None
        The row, counted from 1, at which the evidence first reached the alarm. An alarm stays.

    Notes
    -----
    Sets of CV+ and the jackknife+ follow no such law. Ties and sets that are never empty can only lower the misses, and
    the evidence with them.
    After a long quiet stretch an alarm takes longer (docs/howto/monitor.md has numbers): start anew with every
    calibration, or now and then beside the old one, with ``alarm`` times the number of monitors.

    Examples
    --------
    >>> import aptset
    >>> monitor = aptset.CoverageMonitor(n=1000, alpha=0.1)
    >>> round(monitor.update(([True] * 9 + [False]) * 10).evidence, 2)
    0.96
    >>> monitor.update([True, False] * 60).alarmed_at
    122
    """

    def __init__(self, n: int | Mapping[Any, int], alpha: float = 0.1, alarm: float = 100.0) -> None:
        self._level, self.alarm = check_alpha(alpha), check_alarm(alarm)
        self._has_groups = isinstance(n, Mapping)
        sizes = check_monitored_sizes(n, size_needed(self._level), self.alpha)
        self._urns = {name: Urn(size, _first_of(size, self._level)) for name, size in sizes.items()}
        self._capital = [1.0, *(0.0 for _ in TIMES)]
        self._exponent = 0  # the capitals are these times _FAR to this power
        self._trail = Trail()
        self.rows, self.misses = 0, 0
        self.alarmed_at: int | None = None

    @property
    def alpha(self) -> float:
        """The level of the sets."""
        return float(self._level)

    @property
    def settings(self) -> dict[str, Any]:
        """What the monitor was made with."""
        sizes = {name: urn.n for name, urn in self._urns.items()}
        return {"n": sizes if self._has_groups else sizes[None], "alpha": self.alpha, "alarm": self.alarm}

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence."""
        return log(sum(self._capital)) + self._exponent * log(_FAR)

    @property
    def evidence(self) -> float:
        """What one unit of capital has become: large where misses are more frequent than the calibration allows."""
        found = self.log_evidence
        return exp(found) if found < 700 else inf

    @property
    def alarmed(self) -> bool:
        """Whether the alarm went off, at any time."""
        return self.alarmed_at is not None

    @property
    def expected(self) -> float | dict[Any, float]:
        """The chance that the next row is missed if nothing has changed; with groups that of each."""
        found = {name: urn.expected for name, urn in self._urns.items()}
        return found if self._has_groups else found[None]

    def update(self, covered: ArrayLike, groups: Any = None) -> CoverageMonitor:
        """Take in whether sets held their labels, one row or many, in the order in which labels became known.

        Parameters
        ----------
        covered : bool or array of bool
            As ``sets.covers(labels)`` gives it.
        groups : array or one group, optional
            The group of each row, if the monitor has groups.
        """
        flags = check_covered(covered)
        is_one = np.ndim(covered) == 0
        names = None if groups is None else [groups] if is_one else plain_list(groups)
        mine = check_row_groups(names, len(flags), self._urns if self._has_groups else None, hashable)
        for row, (is_covered, name) in enumerate(zip(flags, mine, strict=True)):
            refuse_impossible_miss(is_covered, self._urns[name].first, name, row)
        for is_covered, name in zip(flags, mine, strict=True):
            self._bet(self._urns[name], not is_covered)
        return self

    def _bet(self, urn: Urn, is_miss: bool) -> None:
        """Share the capitals out, bet on the next row at the odds of its urn, and look."""
        if urn.first:
            expected = urn.expected
            total = sum(self._capital)
            mean = total / len(self._capital)
            shared = [(1.0 - _SHARED) * capital + _SHARED * mean for capital in self._capital]
            rates = [max(expected, min(times * self.alpha, _HIGHEST_RATE)) for times in TIMES]
            odds = [rate / expected if is_miss else (1.0 - rate) / (1.0 - expected) for rate in rates]
            self._capital = [shared[0], *(capital * won for capital, won in zip(shared[1:], odds, strict=True))]
            self._scale()
        urn.rows, urn.misses = urn.rows + 1, urn.misses + is_miss
        self.rows, self.misses = self.rows + 1, self.misses + is_miss
        found = self.log_evidence
        self._trail.add(self.rows, found, self.misses)
        if self.alarmed_at is None and found >= log(self.alarm):
            self.alarmed_at = self.rows

    def _scale(self) -> None:
        total = sum(self._capital)
        step = 1 if total > _FAR else -1 if total < 1 / _FAR else 0
        if step:  # a power of two: nothing is rounded
            self._capital = [capital * _FAR**-step for capital in self._capital]
            self._exponent += step

    def path(self, backend: Any = "pandas") -> Any:
        """Return a table of rows, evidence and misses so far; of a long stream some thousands of its rows."""
        return self.plot_data().frame(backend)

    def plot_data(self) -> Display:
        """Return the figure of the evidence along the rows, with its table."""
        rows, logs, misses = zip(*self._trail.points, strict=True) if self._trail.points else ((), (), ())
        evidence = [exp(min(found, 700.0)) for found in logs]
        columns = {"row": list(rows), "evidence": evidence, "misses": list(misses)}
        title = f"Evidence that misses became more frequent: {'ALARM' if self.alarmed else 'no alarm'}"
        return Display(columns, "line", title, "rows with known labels", f"evidence (alarm at {self.alarm:g})")

    def plot(self, ax: Any = None) -> Any:
        """Draw the evidence along the rows, and the alarm, into matplotlib axes."""
        axes = self.plot_data().draw(ax)
        axes.set_yscale("log")
        axes.axhline(self.alarm, color="tab:red", linestyle="--", linewidth=1)
        return axes

    def sentence(self) -> str:
        """Return what was seen in words."""
        if self.rows == 0:
            return "No row yet."
        share = f"{self.misses:,} of {self.rows:,} rows missed ({self.misses / self.rows:.1%}, alpha is {self.alpha:g})"
        if self.alarmed:
            return (
                f"ALARM at row {self.alarmed_at:,}: {share}, evidence {_in_words(self.log_evidence)}. If nothing had "
                f"changed since calibration, it would ever reach {self.alarm:g} in 1 of {self.alarm:g} cases at most."
            )
        return f"No alarm: {share}, evidence {_in_words(self.log_evidence)} (alarm at {self.alarm:g})."

    def __repr__(self) -> str:
        return f"CoverageMonitor(n={self.settings['n']}, alpha={self.alpha:g}): {self.sentence()}"

    def save(self, path: str | Path) -> None:
        """Write the state to a small JSON file, whole or not at all; :meth:`load` goes on from there."""
        check_storable_groups(list(self._urns))
        content = {
            "aptset": "monitor",
            "format": 1,
            "alpha": str(self._level),
            "alarm": self.alarm,
            "has_groups": self._has_groups,
            "urns": [[name, urn.n, urn.rows, urn.misses] for name, urn in self._urns.items()],
            "capital": [capital.hex() for capital in self._capital],
            "exponent": self._exponent,
            "alarmed_at": self.alarmed_at,
            "path": {"every": self._trail.every, "points": [[r, e.hex(), m] for r, e, m in self._trail.points]},
        }
        with atomic_write(Path(path)) as file:
            file.write(json.dumps(content).encode())

    @classmethod
    def load(cls, path: str | Path) -> CoverageMonitor:
        """Read a monitor that was saved; whatever is not intact is refused with one error."""
        stored = check_stored_monitor(path, Path(path).read_bytes(), len(TIMES) + 1)
        urns = stored["urns"]
        sizes = {name: size for name, size, _, _ in urns} if stored["has_groups"] else urns[0][1]
        monitor = cls(sizes, Fraction(stored["alpha"]), stored["alarm"])  # type: ignore[arg-type]
        for name, _, rows, misses in urns:
            urn = monitor._urns[name if stored["has_groups"] else None]
            urn.rows, urn.misses = rows, misses
        monitor.rows, monitor.misses = (sum(urn[place] for urn in urns) for place in (2, 3))
        monitor._capital = [float.fromhex(capital) for capital in stored["capital"]]
        monitor._exponent, monitor.alarmed_at = stored["exponent"], stored["alarmed_at"]
        points = [(row, float.fromhex(found), misses) for row, found, misses in stored["path"]["points"]]
        monitor._trail = Trail(stored["path"]["every"], points)
        return monitor


def _first_of(n: int, level: Fraction) -> int:
    """Return how many of n + 1 equally likely places of a new row are misses; 0 if every label is in."""
    rank = rank_at(n, level)
    return n + 1 - rank if rank <= n else 0


def _in_words(log_evidence: float) -> str:
    return f"{exp(log_evidence):.3g}" if log_evidence < 200 else f"e^{log_evidence:.0f}"
