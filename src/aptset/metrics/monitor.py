"""Does a calibration still keep its promise? Bets against it, row by row, that win only if misses become more frequent.

After a split the misses of new rows follow an urn: with m misses among t rows the next one is missed with probability
(n + 1 - k + m) / (n + 1 + t), whatever the rows are, as long as they come from one source and scores do not tie.
Capital that is bet at these odds is a martingale: it ever reaches 100 in at most one of 100 deployments. How it is bet
stands in :mod:`aptset.metrics.betting`; why rows are judged in the order of prediction, whenever their labels
come, in :mod:`aptset.metrics.waiting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.levels import size_needed
from aptset.core.store import stored_fraction, write
from aptset.core.tables import Display, plain_list
from aptset.metrics import betting
from aptset.metrics.betting import Capital, Trail, Urns
from aptset.metrics.estimates import Estimate, share_of_count
from aptset.metrics.monitor_checks import STORE, check_groups, check_monitored_sizes, check_outcomes, check_storable
from aptset.metrics.waiting import MISSED, UNKNOWN, Waiting, check_mature, mature_of

_ALARM = "a number above 1; with 100, which is usual, at most 1 of 100 deployments ever has a false alarm"


class CoverageMonitor:
    """Watches whether sets still cover as often as they should; alarms are false in 1 of ``alarm`` deployments at most.

    Give it, in the order of prediction, whether each set held its label. It bets that misses come more often than the
    calibration makes likely; ``evidence`` is what one unit of capital has become. Unlike a test that is repeated every
    day, it may be looked at after every row. Labels that become known in another order come with the number of their
    prediction (``order`` of :meth:`update`): judged as they come, they would raise false alarms wherever wrong guesses
    are labelled sooner than right ones.

    Parameters
    ----------
    n : int, or mapping from group to int
        The number of calibration rows of a split (or a frozen model); with groups that of each.
    alpha : float, default=0.1
        The level of the sets.
    alarm : float, default=100
        The evidence at which the alarm goes off: false alarms, ever, in at most 1 of so many deployments.
    mature : int or timedelta, optional
        How long a prediction is waited for, fixed beforehand: until so many predictions were made after it, or for so
        much time. Then it is given up, and those behind it are judged. By default all wait until its label comes.

    Attributes
    ----------
    rows, misses : int
        Rows that were judged, and those whose set missed the label.
    alarmed_at : int or None
        The prediction, counted from 1, at which the evidence first reached the alarm. An alarm stays.
    ignored : int
        Labels that came after their prediction had been judged or given up. They were not judged.

    Notes
    -----
    The evidence after a prediction depends on the outcomes up to it and not on when they became known, so the alarm
    keeps its level however labels are delayed. A prediction that is given up may have been a hit or a miss. It counts
    as a hit, and the odds of all later rows are the worst that its being either would make: evidence is never larger
    than it would be if all labels were known, and the level holds whichever labels do not come. With ``mature`` half of
    the capital bets against a steady rate of misses that hardly a calibration exceeds, since such odds stay what they
    are when labels do not come (evidence then begins at 0.75). Where labels are only asked for in some rows, chosen
    without regard to the outcome, give it these rows alone, numbered among themselves.

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

    Labels that come in any order, of predictions 2, 0 and 1:

    >>> monitor = aptset.CoverageMonitor(n=1000, alpha=0.1, mature=500)
    >>> monitor.update(False, order=2).rows
    0
    >>> monitor.update([True, True], order=[0, 1]).rows
    3
    """

    _kind = "monitor"

    def __init__(
        self,
        n: int | Mapping[Any, int],
        alpha: float = 0.1,
        alarm: float = 100.0,
        *,
        mature: int | timedelta | None = None,
    ) -> None:
        self._level = validate.alpha(alpha)
        self.alarm = validate.number(alarm, "alarm", _ALARM, lambda evidence: evidence > 1)
        self._has_groups = isinstance(n, Mapping)
        self._urns = Urns(check_monitored_sizes(n, size_needed(self._level), self.alpha), self._level)
        self._capital, self._trail, self._waiting = Capital(), Trail(), Waiting(check_mature(mature))
        self._steady, self._rates = Capital(), None if mature is None else self._urns.steady(self.alarm)
        self.rows, self.misses, self.ignored = 0, 0, 0
        self.alarmed_at: int | None = None
        self._log: dict[str, Any] | None = None  # what the command line notes about the rows it has seen

    @property
    def alpha(self) -> float:
        """The level of the sets."""
        return float(self._level)

    @property
    def settings(self) -> dict[str, Any]:
        """What the monitor was made with."""
        sizes = dict(zip(self._urns.number_of, self._urns.n.tolist(), strict=True))
        n = sizes if self._has_groups else sizes[None]
        return {"n": n, "alpha": self.alpha, "alarm": self.alarm, "mature": self.mature}

    @property
    def mature(self) -> int | timedelta | None:
        """How long a prediction is waited for."""
        return self._waiting.mature

    @property
    def settled(self) -> int:
        """Predictions that were judged or given up: the number of the next one whose turn it is."""
        return self._waiting.settled

    @property
    def unlabelled(self) -> int:
        """Predictions that were given up: their labels had not come when they were mature."""
        return self._urns.n_unknown

    @property
    def n_waiting(self) -> int:
        """Rows whose labels are known, and that wait for earlier ones."""
        return self._waiting.n_known

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence."""
        now = self._capital.evidence
        if self._rates is not None:
            now = betting.joined(now, self._steady.evidence, self.alarm)
        return betting.log_of(float(now.numbers[0]), int(now.exponents[0]))

    @property
    def evidence(self) -> float:
        """What one unit of capital has become: large where misses are more frequent than the calibration allows."""
        return betting.exp_of(self.log_evidence)

    @property
    def peak(self) -> float:
        """The largest evidence so far, from 1 on."""
        return betting.exp_of(self._trail.log_peak)

    @property
    def alarmed(self) -> bool:
        """Whether the alarm went off, at any time."""
        return self.alarmed_at is not None

    @property
    def expected(self) -> float | dict[Any, float]:
        """The chance that the next row is missed if nothing has changed; with groups that of each."""
        expected = self._urns.expected
        return expected if self._has_groups else expected[None]

    def update(
        self, covered: ArrayLike | None, groups: Any = None, *, order: Any = None, time: Any = None, now: Any = None
    ) -> Self:
        """Take in whether sets held their labels, one row or many.

        Parameters
        ----------
        covered : bool or array of bool
            As ``sets.covers(labels)`` gives it. None: a prediction whose label is not known yet.
        groups : array or one group, optional
            The group of each row, if the monitor has groups; None where it is not known before the label is.
        order : int or array of int, optional
            The number of each prediction: how many were made before it since the monitor began. Labels may come in any
            order. By default the rows are the next predictions, in the order in which they were made. A prediction may
            be named twice, first with None and then with its outcome.
        time : date or array of dates, optional
            When each prediction was made, if ``mature`` is a time (numbers are seconds; dates without a zone are UTC).
            Without ``order`` each row waits until it is mature, and is judged in the order of time. The monitor then
            knows of no prediction that it was not given, so the level needs that labels come within ``mature``,
            whatever the outcome; give a row with None once it is clear that its label will not.
        now : int or date, optional
            The number of the newest prediction, or the time, if none that came says as much: rows mature by it.
        """
        names = None if groups is None else [groups] if np.ndim(covered) == 0 else plain_list(groups)  # type: ignore[arg-type]
        return self._take(check_outcomes(covered), names, order, time, now)

    def _take(self, outcomes: NDArray[np.int8], names: list[Any] | None, order: Any, time: Any, now: Any) -> Self:
        """Take in what became of rows: bet on those whose turn it is, and let the others wait."""
        numbers = check_groups(names, outcomes, self._urns, self._has_groups)
        is_plain = order is None and time is None and now is None and not self._waiting.rows
        is_plain = is_plain and not self._waiting.by_time and self.settled == self._waiting.newest + 1
        if is_plain and UNKNOWN not in outcomes:
            if len(outcomes):
                self._bet(numbers, outcomes)
            self._waiting.skip(len(outcomes))
            return self
        self.ignored += self._waiting.add(outcomes.tolist(), numbers.tolist(), order, time, now)
        while rows := self._waiting.take():
            of_groups = np.array([row.group for row in rows])
            self._bet(of_groups if self._has_groups else 0 * of_groups, np.array([row.outcome for row in rows]))
        return self

    def _bet(self, numbers: NDArray[np.intp], outcomes: NDArray[Any]) -> None:
        """Bet on each row at the odds of its urn, and look."""
        before, is_miss = self.rows + self.unlabelled, outcomes == MISSED
        if len(is_miss) == 1 and self.mature is None:  # nothing is ever given up
            expected_once = self._urns.draw_once(int(numbers[0]), bool(is_miss[0]))
            evidence = self._capital.bet_once(before, expected_once, bool(is_miss[0]), self.alpha)
        else:
            expected = self._urns.draw(numbers, is_miss, outcomes != UNKNOWN)
            evidence = self._capital.bet(before, expected, is_miss, self.alpha)
        if self._rates is not None:
            steady = self._steady.bet(before, betting.at_rates(self._rates, numbers), is_miss, self.alpha)
            evidence = betting.joined(evidence, steady, self.alarm)
        self._trail.add(before + 1, evidence, self.misses + np.cumsum(is_miss))
        alarms = betting.reaches(evidence, self.alarm)
        if self.alarmed_at is None and alarms.any():
            self.alarmed_at = before + 1 + int(alarms.argmax())
        self.rows = before + len(is_miss) - self.unlabelled
        self.misses += int(is_miss.sum())

    def path(self, backend: Any = "pandas") -> Any:
        """Return a table of rows, evidence and misses so far; of a long stream some thousands of its rows."""
        return self.plot_data().frame(backend)

    def plot_data(self) -> Display:
        """Return the figure of the evidence along the rows, with its table."""
        title = f"Evidence that misses became more frequent: {'ALARM' if self.alarmed else 'no alarm'}"
        along = f"evidence (alarm at {self.alarm:g})"
        return Display(self._trail.columns(), "line", title, "rows in the order of prediction", along)

    def plot(self, ax: Any = None) -> Any:
        """Draw the evidence along the rows, and the alarm, into matplotlib axes."""
        axes = self.plot_data().draw(ax)
        axes.set_yscale("log")
        axes.axhline(self.alarm, color="tab:red", linestyle="--", linewidth=1)
        return axes

    def _coverage(self) -> Estimate:
        """Return the share of judged rows whose set held the label, with its 95 % interval."""
        return share_of_count(self.rows - self.misses, self.rows, 0.95)

    def evidence_in_words(self) -> str:
        """Return where the evidence stands, and where it was highest."""
        return f"evidence {betting.in_words(self.log_evidence)}, {betting.in_words(self._trail.log_peak)} at its peak"

    def sentence(self) -> str:
        """Return what was seen in words."""
        return " ".join([self._verdict(), *self._waiting.remarks(self.unlabelled, self.ignored)])

    def _verdict(self) -> str:
        if self.rows == 0:
            return "No row yet."
        share = f"{self.misses:,} of {self.rows:,} rows missed ({self.misses / self.rows:.1%}, alpha is {self.alpha:g})"
        said = f"{share}, {self.evidence_in_words()}"
        if not self.alarmed:
            return f"No alarm: {said} (alarm at {self.alarm:g})."
        return (
            f"ALARM at row {self.alarmed_at:,}: {said}. If nothing had changed since calibration, it would ever reach "
            f"{self.alarm:g} in 1 of {self.alarm:g} cases at most."
        )

    def __repr__(self) -> str:
        return f"CoverageMonitor(n={self.settings['n']}, alpha={self.alpha:g}): {self.sentence()}"

    def save(self, path: str | Path) -> None:
        """Write the state to a small file, whole or not at all; :meth:`load` goes on from there."""
        urns = self._urns
        check_storable(list(urns.number_of))
        of_queue, waiting = self._waiting.fields()
        facts = {
            "alpha": str(self._level),
            "alarm": self.alarm,
            "groups": list(urns.number_of),
            "has_groups": self._has_groups,
            "nowhere": urns.nowhere,
            "ignored": self.ignored,
            **of_queue,
            "alarmed_at": self.alarmed_at,
            "every": self._trail.every,
            "log": self._log,
        }
        capitals = (self._capital, self._steady)
        tensors = {
            "urns": urns.counts(),
            "capital": np.array([capital.numbers() for capital in capitals]),
            "exponents": np.array([capital.exponent for capital in capitals], dtype=np.int64),
            **self._trail.tensors(),
            **waiting,
        }
        write(path, self._kind, facts, tensors)

    @classmethod
    def _made_with(cls, facts: dict[str, Any], sizes: NDArray[np.int64]) -> Self:
        n = dict(zip(facts["groups"], sizes.tolist(), strict=True)) if facts["has_groups"] else int(sizes[0])
        return cls(n, stored_fraction(facts["alpha"]), facts["alarm"], mature=mature_of(facts))  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a monitor that was saved; whatever is not intact is refused with one error."""
        facts, tensors = STORE.read(path)
        if facts["kind"] != cls._kind:
            raise ValueError(f"{path} must be a {cls._kind}; it is a {facts['kind']}, which another class loads.")
        monitor = cls._made_with(facts, tensors["urns"][:, 0])
        monitor._urns.restore(tensors["urns"], facts["nowhere"])
        monitor.rows, monitor.misses = (sum(counts.tolist()) for counts in (monitor._urns.rows, monitor._urns.misses))
        monitor.ignored, monitor.alarmed_at, monitor._log = facts["ignored"], facts["alarmed_at"], facts["log"]
        monitor._waiting.restore(monitor.rows + monitor.unlabelled, facts, tensors)
        capitals = zip(tensors["capital"].tolist(), tensors["exponents"].tolist(), strict=True)
        monitor._capital, monitor._steady = (Capital.of_numbers(*capital) for capital in capitals)
        monitor._trail = Trail.of_tensors(facts["every"], tensors)
        return monitor


class ErrorMonitor(CoverageMonitor):
    """Watches whether rows that are acted on are wrong more often than was allowed; few alarms are false.

    It bets against the claim that each row which is acted on is wrong with probability ``error`` at most, whatever came
    before. If that is so, the evidence ever reaches ``alarm`` in at most 1 of ``alarm`` deployments. Give it acted rows
    only: those that people decide say nothing about it. (:class:`CoverageMonitor` is another test, whose odds are those
    of a calibration rank.) A threshold with an assurance of 0.9 is itself bad in up to 1 of 10 calibrations, which
    the monitor then finds.

    Parameters
    ----------
    error : float, default=0.05
        The share of wrong rows that was allowed.
    alarm : float, default=100
        The evidence at which the alarm goes off.
    mature : int or timedelta, optional
        As in :class:`CoverageMonitor`: a row whose label does not come counts as right.

    Examples
    --------
    >>> import aptset
    >>> monitor = aptset.ErrorMonitor(error=0.05)
    >>> round(monitor.update(([False] * 19 + [True]) * 5).evidence, 2)
    0.97
    >>> monitor.update([True, False, False, False] * 30).alarmed_at
    137
    """

    _kind = "error_monitor"

    def __init__(self, error: float = 0.05, alarm: float = 100.0, *, mature: int | timedelta | None = None) -> None:
        validate.share(error, "error", "the share of wrong rows that is allowed")
        super().__init__(size_needed(validate.alpha(error)), error, alarm, mature=mature)
        self._urns, self._rates = betting.Rate(self._level), None

    @classmethod
    def _made_with(cls, facts: dict[str, Any], sizes: NDArray[np.int64]) -> Self:
        return cls(stored_fraction(facts["alpha"]), facts["alarm"], mature=mature_of(facts))  # type: ignore[arg-type]

    @property
    def error(self) -> float:
        """The share of wrong rows that was allowed."""
        return self.alpha

    @property
    def settings(self) -> dict[str, Any]:
        """What the monitor was made with."""
        return {"error": self.error, "alarm": self.alarm, "mature": self.mature}

    def update(  # type: ignore[override]
        self, wrong: ArrayLike | None, *, order: Any = None, time: Any = None, now: Any = None
    ) -> Self:
        """Take in whether rows that were acted on turned out wrong, one row or many; None: not known yet.

        The order is that of prediction; ``order``, ``time`` and ``now`` are those of :meth:`CoverageMonitor.update`.
        """
        outcomes = check_outcomes(wrong, "wrong")  # True is the first of the outcomes: here it is a miss
        return self._take(np.where(outcomes == UNKNOWN, outcomes, MISSED - outcomes), None, order, time, now)

    def _verdict(self) -> str:
        if self.rows == 0:
            return "No row yet."
        share = f"{self.misses:,} of {self.rows:,} rows acted on were wrong ({self.misses / self.rows:.1%}"
        share += f", allowed are {self.error:g})"
        verdict = f"ALARM at row {self.alarmed_at:,}" if self.alarmed else "No alarm"
        return f"{verdict}: {share}, {self.evidence_in_words()}."

    def __repr__(self) -> str:
        return f"ErrorMonitor(error={self.error:g}): {self.sentence()}"
