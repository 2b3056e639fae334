"""The sentences of the report. Python fills them in for the page as it opens, the page's script for other levels."""

from __future__ import annotations

from typing import Any

from aptset.judging.estimates import Estimate, share_of_count
from aptset.judging.evidence import Evidence
from aptset.reports.laws import NEGLIGIBLE, coverage_law
from aptset.validation.settings import check_alpha

# A verdict speaks against the promise only if a valid calibration looks like this in fewer than one of 100 cases.
LEVEL = 0.01

SENTENCES = {
    "promise": "The set of a new row holds its true label with probability at least {promise}.",
    "measured": (
        "On {rows} test rows the set held the true label {covered} times: coverage {coverage}, 95 % interval {low} to "
        "{high}. A set has {size} labels on average."
    ),
    "law": "95 of 100 valid calibrations show a coverage between {law_low} and {law_high} on {judged} test rows",
    "law_open": (
        "39 of 40 valid calibrations show a coverage of at least {law_low} on {judged} test rows; how much more, the "
        "law cannot say, since these sets are never empty or made without chance"
    ),
    "kept": "The measurement agrees with the promise. After calibration on {n} rows, {law}.",
    "low": (
        "Coverage is lower than the promise allows. After calibration on {n} rows, {law}. A count this low or lower "
        "has chance {chance}. Test rows and calibration rows do not seem to come from one source."
    ),
    "high": (
        "Coverage is higher than the promise, and than chance explains. After calibration on {n} rows, {law}. A count "
        "this high or higher has chance {chance}. Ties between scores, or test rows that are easier than the "
        "calibration rows, do this."
    ),
    "every": "{n} calibration rows are too few for this level: every set holds every label.",
    "left_out": (
        " {left_out} test rows have labels that the calibration does not know: no set holds them, the coverage "
        "above counts them as missed, and the law leaves them out."
    ),
    "agrees": (
        "The measurement agrees with the promise: the interval of the coverage does not lie below {promise}. This "
        "calibration has no exact law, so nothing sharper can be said."
    ),
    "below": (
        "The whole interval lies below {promise}. The promise is an average over calibrations, and this calibration "
        "has no exact law that says how unlucky a single one can be; or test rows and calibration rows do not come "
        "from one source."
    ),
    "unknown": (
        "No verdict without the number of calibration rows: it says how lucky or unlucky a single calibration can be. "
        "Pass n to evaluate, or make the report from the classifier or the calibration itself."
    ),
}
HEADLINES = {
    "kept": "Agrees with the promise",
    "low": "Coverage too low",
    "high": "Higher than promised",
    "every": "Every label",
    "agrees": "Agrees with the promise",
    "below": "Below the promise, without an exact law",
    "unknown": "No verdict",
}


def number(value: float) -> str:
    """Write a number with four digits, as the page does."""
    return f"{value:.4g}"


def first_words(
    evidence: Evidence, alpha: float, coverage: Estimate, size: Estimate, confidence: float
) -> dict[str, Any]:
    """Return the promise, the measurement and the verdict at the level of the evaluation."""
    origin = evidence.origin
    measured = share_of_count(coverage.count or 0, coverage.n, confidence)  # the evaluation's may be another
    facts = {
        "promise": number(origin.promise(alpha)),
        "rows": f"{coverage.n:,}",
        "covered": f"{coverage.count:,}",
        "coverage": number(coverage),
        "low": number(measured.low),
        "high": number(measured.high),
        "size": number(size),
        "n": "" if origin.n is None else f"{origin.n:,}",
    }
    kind = _verdict(evidence, alpha, measured, facts)
    words = {name: SENTENCES[name].format(**facts) for name in ("promise", "measured")}
    about_others = SENTENCES["left_out"].format(**facts) if facts.get("left_out", "0") != "0" else ""
    return {
        **words,
        "verdict": SENTENCES[kind].format(**facts) + about_others,
        "headline": HEADLINES[kind],
        "kind": kind,
    }


def _verdict(evidence: Evidence, alpha: float, coverage: Estimate, facts: dict[str, str]) -> str:
    """Return the name of the verdict, and add what its sentence says to the facts."""
    origin, count = evidence.origin, coverage.count or 0
    if origin.laws is None:
        below = "below" if coverage.high < origin.promise(alpha) else "agrees"
        return "unknown" if origin.calibration is None else below
    law, judged = coverage_law(count, origin.laws, check_alpha(alpha)), sum(rows for rows, _ in origin.laws)
    facts |= {"law_low": number(law.low), "law_high": number(law.high), "judged": f"{judged:,}"}
    facts["left_out"] = f"{coverage.n - judged:,}"
    facts["law"] = SENTENCES["law_open" if origin.is_upper_open else "law"].format(**facts)
    if law.is_certain:
        return "every"
    is_low = law.too_low < (LEVEL if origin.is_upper_open else LEVEL / 2)
    chance = law.too_low if is_low else law.too_high
    facts["chance"] = number(chance) if chance >= NEGLIGIBLE else f"below {number(NEGLIGIBLE)}"
    is_high = law.too_high < LEVEL / 2 and not origin.is_upper_open
    return "low" if is_low else "high" if is_high else "kept"
