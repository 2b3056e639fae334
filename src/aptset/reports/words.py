"""The sentences of the report. Python fills them in for the page as it opens, the page's script for other levels."""

from __future__ import annotations

from typing import Any

from aptset.estimates import Estimate
from aptset.evidence import Evidence
from aptset.planning import coverage_test

# A verdict speaks against the promise only if a valid calibration looks like this in fewer than one of 100 cases.
LEVEL = 0.01

SENTENCES = {
    "promise": "The set of a new row holds its true label with probability at least {promise}.",
    "measured": (
        "On {rows} test rows the set held the true label {covered} times: coverage {coverage}, 95 % interval {low} to "
        "{high}. A set has {size} labels on average."
    ),
    "kept": (
        "The measurement agrees with the promise. After calibration on {n} rows, 95 of 100 valid calibrations show a "
        "coverage between {law_low} and {law_high} on {rows} test rows."
    ),
    "low": (
        "Coverage is lower than the promise allows. After calibration on {n} rows, 95 of 100 valid calibrations show "
        "{law_low} to {law_high}; a count this low or lower has chance {chance}. Test rows and calibration rows do not "
        "seem to come from one source."
    ),
    "high": (
        "The promise is kept, but coverage is higher than chance explains. After calibration on {n} rows, 95 of 100 "
        "valid calibrations show {law_low} to {law_high}; a count this high or higher has chance {chance}. Ties "
        "between scores, or test rows that are easier than the calibration rows, do this."
    ),
    "every": "{n} calibration rows are too few for this level: every set holds every label.",
    "kept_by_interval": (
        "The measurement agrees with the promise: the interval of the coverage does not lie below {promise}."
    ),
    "low_by_interval": (
        "Coverage is lower than promised: the whole interval lies below {promise}. The promise is an average over "
        "calibrations, so a single one may be unlucky; or test rows and calibration rows do not come from one source."
    ),
}
HEADLINES = {"kept": "Promise kept", "low": "Coverage too low", "high": "Kept, with room", "every": "Every label"}


def number(value: float) -> str:
    """Write a number with four digits, as the page does."""
    return f"{value:.4g}"


def first_words(evidence: Evidence, alpha: float, coverage: Estimate, size: Estimate) -> dict[str, Any]:
    """Return the promise, the measurement and the verdict at the level of the evaluation."""
    origin = evidence.origin
    facts = {
        "promise": number(origin.promise(alpha)),
        "rows": f"{coverage.n:,}",
        "covered": f"{coverage.count:,}",
        "coverage": number(coverage),
        "low": number(coverage.low),
        "high": number(coverage.high),
        "size": number(size),
        "n": "" if origin.n is None else f"{origin.n:,}",
    }
    kind = _verdict(evidence, alpha, coverage, facts)
    words = {name: SENTENCES[name].format(**facts) for name in ("promise", "measured")}
    return {
        **words,
        "verdict": SENTENCES[kind].format(**facts),
        "headline": HEADLINES[kind.split("_")[0]],
        "kind": kind,
    }


def _verdict(evidence: Evidence, alpha: float, coverage: Estimate, facts: dict[str, str]) -> str:
    """Return the name of the verdict, and add what its sentence says to the facts."""
    origin, count = evidence.origin, coverage.count or 0
    if origin.n_of_law is None:
        return "low_by_interval" if coverage.high < origin.promise(alpha) else "kept_by_interval"
    test = coverage_test(count, m=coverage.n, n=origin.n_of_law, alpha=alpha)
    facts |= {"law_low": number(test.low), "law_high": number(test.high)}
    if test.low == 1.0 and test.expected == 1.0:
        return "every"
    is_low = test.too_low < (LEVEL if origin.is_upper_open else LEVEL / 2)
    facts["chance"] = number(test.too_low if is_low else test.too_high)
    is_high = test.too_high < LEVEL / 2 and not origin.is_upper_open
    return "low" if is_low else "high" if is_high else "kept"
