"""What many splits say: is the promise kept, and do the rows look exchangeable? The page of audits and comparisons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Estimate
from aptset.audits.dataset import Pool
from aptset.audits.results import Difference, Records, SplitResult, Splits, TestedRows
from aptset.core.runner import side_by_side
from aptset.metrics.coverage_distribution import CENTRE, FALSE_ALARMS, State, chances_of_sum, coverage_law, state_of
from aptset.metrics.estimates import in_p, percent, resampled_share
from aptset.metrics.exchangeability import (
    columns_of_features,
    columns_of_labels,
    new_labels_test,
    path_test,
    pieces,
    repeated_rows,
    repeats_test,
)
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
        common: dict[str, Any] = {"false_alarms": false_alarms, "tested": tested, "about": about}
        least = promise - (of_all.high - float(of_all))
        return Verdict(of_all.high >= promise, of_all, promise, None, None, None, least=least, **common)
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


# For all checks together. An audit may speak up for nothing in 0.01 of cases; verdicts are sharp and get the rest.
OF_DRIFT = 0.009
CHECKS = 5
LEVEL = OF_DRIFT / CHECKS  # of each check


@dataclass(frozen=True)
class Drift:
    """Whether rows look alike from first to last, and each drawn for itself.

    Splits are made of rows in an order that their content decides, so all that is found about a row depends on the
    rows and the seed, and not on where it stands: if rows are exchangeable, every reordering is as likely, and the
    share of reorderings that go as far is an exact p-value, given the rows and the seed.

    Attributes
    ----------
    warning : bool
        Whether one of the checks speaks up: for rows that are drawn independently from one source, in fewer than one of
        100 data sets.
    p_order : float
        Permutation test: do the p-values of the true labels, from random splits, wander along the order?
    p_labels, p_features : float, float or None
        Permutation tests: do the shares of the labels change along the order, do the features? None without features
        that are numbers or categories.
    p_last : float or None
        Exact test: trained and calibrated on the earlier rows, do the sets cover fewer of the last rows than the
        Beta-binomial law allows (or, with a promise for every label, do more of them have new labels than reorderings
        show)? None without such a law.
    p_repeats : float
        Do rows repeat in numbers that no independent draw makes, whatever the source?
    repeated : int
        Rows that occur more than once, label and all.
    coverage_of_last : float
        Coverage of the last rows when the earlier rows train and calibrate.
    coverage : array
        Mean coverage in ten pieces of the order, from random splits.
    monitor : str or None
        What a :class:`CoverageMonitor` says along the last rows when the earlier rows train and calibrate; None where
        their misses have no such law.
    times : str
        How the column of times was read, and from when to when it goes; "" where the order is that of the rows.
    """

    warning: bool
    p_order: float
    p_labels: float
    p_features: float | None
    p_last: float | None
    p_repeats: float
    repeated: int
    coverage_of_last: float
    coverage: NDArray[np.float64]
    monitor: str | None = None
    times: str = ""

    @property
    def found(self) -> list[str]:
        """The names of the checks that speak up: order, labels, features, last, repeats."""
        names = ("order", "labels", "features", "last", "repeats")
        return [name for name in names if speaks_up(getattr(self, f"p_{name}"))]

    def sentence(self) -> str:
        """Return the finding in words: each check has its level beside it, and the times how they were read."""
        read = f" The rows are ordered by their times, read as {self.times}." if self.times else ""
        return self._finding() + read + ("" if self.monitor is None else f" {self.monitor}")

    def _finding(self) -> str:
        tests = f"{in_p(self.p_order)} along the order, {_short(self.p_labels)} for the labels"
        tests += "" if self.p_features is None else f", {_short(self.p_features)} for the features"
        tests += "" if self.p_last is None else f", {_short(self.p_last)} for the last rows"
        tests += f"; a check warns at p <= {LEVEL:g}"
        repeats = f" {self.repeated:,} rows occur more than once." if self.repeated else ""
        if not self.warning:
            return f"No sign of drift ({tests}).{repeats}"
        along = self._along_the_order(tests) if self.found != ["repeats"] else f"No sign of drift ({tests})."
        return along + (f" {self._about_repeats()}" if "repeats" in self.found else repeats)

    def _along_the_order(self, tests: str) -> str:
        words = {"labels": "the shares of the labels change", "features": "the features change"}
        changes = [words[name] for name in self.found if name in words]
        what = f"; {' and '.join(changes)} along the order" if changes else ""
        return (
            f"The rows do not look exchangeable ({tests}){what}. Trained and calibrated on the earlier rows, "
            f"sets cover {self.coverage_of_last:.4g} of the last rows. The guarantee is about exchangeable "
            "rows: calibrate on recent rows, and again when the data change."
        )

    def _about_repeats(self) -> str:
        return (
            f"{self.repeated:,} rows occur more than once, more often than in independent draws ("
            f"{in_p(self.p_repeats)}). Copies of one row may train and test at once, so new rows may be covered less "
            "than these: keep one of each. (If the table was designed to hold every combination a fixed number of "
            "times, they need not be copies.)"
        )


def speaks_up(p_value: float | None) -> bool:
    """Tell whether one check alone speaks against the rows."""
    return p_value is not None and p_value <= LEVEL


def look_for_drift(
    tested: list[TestedRows],
    last: SplitResult,
    pool: Pool,
    alpha: Fraction,
    generator: np.random.Generator,
    is_by_label: bool = False,
) -> Drift:
    """Return what all checks say; ``last`` is the split whose test rows are the last ones."""
    order = np.argsort(pool.places(generator))

    def along_order(columns: NDArray[np.float64]) -> NDArray[np.float64]:
        return pieces(pool.means(columns)[order])

    def of_labels() -> NDArray[np.float64]:
        return along_order(columns_of_labels(pool.y))

    def test_two() -> tuple[float, float, NDArray[np.float64]]:
        (values, hits, times), labels = side_by_side([partial(_by_content, tested, pool.content), of_labels])
        # Rows of one cluster are no evidence each for itself: clusters stand for them, by the means of their rows.
        values, hits, times = (pool.means(one[:, None], times > 0)[:, 0] for one in (values, hits, times))
        tested_order = order[times[order] > 0]
        return path_test(values[tested_order, None], generator), path_test(labels, generator), hits[tested_order]

    # Features are ranked while the first tests draw; the generator draws in one order all the same.
    of_features = partial(columns_of_features, pool.X if pool.features is None else pool.features, along_order)
    (p_order, p_labels, hits), columns_by = side_by_side([test_two, of_features])
    columns = columns_by(generator)
    p_features = None if columns is None else path_test(columns, generator)
    p_last = None if last.laws is None else coverage_law(last.covered, last.laws, alpha).too_low
    if p_last is not None and is_by_label:
        p_last = min(1.0, 2 * min(p_last, new_labels_test(pool.y[order], last.rows, generator)))
    p_repeats = repeats_test(pool.content) if pool.clusters is None else 1.0  # rows of a cluster may well be alike
    warning = any(map(speaks_up, (p_order, p_labels, p_features, p_last, p_repeats)))
    means = np.array([piece.mean() if len(piece) else np.nan for piece in np.array_split(hits, 10)])
    p_values = (p_order, p_labels, p_features, p_last, p_repeats, repeated_rows(pool.content))
    share = last.metrics["coverage"] if last.over_clusters else last.covered / last.rows
    return Drift(warning, *p_values, share, means, last.monitor, pool.times)


def _by_content(
    tested: list[TestedRows], content: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each row's mean p-value and coverage over the splits that tested it or a copy of it, and their number.

    Copies share one value: which of them was tested must not matter, or the order would come back in.
    """
    which = content[np.concatenate([np.asarray(one.rows) for one in tested])]
    # Test rows of one split share its luck: take it out.
    values = np.concatenate([np.asarray(one.values) - np.mean(one.values) for one in tested])
    of_rows = (values, np.concatenate([one.hits for one in tested]), np.ones(len(which)))
    total, hits, times = (np.bincount(which, weights, content.max() + 1).astype(np.float64) for weights in of_rows)
    with np.errstate(invalid="ignore"):
        return (total / times)[content], (hits / times)[content], times[content]


def _short(p_value: float) -> str:
    return in_p(p_value).removeprefix("p = ").removeprefix("p ")


_HEADLINES: dict[State, str] = {
    "less": "Covers less than promised",
    "few": "Too few rows to contradict {promise}",
    "more": "Covers more than promised",
    "agrees": "Agrees with {promise}",
}


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
    state = next(state for state in _HEADLINES if any(one.state == state for one in verdicts.values()))  # the gravest
    said = _HEADLINES[state].format(
        promise=" and ".join({f"{100 * one.promise:.4g} %": 0 for one in verdicts.values()})
    )
    if drift is not None and drift.warning:
        alarm = "rows repeat" if drift.found == ["repeats"] else "the rows drift"
        said, state = f"{said}, but {alarm}", "more" if state == "agrees" else state
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


def _drift_headline(drift: Drift) -> str:
    if drift.found == ["repeats"]:
        return "Warning: rows repeat"
    return "Warning: the rows do not look exchangeable" if drift.warning else "No sign of drift along the rows"


def _is_known(splits: Splits, metric: str) -> bool:
    return any(not math.isnan(value) for name in splits.candidates for value in splits.values(name, metric).tolist())


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers that JSON knows; what is not finite becomes None."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
