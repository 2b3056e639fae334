"""Does a calibration still keep its promise? Bets against it, row by row, that win only if misses become more frequent.

After a split the misses of new rows follow an urn: with m misses among t rows the next one is missed with probability
(n + 1 - k + m) / (n + 1 + t), whatever the rows are, as long as they come from one source and scores do not tie.
Capital that is bet at these odds is a martingale: it ever reaches 100 in at most one of 100 deployments. How it is bet
stands in :mod:`aptset.judging.monitors.bets`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import exp, inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.data.displays import Display
from aptset.data.setting_checks import check_alpha, stored_fraction
from aptset.data.tables import plain_list
from aptset.judging.monitors.bets import TIMES, Capital, log_of, reaches
from aptset.judging.monitors.checks import (
    check_alarm,
    check_covered,
    check_monitored_sizes,
    check_row_groups,
    check_storable_groups,
    check_stored_monitor,
    refuse_impossible_misses,
)
from aptset.judging.monitors.trails import Trail
from aptset.judging.monitors.urns import Urns
from aptset.kernels.counts import size_needed
from aptset.running.writing import atomic_write


def rows_to_monitor(alpha: float) -> int:
    """Return how many calibration rows a monitor needs at least: with fewer no set can miss."""
    return size_needed(check_alpha(alpha))


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
    Sets of CV+ and the jackknife+ follow no such law. Ties and sets that are never empty can only lower the number of
    misses. The evidence mostly falls with it, but not with every miss: one that is left out makes the next one more of
    a surprise.
    Long quiet makes it hardly slower to hear (docs/howto/monitor.md has numbers). Start a new one with every
    calibration.

    Examples
    --------
    >>> import aptset
    >>> monitor = aptset.CoverageMonitor(n=1000, alpha=0.1)
    >>> round(monitor.update(([True] * 9 + [False]) * 10).evidence, 2)
    0.95
    >>> monitor.update([True, False] * 60).alarmed_at
    120
    """

    def __init__(self, n: int | Mapping[Any, int], alpha: float = 0.1, alarm: float = 100.0) -> None:
        self._level, self.alarm = check_alpha(alpha), check_alarm(alarm)
        self._has_groups = isinstance(n, Mapping)
        sizes = check_monitored_sizes(n, size_needed(self._level), self.alpha)
        self._urns = Urns(sizes, self._level)
        self._capital, self._trail = Capital(), Trail()
        self.rows, self.misses = 0, 0
        self.alarmed_at: int | None = None

    @property
    def alpha(self) -> float:
        """The level of the sets."""
        return float(self._level)

    @property
    def settings(self) -> dict[str, Any]:
        """What the monitor was made with."""
        sizes = dict(zip(self._urns.number_of, self._urns.n.tolist(), strict=True))
        return {"n": sizes if self._has_groups else sizes[None], "alpha": self.alpha, "alarm": self.alarm}

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence."""
        return log_of(self._capital.number, self._capital.exponent)

    @property
    def evidence(self) -> float:
        """What one unit of capital has become: large where misses are more frequent than the calibration allows."""
        return _exp(self.log_evidence)

    @property
    def peak(self) -> float:
        """The largest evidence so far, from 1 on."""
        return _exp(self._trail.log_peak)

    @property
    def alarmed(self) -> bool:
        """Whether the alarm went off, at any time."""
        return self.alarmed_at is not None

    @property
    def expected(self) -> float | dict[Any, float]:
        """The chance that the next row is missed if nothing has changed; with groups that of each."""
        found = self._urns.expected
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
        is_miss = ~check_covered(covered)
        names = None if groups is None else [groups] if np.ndim(covered) == 0 else plain_list(groups)
        known = self._urns.number_of if self._has_groups else None
        numbers = check_row_groups(names, len(is_miss), known)
        refuse_impossible_misses(is_miss, numbers, self._urns.first, list(self._urns.number_of))
        if len(is_miss):
            self._bet(numbers, is_miss)
        return self

    def _bet(self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_]) -> None:
        """Bet on each row at the odds of its urn, and look."""
        if len(is_miss) == 1:
            expected_once = self._urns.draw_once(int(numbers[0]), bool(is_miss[0]))
            found = self._capital.bet_once(self.rows, expected_once, bool(is_miss[0]), self.alpha)
        else:
            expected = self._urns.draw(numbers, is_miss)
            found = self._capital.bet(self.rows, expected, is_miss, self.alpha)
        self._trail.add(self.rows + 1, found, self.misses + np.cumsum(is_miss))
        alarms = reaches(found, self.alarm)
        if self.alarmed_at is None and alarms.any():
            self.alarmed_at = self.rows + 1 + int(alarms.argmax())
        self.rows, self.misses = self.rows + len(is_miss), self.misses + int(is_miss.sum())

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

    def evidence_in_words(self) -> str:
        """Return where the evidence stands, and where it was highest."""
        return f"evidence {_in_words(self.log_evidence)}, {_in_words(self._trail.log_peak)} at its peak"

    def sentence(self) -> str:
        """Return what was seen in words."""
        if self.rows == 0:
            return "No row yet."
        evidence = self.evidence_in_words()
        share = f"{self.misses:,} of {self.rows:,} rows missed ({self.misses / self.rows:.1%}, alpha is {self.alpha:g})"
        if self.alarmed:
            return (
                f"ALARM at row {self.alarmed_at:,}: {share}, {evidence}. If nothing had changed since calibration, it "
                f"would ever reach {self.alarm:g} in 1 of {self.alarm:g} cases at most."
            )
        return f"No alarm: {share}, {evidence} (alarm at {self.alarm:g})."

    def __repr__(self) -> str:
        return f"CoverageMonitor(n={self.settings['n']}, alpha={self.alpha:g}): {self.sentence()}"

    def save(self, path: str | Path) -> None:
        """Write the state to a small JSON file, whole or not at all; :meth:`load` goes on from there."""
        with atomic_write(Path(path)) as file:
            file.write(json.dumps(self._as_json()).encode())

    def _as_json(self) -> dict[str, Any]:
        urns = self._urns
        check_storable_groups(list(urns.number_of))
        counts = zip(urns.number_of, urns.n.tolist(), urns.rows.tolist(), urns.misses.tolist(), strict=True)
        return {
            "aptset": "monitor",
            "format": 2,
            "alpha": str(self._level),
            "alarm": self.alarm,
            "has_groups": self._has_groups,
            "urns": [list(urn) for urn in counts],
            "kept": self._capital.kept.hex(),
            "stakes": [stake.hex() for stake in self._capital.stakes],
            "won": [won.hex() for won in self._capital.won],
            "exponent": self._capital.exponent,
            "alarmed_at": self.alarmed_at,
            "peak": self._trail.log_peak.hex(),
            "path": {"every": self._trail.every, "points": [[r, e.hex(), m] for r, e, m in self._trail.points]},
        }

    @classmethod
    def load(cls, path: str | Path) -> CoverageMonitor:
        """Read a monitor that was saved; whatever is not intact is refused with one error."""
        stored = check_stored_monitor(path, Path(path).read_bytes(), len(TIMES))
        urns = stored["urns"]
        sizes = {name: size for name, size, _, _ in urns} if stored["has_groups"] else urns[0][1]
        monitor = cls(sizes, stored_fraction(stored["alpha"]), stored["alarm"])  # type: ignore[arg-type]
        monitor._urns.rows[:], monitor._urns.misses[:] = ([urn[place] for urn in urns] for place in (2, 3))
        monitor.rows, monitor.misses = (sum(urn[place] for urn in urns) for place in (2, 3))
        stakes, won = ([float.fromhex(text) for text in stored[name]] for name in ("stakes", "won"))
        monitor._capital = Capital(float.fromhex(stored["kept"]), stakes, won, stored["exponent"])
        monitor.alarmed_at = stored["alarmed_at"]
        points = [(row, float.fromhex(found), misses) for row, found, misses in stored["path"]["points"]]
        monitor._trail = Trail(stored["path"]["every"], points, float.fromhex(stored["peak"]))
        return monitor


def _exp(log_evidence: float) -> float:
    return exp(log_evidence) if log_evidence < 700 else inf


def _in_words(log_evidence: float) -> str:
    return f"{exp(log_evidence):.3g}" if log_evidence < 200 else f"e^{log_evidence:.0f}"
