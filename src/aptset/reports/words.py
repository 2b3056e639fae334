"""The sentences of the report. Python fills them in for the page as it opens, the page's script for other levels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aptset import Estimate
from aptset.core.validate import check_alpha
from aptset.metrics.coverage_distribution import NEGLIGIBLE, FoldCounts, chance_of_so_few, coverage_law, folds_chance
from aptset.metrics.estimates import share_of_count
from aptset.metrics.evaluation_rows import EvaluationRows, Origin
from aptset.reports.measures import Partition


class PartInWords(NamedTuple):
    """A label or a group that is covered too little."""

    kind: str
    name: str
    rows: int
    coverage: float
    chance: float


def laws_of_parts(origin: Origin, parts: dict[str, Partition]) -> dict[str, list[Any]] | None:
    """Return the laws of each label and group; None without one.

    The law of a part is the one that its count follows if its rows are scored like those that calibrated.
    """
    if origin.group_of_row is None:
        return None
    return {
        name: [origin.laws_of(origin.group_of_row[part.of_row == which]) for which in range(len(part.names))]
        for name, part in parts.items()
    }


def too_low(
    evidence: EvaluationRows, parts: dict[str, Partition], alpha: float, false_alarms: float
) -> list[PartInWords]:
    """Return the labels and groups with too few covered rows, rarest first; false alarms are shared by all of them.

    With a law: a count so low would be rare if the rows of the part were scored no worse than those that calibrated.
    The luck of the calibration is in it. Without one: if these very sets covered the promised share of such rows.
    """
    covered, promise = evidence.covered_at(alpha), evidence.origin.promise(alpha)
    laws = laws_of_parts(evidence.origin, parts)
    looked_at = sum(len(part.names) for part in parts.values())
    low = []
    for kind, part in parts.items():
        rows = np.bincount(part.of_row, minlength=len(part.names)).tolist()
        hits = np.bincount(part.of_row, weights=covered, minlength=len(part.names)).astype(int).tolist()
        for which, name in enumerate(part.names):
            if laws is None:
                chance = chance_of_so_few(hits[which], rows[which], promise)
            else:
                chance = coverage_law(hits[which], laws[kind][which], check_alpha(alpha)).too_low
            if chance < false_alarms / looked_at:
                low.append(PartInWords(kind, str(name), rows[which], hits[which] / rows[which], chance))
    return sorted(low, key=lambda one: one.chance)


# A verdict speaks against the promise only if a valid calibration looks like this in fewer than one of 100 cases.
FALSE_ALARMS = 0.01
MOST_PARTS = 5  # labels and groups that are named at the top

SENTENCES = {
    "promise": "The set of a new row holds its true label with probability at least {promise}.",
    "measured": (
        "On {rows} test rows the set held the true label {covered} times: coverage {coverage}, 95 % interval {low} to "
        "{high}. A set has {size} labels on average.{accuracy}"
    ),
    "accuracy": " The first guess of the model alone is right in {right} of the rows.",
    "law": "95 of 100 valid calibrations show a coverage between {law_low} and {law_high} on {judged} test rows",
    "law_open": (
        "39 of 40 valid calibrations show a coverage of at least {law_low} on {judged} test rows; how much more, the "
        "law cannot say, since these sets are never empty or made without chance"
    ),
    "kept": "At the {level} level the measurement agrees with the promise. After calibration on {n} rows, {law}.",
    "aside_low": (
        " The interval above lies below {promise} all the same: it knows the luck of the test rows only, the law also "
        "that of the {n} calibration rows."
    ),
    "aside_high": (
        " The interval above lies above {promise} all the same: it knows the luck of the test rows only, the law also "
        "that of the {n} calibration rows."
    ),
    "aside_open": " The interval above lies above {promise} all the same, as such sets may.",
    "low": (
        "Coverage is lower than the promise allows, at the {level} level. After calibration on {n} rows, {law}. A "
        "count this low or lower has chance {chance}. Test rows and calibration rows do not seem to come from one "
        "source."
    ),
    "high": (
        "Coverage is higher than the promise, and than chance explains, at the {level} level. After calibration on {n} "
        "rows, {law}. A count this high or higher has chance {chance}. Ties between scores, or test rows that are "
        "easier than the calibration rows, do this."
    ),
    "every": "{n} calibration rows are too few for this level: every set holds every label.",
    "left_out": (
        " {left_out} test rows have labels that the calibration does not know: no set holds them, the coverage "
        "above counts them as missed, and the law leaves them out."
    ),
    "folds": (
        "Each fold by itself is a split with an exact law; corrected for {folds} folds, one as far off as the furthest "
        "has chance {chance}"
    ),
    "agrees": "At the {level} level the measurement agrees with the promise. {folds_law}.",
    "below": (
        "The whole interval lies below {promise}, but at the {level} level chance allows it. {folds_law}. The interval "
        "knows the luck of the test rows only, not that of the {n} calibration rows."
    ),
    "low_folds": (
        "Coverage is lower than the promise, and than chance allows, at the {level} level. {folds_law}. Test rows and "
        "training rows do not seem to come from one source."
    ),
    "apart": (
        "Coverage is not below the promise, but at the {level} level test rows and training rows do not seem to come "
        "from one source. {folds_law}."
    ),
    "agrees_small": (
        "At the {level} level the measurement agrees with the promise. Folds of so few rows have no law of their own "
        "at this level: the test is the one of a single split on {n} rows that promises {promise}, which is exact only "
        "if the models of all folds are alike."
    ),
    "low_small": (
        "Coverage is lower than the promise, and than chance allows, at the {level} level, if the models of all folds "
        "are alike: after a single split on {n} rows that promises {promise}, a count this low has chance {chance}. "
        "(Folds of so few rows have no law of their own at this level; models that change much with one row could be "
        "so unlucky.)"
    ),
    "unknown": (
        "No verdict without the number of calibration rows: it says how lucky or unlucky a single calibration can be. "
        "Pass n to evaluate, or make the report from the classifier or the calibration itself."
    ),
    "weighted": (
        "No verdict: with weights no law says how lucky or unlucky a single calibration can be. The promise is about "
        "weights that are right, and about test rows from where they point."
    ),
    "clustered": (
        "No verdict: where rows belong together no law says how lucky or unlucky a single calibration can be. The "
        "promise is about ABOUT."
    ),
    "part": "{part} {name}: {coverage} of {rows} rows, less than {limit}",
    "parts_law": (
        "Judged at the {level} level for all {looked_at} classes and groups together, against the chance that rows "
        "scored like those that calibrated are covered so little."
    ),
    "parts_open": (
        "Judged at the {level} level for all {looked_at} classes and groups together, against the chance that a share "
        "of {promise} shows so few on these test rows; the luck of the calibration is not in it."
    ),
    "parts_average": " The promise is an average over all rows and allows it.",
    "parts_within": " The promise was made within every {within}.",
    "parts_more": "{more} more, red in the tables below",
}
HEADLINES = {
    "kept": "Agrees with the promise",
    "low": "Coverage too low",
    "high": "Higher than promised",
    "every": "Every label",
    "agrees": "Agrees with the promise",
    "agrees_small": "Agrees with the promise",
    "below": "Below the promise, by chance or not",
    "low_folds": "Coverage too low",
    "low_small": "Coverage too low",
    "apart": "Test rows are unlike the training rows",
    "low_parts": "Coverage too low in places",
    "uneven": "Agrees with the promise on average, but not everywhere",
    "unknown": "No verdict",
}
# A finding about labels or groups changes these headlines only: the others are graver, or no verdict at all.
AGREES = ("kept", "agrees", "agrees_small")


def sentences_of(origin: Origin) -> dict[str, str]:
    """Return the sentences of a page; why there is no verdict depends on the calibration."""
    if origin.about:
        about = origin.about.replace("{", "(").replace("}", ")")  # it holds the name of a column
        is_row = about.startswith("a row of")
        words = ("a new row", about) if is_row else ("its true label", "the answer of a random annotator")
        sentences = {**SENTENCES, "promise": SENTENCES["promise"].replace(*words)}
        return {**sentences, "unknown": SENTENCES["clustered"].replace("ABOUT", about)}
    return {**SENTENCES, "unknown": SENTENCES["weighted"]} if origin.is_weighted else SENTENCES


def accuracy_of(evidence: EvaluationRows) -> float | None:
    """Return how often the most likely label is the true one, if probabilities are known."""
    if evidence.probabilities is None:
        return None
    first = evidence.sets.classes[np.argmax(evidence.probabilities, axis=1)].tolist()
    right = sum(bool(guess == label) for guess, label in zip(first, evidence.labels.tolist(), strict=True))
    return right / len(first)


def share(value: float) -> str:
    """Write a share in percent with four digits, as the page does."""
    return f"{100 * float(value):.4g} %"


def number(value: float) -> str:
    """Write a number with four digits, as the page does."""
    return f"{value:.4g}"


class Words(NamedTuple):
    """What stands at the top of the page; ``kind`` is the name of the verdict."""

    promise: str
    measured: str
    verdict: str
    parts: list[str]
    headline: str
    kind: str


def first_words(
    evidence: EvaluationRows,
    alpha: float,
    coverage: Estimate,
    size: Estimate,
    confidence: float,
    parts: dict[str, Partition] | None = None,
) -> Words:
    """Return the promise, the measurement and the verdict at the level of the evaluation."""
    origin, accuracy = evidence.origin, accuracy_of(evidence)
    measured = share_of_count(coverage.count or 0, coverage.n, confidence)  # the evaluation's may be another
    facts = {
        "promise": share(origin.promise(alpha)),
        "rows": f"{coverage.n:,}",
        "covered": f"{coverage.count:,}",
        "coverage": share(coverage),
        "low": share(measured.low),
        "high": share(measured.high),
        "accuracy": "" if accuracy is None else SENTENCES["accuracy"].format(right=share(accuracy)),
        "size": number(size),
        "n": "" if origin.n is None else f"{origin.n:,}",
        "level": f"{100 * FALSE_ALARMS:.3g} %",
    }
    kind = _verdict(evidence, alpha, measured, facts)
    promise, measurement = (sentences_of(origin)[name].format(**facts) for name in ("promise", "measured"))
    about_others = SENTENCES["left_out"].format(**facts) if facts.get("left_out", "0") != "0" else ""
    verdict = sentences_of(origin)[kind].format(**facts) + _aside(origin, alpha, kind, measured, facts) + about_others
    about_parts, kind = _parts(evidence, parts or {}, alpha, kind, facts)
    return Words(promise, measurement, verdict, about_parts, HEADLINES[kind], kind)


def _verdict(evidence: EvaluationRows, alpha: float, coverage: Estimate, facts: dict[str, str]) -> str:
    """Return the name of the verdict, and add what its sentence says to the facts."""
    origin, count = evidence.origin, coverage.count or 0
    if origin.folds is not None:
        return _verdict_on_folds(origin, origin.folds, alpha, coverage, facts)
    if origin.laws is None:
        return "unknown"
    law, judged = coverage_law(count, origin.laws, check_alpha(alpha)), sum(rows for rows, _ in origin.laws)
    facts |= {"law_low": share(law.low), "law_high": share(law.high), "judged": f"{judged:,}"}
    facts["left_out"] = f"{coverage.n - judged:,}"
    facts["law"] = SENTENCES["law_open" if origin.is_upper_open else "law"].format(**facts)
    if law.is_certain:
        return "every"
    is_low = law.too_low < (FALSE_ALARMS if origin.is_upper_open else FALSE_ALARMS / 2)
    facts["chance"] = _chance(law.too_low if is_low else law.too_high)
    is_high = law.too_high < FALSE_ALARMS / 2 and not origin.is_upper_open
    return "low" if is_low else "high" if is_high else "kept"


def _verdict_on_folds(
    origin: Origin, folds: tuple[tuple[FoldCounts, ...], ...], alpha: float, coverage: Estimate, facts: dict[str, str]
) -> str:
    """Judge sets of several folds, by the law of each fold; if folds are too small for that, as if they were one."""
    promise, chance = origin.promise(alpha), folds_chance(folds, check_alpha(alpha))
    if chance is None:
        if not 0 < promise < 1:
            return "agrees_small"
        law = coverage_law(coverage.count or 0, ((coverage.n, origin.n or 0),), check_alpha(1 - promise))
        facts["chance"] = _chance(law.too_low)
        return "low_small" if law.too_low < FALSE_ALARMS else "agrees_small"
    facts |= {"chance": _chance(chance), "folds": f"{len(folds):,}"}
    facts["folds_law"] = SENTENCES["folds"].format(**facts)
    if chance < FALSE_ALARMS:
        return "low_folds" if coverage < promise else "apart"
    return "below" if coverage.high < promise else "agrees"


def _chance(value: float) -> str:
    return number(value) if value >= NEGLIGIBLE else f"below {number(NEGLIGIBLE)}"


def _aside(origin: Origin, alpha: float, kind: str, coverage: Estimate, facts: dict[str, str]) -> str:
    """Say why the verdict agrees where the interval of the measured coverage excludes the promise."""
    promise = origin.promise(alpha)
    if kind != "kept" or coverage.low <= promise <= coverage.high:
        return ""
    above = "aside_open" if origin.is_upper_open else "aside_high"
    return SENTENCES["aside_low" if coverage.high < promise else above].format(**facts)


def _parts(
    evidence: EvaluationRows, parts: dict[str, Partition], alpha: float, kind: str, facts: dict[str, str]
) -> tuple[list[str], str]:
    """Return what is said of labels and groups, and the name of the verdict with them in mind."""
    origin, low = evidence.origin, too_low(evidence, parts, alpha, FALSE_ALARMS)
    if not low:
        return [], kind
    limit = facts["promise"] if origin.laws is None else "chance allows"
    said = []
    for one in low[:MOST_PARTS]:
        part = "class" if one.kind == "label" else "group"
        of_part = {"part": part, "name": one.name, "coverage": share(one.coverage), "rows": f"{one.rows:,}"}
        said.append(SENTENCES["part"].format(**of_part, limit=limit))
    if len(low) > MOST_PARTS:
        said.append(SENTENCES["parts_more"].format(more=f"{len(low) - MOST_PARTS:,}"))
    is_promised = any(one.kind == origin.within for one in low)
    of_all = facts | {"looked_at": f"{sum(len(part.names) for part in parts.values()):,}"}
    of_all["within"] = "class" if origin.within == "label" else "group"
    said.append(SENTENCES["parts_open" if origin.laws is None else "parts_law"].format(**of_all))
    if is_promised or kind in AGREES:
        said[-1] += SENTENCES["parts_within" if is_promised else "parts_average"].format(**of_all)
    return said, kind if kind not in AGREES else "low_parts" if is_promised else "uneven"
