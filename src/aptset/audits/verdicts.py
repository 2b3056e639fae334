"""Was the promise kept over many random splits? Exactly, where the calibration has an exact law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from aptset.audits.results import SplitResult
from aptset.metrics.coverage_distribution import CENTRE, chances_of_sum
from aptset.metrics.estimates import Estimate, resampled_share

# All that an audit or a comparison says is wrong for a valid calibration in at most this share of cases.
FALSE_ALARMS = 0.01
_MOST_ROWS = 2**23  # test rows over all splits that the exact law is worked out for


@dataclass(frozen=True)
class Verdict:
    """What the splits say about the promise.

    Attributes
    ----------
    kept : bool
        False if the coverage is lower than the promise allows, at a share ``false_alarms``.
    coverage : Estimate
        Mean coverage over the splits, of the rows that are judged; its interval knows that splits share rows.
    promise : float
        What the theorem promises.
    chance : float or None
        With an exact law: the chance, under a valid calibration, of a total as low as the one found.
    low, high : float or None
        With an exact law: where 95 of 100 valid audits lie.
    false_alarms : float
        A valid calibration is called broken in at most this share of cases: what an audit may get wrong, 0.01, is
        shared out over its verdicts and checks.
    left_out, tested : int
        With a promise for every label: test rows whose label no calibration can know, over all splits, and all test
        rows. No set can hold these labels and no law speaks of them, so the law judges the other rows.
    coverage_of_all : Estimate or None
        Mean coverage of all test rows, if some are left out.
    """

    kept: bool
    coverage: Estimate
    promise: float
    chance: float | None
    low: float | None
    high: float | None
    false_alarms: float = FALSE_ALARMS
    left_out: int = 0
    tested: int = 0
    coverage_of_all: Estimate | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        names = ("kept", "promise", "chance", "low", "high")
        return {"coverage": float(self.coverage), **{name: getattr(self, name) for name in names}}

    def sentence(self) -> str:
        """Return the verdict in words."""
        coverage = f"Coverage {float(self.coverage):.4g} on average"
        if self.chance is None:
            words = "is at least the promise" if self.kept else "is LOWER than the promise"
            interval = f"interval {self.coverage.low:.4g} to {self.coverage.high:.4g}"
            return f"{coverage} {words}, {self.promise:.4g} ({interval})."
        law = f"95 of 100 valid audits lie between {self.low:.4g} and {self.high:.4g}, chance of so low a count"
        shown = "< 0.0001" if self.chance < 1e-4 else f"{self.chance:.3g}"
        end = f"{law} {shown} (exact; judged at level {self.false_alarms:.3g}).{self._about_left_out()}"
        words = "agrees with the promise of" if self.kept else "the promise is NOT kept:"
        return f"{coverage}{' ' if self.kept else ': '}{words} {self.promise:.4g}; {end}"

    def _about_left_out(self) -> str:
        if self.coverage_of_all is None:
            return ""
        return (
            f" {self.left_out:,} of {self.tested:,} test rows have labels that no training row has: no set can hold "
            f"them, the law leaves them out, and with them coverage is {float(self.coverage_of_all):.4g}."
        )


def judge(
    results: list[SplitResult], alpha: Fraction, test_share: float, false_alarms: float = FALSE_ALARMS
) -> Verdict:
    """Return the verdict on the splits of one candidate."""
    of_all = _mean_coverage(results, [one.rows for one in results], test_share, false_alarms)
    promise = min(one.promise for one in results)
    laws = [one.laws for one in results if one.laws is not None]
    if len(laws) < len(results):
        return Verdict(of_all.high >= promise, of_all, promise, None, None, None, false_alarms)
    judged = [sum(m for m, _ in one) for one in laws]
    tested = sum(one.rows for one in results)
    left_out = tested - sum(judged)
    used = max(1, _MOST_ROWS // max(one.rows for one in results))
    covered = sum(one.covered for one in results[:used])
    chance, low, high = _exact([law for one in laws[:used] for law in one], covered, alpha)
    # Labels that no calibration knows have no law, but they count: too many of them break the promise over all rows.
    kept = chance >= false_alarms and (left_out == 0 or of_all.high >= promise)
    exact = (chance, low, high, false_alarms, left_out, tested, of_all if left_out else None)
    return Verdict(kept, _mean_coverage(results, judged, test_share, false_alarms), promise, *exact)


def _mean_coverage(results: list[SplitResult], judged: list[int], test_share: float, false_alarms: float) -> Estimate:
    shares = [one.covered / m if m else np.nan for one, m in zip(results, judged, strict=True)]
    return resampled_share(np.array(shares), test_share, 1 - 2 * false_alarms)


def _exact(laws: list[tuple[int, int]], covered: int, alpha: Fraction) -> tuple[float, float, float]:
    """Return the chance of so low a total, and where the central 95 % of the law lie, as shares of the judged rows."""
    below = np.cumsum(chances_of_sum(laws, alpha))
    low, high = np.searchsorted(below, CENTRE) / max(1, sum(m for m, _ in laws))
    return float(min(1.0, below[covered])), float(low), float(high)
