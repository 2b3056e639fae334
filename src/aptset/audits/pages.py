"""The page about an audit or a comparison: numbers and words as plain values, drawn by the report's own room."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Estimate
from aptset.audits.drift import Drift
from aptset.audits.results import Difference, Records, SplitResult, Splits
from aptset.metrics.coverage_distribution import CENTRE, FALSE_ALARMS, State, chances_of_sum, state_of
from aptset.metrics.estimates import in_p, percent, resampled_share
from aptset.reports.making import SPLITS, render_page

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
    least : float
        The smallest mean coverage that would not have contradicted the promise.
    is_high : bool
        With an exact law: whether coverage is higher than chance explains. The sets are then larger than needed.
    about : str
        What the promise is about, such as " for a row of a new patient"; empty for rows that stand alone.
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
    least: float = 0.0
    is_high: bool = False
    about: str = ""

    @property
    def state(self) -> State:
        """What the splits say: "agrees", "few" (too few rows to tell), "less" or "more" than promised."""
        return state_of(not self.kept, self.is_high, self.promise, self.least)

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        names = ("kept", "state", "promise", "chance", "low", "high", "least")
        return {"coverage": float(self.coverage), **{name: getattr(self, name) for name in names}}

    def sentence(self) -> str:
        """Return the verdict in words."""
        promise, least = f"{100 * self.promise:.4g} %{self.about}", percent(self.least, self.tested)
        verdict = {
            "agrees": f"agrees with {promise}; a coverage below {least} would have contradicted it",
            "few": f"too few rows to contradict {promise}; only a coverage below {least} would",
            "less": f"LESS than the promised {promise}",
            "more": f"more than the promised {promise}: sets are larger than needed, and the promise is kept",
        }[self.state]
        return (
            f"Mean coverage {percent(self.coverage, self.tested)}: {verdict} ({self._test()}).{self._about_left_out()}"
        )

    def _test(self) -> str:
        if self.chance is None:
            return f"interval {percent(self.coverage.low, self.tested)} to {percent(self.coverage.high, self.tested)}"
        ends = f"{percent(self.low or 0, self.tested)} and {percent(self.high or 0, self.tested)}"
        return f"exact {in_p(self.chance)}, level {self.false_alarms:.3g}; 95 of 100 valid audits lie between {ends}"

    def _about_left_out(self) -> str:
        if self.coverage_of_all is None:
            return ""
        return (
            f" {self.left_out:,} of {self.tested:,} test rows have labels that no training row has. No set can hold "
            f"them, and the test leaves them out; with them coverage is {percent(self.coverage_of_all, self.tested)}."
        )


def judge(
    results: list[SplitResult], alpha: Fraction, test_share: float, false_alarms: float = FALSE_ALARMS, about: str = ""
) -> Verdict:
    """Return the verdict on the splits of one candidate."""
    of_all = _mean_coverage(results, [one.rows for one in results], test_share, false_alarms)
    promise, tested = min(one.promise for one in results), sum(one.rows for one in results)
    laws = [one.laws for one in results if one.laws is not None]
    if len(laws) < len(results):
        least = promise - (of_all.high - float(of_all))
        of_law = (None, None, None, false_alarms, 0, tested, None, least)
        return Verdict(of_all.high >= promise, of_all, promise, *of_law, about=about)
    judged = [sum(m for m, _ in one) for one in laws]
    left_out = tested - sum(judged)
    used = max(1, _MOST_ROWS // max(one.rows for one in results))
    covered = sum(one.covered for one in results[:used])
    test = _exact([law for one in laws[:used] for law in one], covered, alpha, false_alarms)
    chance, low, high, least, is_high = test
    # Labels that no calibration knows have no law, but they count: too many of them break the promise over all rows.
    kept = chance >= false_alarms and (left_out == 0 or of_all.high >= promise)
    exact = (chance, low, high, false_alarms, left_out, tested, of_all if left_out else None, least, is_high)
    return Verdict(kept, _mean_coverage(results, judged, test_share, false_alarms), promise, *exact)


def _mean_coverage(results: list[SplitResult], judged: list[int], test_share: float, false_alarms: float) -> Estimate:
    shares = [
        one.metrics["coverage"] if one.over_clusters else one.covered / m if m else np.nan
        for one, m in zip(results, judged, strict=True)
    ]
    return resampled_share(np.array(shares), test_share, 1 - 2 * false_alarms)


def _exact(
    laws: list[tuple[int, int]], covered: int, alpha: Fraction, tail: float
) -> tuple[float, float, float, float, bool]:
    """Return the chance of so low a total, three quantiles of the law, and whether the total is too high.

    The quantiles, as shares of the judged rows, are those of the central 95 % and the one below which a total
    contradicts the promise.
    """
    chances = chances_of_sum(laws, alpha)
    below = np.cumsum(chances)
    low, high, least = (np.searchsorted(below, (*CENTRE, tail)) / max(1, sum(m for m, _ in laws))).tolist()
    return float(min(1.0, below[covered])), low, high, least, bool(chances[covered:].sum() < tail)


_HEADLINES: dict[State, str] = {
    "less": "Covers less than promised",
    "few": "Too few rows to contradict {promise}",
    "more": "Covers more than promised",
    "agrees": "Agrees with {promise}",
}


def worst_state(verdicts: dict[str, Verdict]) -> State:
    """Return the state that is said of all candidates together: of several the gravest."""
    return next(state for state in _HEADLINES if any(one.state == state for one in verdicts.values()))


def splits_page(
    title: str,
    splits: Splits,
    verdicts: dict[str, Verdict],
    alpha: float,
    how: str,
    drift: Drift | None = None,
    headline: str | None = None,
    sentences: list[str] | None = None,
    differences: Records[Difference] | None = None,
) -> str:
    """Return the page."""
    state = worst_state(verdicts)
    said = _HEADLINES[state].format(
        promise=" and ".join({f"{100 * one.promise:.4g} %": 0 for one in verdicts.values()})
    )
    if drift is not None and drift.warning:
        said, state = f"{said}, but {_alarm(drift)}", "more" if state == "agrees" else state
    data = _data(splits, alpha, drift, differences)
    page = {
        "title": title,
        "state": state,
        "headline": headline or said,
        "sentences": sentences or [],
        "verdicts": {name: verdict.sentence() for name, verdict in verdicts.items()},
        "how": how,
        "drift": None if drift is None else {"headline": _drift_headline(drift), "sentence": drift.sentence()},
        "has_differences": differences is not None,
        "metrics": data["metrics"],
        "parts": data["parts"],
    }
    return render_page("splits.html.jinja", SPLITS, page, data)


def _data(splits: Splits, alpha: float, drift: Drift | None, differences: Records[Difference] | None) -> dict[str, Any]:
    """Return what the script draws."""
    summary = splits.summary().as_json()
    metrics = {name: metric.heading for name, metric in splits.metrics.items() if _is_known(splits, name)}
    names = splits.candidates
    return {
        "alpha": alpha,
        "candidates": names,
        "metrics": metrics,
        "shares": [name for name in metrics if splits.metrics[name].unit != "labels"],
        "marked": [name for name in metrics if splits.metrics[name].aims_at_level],
        "parts": [part for part in ("label", "group") if any(row["part"] == part for row in summary)],
        "summary": summary,
        "values": {m: {name: _finite(splits.values(name, m)) for name in names} for m in metrics},
        "drift": None if drift is None else _finite(drift.coverage),
        "differences": None if differences is None else differences.as_json(),
    }


def _alarm(drift: Drift) -> str:
    return "rows repeat" if drift.found == ["repeats"] else "the rows drift"


def _drift_headline(drift: Drift) -> str:
    if drift.found == ["repeats"]:
        return "Warning: rows repeat"
    return "Warning: the rows do not look exchangeable" if drift.warning else "No sign of drift along the rows"


def _is_known(splits: Splits, metric: str) -> bool:
    return any(not math.isnan(value) for name in splits.candidates for value in splits.values(name, metric).tolist())


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers that JSON knows; what is not finite becomes None."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
