"""The sentences of the report. Python fills them in for the page as it opens, the page's script for other levels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from aptset import Estimate, Evaluation
from aptset.core import validate
from aptset.metrics.coverage_distribution import (
    FALSE_ALARMS,
    NEGLIGIBLE,
    FoldCounts,
    chance_of_so_few,
    coverage_law,
    folds_chance,
    least_of_folds,
    state_of,
)
from aptset.metrics.estimates import percent, share_of_count
from aptset.metrics.evaluation import BETTER_THAN_ASKED
from aptset.metrics.evaluation_rows import EvaluationRows, Origin
from aptset.reports.measures import Partition

CONFIDENCE = 0.95  # of the intervals in the page


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
    shape_proxy = sum(len(part.names) for part in parts.values())
    low = []
    for kind, part in parts.items():
        rows = np.bincount(part.of_row, minlength=len(part.names)).tolist()
        hits = np.bincount(part.of_row, weights=covered, minlength=len(part.names)).astype(int).tolist()
        for which, name in enumerate(part.names):
            if laws is None:
                chance = chance_of_so_few(hits[which], rows[which], promise)
            else:
                chance = coverage_law(hits[which], laws[kind][which], validate.alpha(alpha)).too_low
            if chance < false_alarms / shape_proxy:
                low.append(PartInWords(kind, str(name), rows[which], hits[which] / rows[which], chance))
    return sorted(low, key=lambda part: part.chance)


MOST_PARTS = 5  # labels and groups that are named at the top

SENTENCES = {
    "promise": "The set of a new row holds its true label with probability at least {promise}.",
    "measured": (
        "{covered} of {rows} test rows are covered: {coverage} (95 % interval {low} to {high}). A set has {size} "
        "labels on average.{accuracy}"
    ),
    "accuracy": " The most likely label alone is right in {right} of the rows.",
    **BETTER_THAN_ASKED,
    "empty": "An empty set means that no label fits well enough at this level: treat the row as strange.",
    "empty_by_level": (
        "An empty set means that no label fits well enough at this level. Here most of them come from the level, not "
        "from strange rows."
    ),
    "law": (
        "With {n} calibration rows and {judged} test rows, chance alone puts the measured coverage between {law_low} "
        "and {law_high} in 95 of 100 cases."
    ),
    "law_open": (
        "With {n} calibration rows and {judged} test rows, chance alone lets the measured coverage fall to {law_low}; "
        "it is lower in 1 of 40 cases. It may be higher, since these sets are never empty or not randomised."
    ),
    "kept": (
        "The test rows agree with {promise}, and there are enough of them to tell: a coverage below {least} would have "
        "contradicted it, a shortfall of {points} points (at the {level} level). {law}"
    ),
    "few": (
        "There are too few rows to contradict {promise}: only a coverage below {least} would, a shortfall of {points} "
        "points (at the {level} level). {law}"
    ),
    "aside_low": (
        " The 95 % interval lies below {promise}. It allows for the randomness of the test rows only; the verdict "
        "allows for that of the {n} calibration rows, too."
    ),
    "aside_high": (
        " The 95 % interval lies above {promise}. It allows for the randomness of the test rows only; the verdict "
        "allows for that of the {n} calibration rows, too."
    ),
    "aside_open": " The 95 % interval lies above {promise}, as it may for such sets.",
    "low": (
        "The sets cover less than promised. If test rows and calibration rows were exchangeable, a coverage this low "
        "would have probability {chance} (judged at the {level} level). {law} Look for a distribution shift, and for "
        "calibration rows that were picked or trained on."
    ),
    "high": (
        "The sets cover more than promised. The promise is kept, and the sets are larger than needed. By chance a "
        "coverage this high has probability {chance} (judged at the {level} level). {law} Ties between scores do this, "
        "and test rows that are easier than the calibration rows."
    ),
    "every": "{n} calibration rows are too few for this level: every set holds every label.",
    "left_out": (
        " {left_out} test rows have labels that the calibration does not know. No set holds them, so the coverage "
        "counts them as missed; the verdict leaves them out."
    ),
    "folds": (
        "Each fold by itself is a split and can be tested exactly. The lowest of {folds} folds has p = {chance}, "
        "corrected for their number"
    ),
    "agrees": (
        "The test rows agree with {promise}, and there are enough of them to tell: a fold that covers less than "
        "{least} would have contradicted it (at the {level} level). {folds_law}."
    ),
    "few_folds": (
        "There are too few rows to contradict {promise}: only a fold that covers less than {least} would (at the "
        "{level} level). {folds_law}."
    ),
    "few_below": (
        "The measured coverage lies below {promise}, but there are too few rows to contradict it: only a fold that "
        "covers less than {least} would (at the {level} level). {folds_law}. The 95 % interval allows for the "
        "randomness of the test rows only, not for that of the {n} calibration rows."
    ),
    "low_folds": (
        "The sets cover less than promised (judged at the {level} level). {folds_law}. Look for a distribution shift "
        "between training rows and test rows."
    ),
    "apart": (
        "The sets cover as promised, but test rows and training rows do not look exchangeable (judged at the {level} "
        "level). {folds_law}."
    ),
    "agrees_small": (
        "The test rows agree with {promise}, and there are enough of them to tell: a coverage below {least} would have "
        "contradicted it (at the {level} level). {small}"
    ),
    "few_small": (
        "There are too few rows to contradict {promise}: only a coverage below {least} would (at the {level} level). "
        "{small}"
    ),
    "small": (
        "Folds of so few rows cannot be tested one by one; the test is that of a single split on {n} rows, which is "
        "exact only if the models of all folds are alike."
    ),
    "low_small": (
        "The sets cover less than promised: a coverage this low has probability {chance} (judged at the {level} "
        "level). {small}"
    ),
    "unknown": (
        "No verdict without the number of calibration rows, which says how much of a difference is chance. Pass n to "
        "evaluate, or make the report from the classifier or the calibration itself."
    ),
    "weighted": (
        "No verdict: with weights it is not known how much of a difference is chance. The promise holds if the weights "
        "are right and the test rows come from where they point."
    ),
    "clustered": (
        "No verdict: where rows belong together, the distribution of the coverage of one calibration is not "
        "known. The guarantee is about ABOUT."
    ),
    "part": "{part} {name}: {coverage} of {rows} rows, less than {limit}",
    "parts_law": (
        "Judged at the {level} level for all {looked_at} classes and groups together: rows scored like the calibration "
        "rows would not be covered so little by chance."
    ),
    "parts_open": (
        "Judged at the {level} level for all {looked_at} classes and groups together, against a coverage of {promise}; "
        "the randomness of the calibration is not taken into account."
    ),
    "parts_average": " The promise is an average over all rows and allows it.",
    "parts_within": " The promise was made within every {within}.",
    "parts_more": "{more} more, red in the tables below",
}
AGREES = "Agrees with {promise}"
FEW = "Too few rows to contradict {promise}"
LESS = "Covers less than promised"
HEADLINES = {
    "kept": AGREES,
    "agrees": AGREES,
    "agrees_small": AGREES,
    "few": FEW,
    "few_folds": FEW,
    "few_below": FEW,
    "few_small": FEW,
    "low": LESS,
    "low_folds": LESS,
    "low_small": LESS,
    "low_parts": "Covers less than promised in some classes or groups",
    "high": "Covers more than promised",
    "every": "Every set holds every label",
    "apart": "Test rows differ from the training rows",
    "uneven": "Covers some classes or groups less than others",
    "unknown": "No verdict",
}
# What a kind of verdict looks like: its colour and its sign. The page's style knows these four.
STATES = {
    **dict.fromkeys(("kept", "agrees", "agrees_small"), "agrees"),
    **dict.fromkeys(("few", "few_folds", "few_below", "few_small", "unknown"), "few"),
    **dict.fromkeys(("low", "low_folds", "low_small", "low_parts"), "less"),
    **dict.fromkeys(("high", "every", "apart", "uneven"), "more"),
}
# A finding about labels or groups changes these headlines only: the others are graver, or no verdict at all.
NOT_CONTRADICTED = [kind for kind, headline in HEADLINES.items() if headline in (AGREES, FEW)]


def sentences_of(origin: Origin) -> dict[str, str]:
    """Return the sentences of a page; why there is no verdict depends on the calibration."""
    if origin.about:
        about = origin.about.replace("{", "(").replace("}", ")")  # it holds the name of a column
        is_row = about.startswith("a row of")
        words = ("a new row", about) if is_row else ("its true label", "the answer of a random annotator")
        sentences = {**SENTENCES, "promise": SENTENCES["promise"].replace(*words)}
        return {**sentences, "unknown": SENTENCES["clustered"].replace("ABOUT", about)}
    return {**SENTENCES, "unknown": SENTENCES["weighted"]} if origin.is_weighted else SENTENCES


def share(value: float) -> str:
    """Write a share that is no count of rows, such as a promise, in percent with four digits, as the page does."""
    return f"{100 * float(value):.4g} %"


def number(value: float) -> str:
    """Write a number with four digits, as the page does."""
    return f"{value:.4g}"


class Words(NamedTuple):
    """What stands at the top of the page; ``kind`` is the name of the verdict, ``state`` what it looks like."""

    promise: str
    measured: str
    verdict: str
    parts: list[str]
    headline: str
    kind: str
    state: str
    advice: str


def first_words(evaluation: Evaluation, parts: dict[str, Partition] | None = None) -> Words:
    """Return the promise, the measurement and the verdict at the level of the evaluation; its rows must be known."""
    evidence, alpha, coverage = evaluation.evidence, evaluation.one_level, evaluation.coverage
    assert evidence is not None, "check_reportable asks for rows"
    origin, rows = evidence.origin, coverage.n
    measured = share_of_count(coverage.count or 0, rows, CONFIDENCE)  # the evaluation's may be another
    right = None if evaluation.model is None else percent(evaluation.model.accuracy, rows)
    facts = {
        "promise": share(origin.promise(alpha)),
        "rows": f"{rows:,}",
        "covered": f"{coverage.count:,}",
        "coverage": percent(coverage, rows),
        "low": percent(measured.low, rows),
        "high": percent(measured.high, rows),
        "accuracy": "" if right is None else SENTENCES["accuracy"].format(right=right),
        "size": number(evaluation.mean_size),
        "n": "" if origin.n is None else f"{origin.n:,}",
        "level": f"{100 * FALSE_ALARMS:.3g} %",
    }
    kind = _verdict(evidence, alpha, measured, facts)
    promise, measurement = (sentences_of(origin)[name].format(**facts) for name in ("promise", "measured"))
    about_others = SENTENCES["left_out"].format(**facts) if facts.get("left_out", "0") != "0" else ""
    verdict = sentences_of(origin)[kind].format(**facts) + _aside(origin, alpha, kind, measured, facts) + about_others
    about_parts, kind = _parts(evidence, parts or {}, alpha, kind, facts)
    headline = HEADLINES[kind].format(**facts)
    return Words(promise, measurement, verdict, about_parts, headline, kind, STATES[kind], evaluation.advice())


def _verdict(evidence: EvaluationRows, alpha: float, coverage: Estimate, facts: dict[str, str]) -> str:
    """Return the name of the verdict, and add what its sentence says to the facts."""
    origin, count = evidence.origin, coverage.count or 0
    if origin.folds is not None:
        return _verdict_on_folds(origin, origin.folds, alpha, coverage, facts)
    if origin.laws is None:
        return "unknown"
    tail = FALSE_ALARMS if origin.is_upper_open else FALSE_ALARMS / 2
    law, judged = coverage_law(count, origin.laws, validate.alpha(alpha), tail), sum(rows for rows, _ in origin.laws)
    facts |= {"law_low": percent(law.low, judged), "law_high": percent(law.high, judged), "judged": f"{judged:,}"}
    facts["left_out"] = f"{coverage.n - judged:,}"
    facts["law"] = SENTENCES["law_open" if origin.is_upper_open else "law"].format(**facts)
    if law.is_certain:
        return "every"
    is_low = law.too_low < tail
    facts["chance"] = _chance(law.too_low if is_low else law.too_high)
    # The coverage that would have contradicted the promise, and how many points short of it that is.
    facts["least"] = percent(law.least, judged)
    facts["points"] = number(math.floor(1000 * (origin.promise(alpha) - law.least) + 0.5) / 10)
    is_high = law.too_high < tail and not origin.is_upper_open
    state = state_of(is_low, is_high, origin.promise(alpha), law.least)
    return {"less": "low", "more": "high", "few": "few", "agrees": "kept"}[state]


def _verdict_on_folds(
    origin: Origin, folds: tuple[tuple[FoldCounts, ...], ...], alpha: float, coverage: Estimate, facts: dict[str, str]
) -> str:
    """Judge sets of several folds, by the law of each fold; if folds are too small for that, as if they were one."""
    promise, chance = origin.promise(alpha), folds_chance(folds, validate.alpha(alpha))
    facts["small"] = SENTENCES["small"].format(**facts)
    if chance is None:
        if not 0 < promise < 1:
            facts["least"] = percent(0.0, coverage.n)
            return "few_small"
        split = ((coverage.n, origin.n or 0),)
        law = coverage_law(coverage.count or 0, split, validate.alpha(1 - promise), FALSE_ALARMS)
        facts |= {"chance": _chance(law.too_low), "least": percent(law.least, coverage.n)}
        state = state_of(law.too_low < FALSE_ALARMS, False, promise, law.least)
        return {"less": "low_small", "few": "few_small"}.get(state, "agrees_small")
    least = least_of_folds(folds, validate.alpha(alpha))
    facts |= {"chance": _chance(chance), "folds": f"{len(folds):,}", "least": percent(least, coverage.n)}
    facts["folds_law"] = SENTENCES["folds"].format(**facts)
    if chance < FALSE_ALARMS:
        return "low_folds" if coverage < promise else "apart"
    if coverage.high < promise:
        return "few_below"
    return "few_folds" if state_of(False, False, promise, least) == "few" else "agrees"


def _chance(value: float) -> str:
    return number(value) if value >= NEGLIGIBLE else f"below {number(NEGLIGIBLE)}"


def _aside(origin: Origin, alpha: float, kind: str, coverage: Estimate, facts: dict[str, str]) -> str:
    """Say why the verdict agrees where the interval of the measured coverage excludes the promise."""
    promise = origin.promise(alpha)
    if kind not in ("kept", "few") or coverage.low <= promise <= coverage.high:
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
    sentences = []
    for low_part in low[:MOST_PARTS]:
        part = "class" if low_part.kind == "label" else "group"
        of_part = {
            "part": part,
            "name": low_part.name,
            "coverage": percent(low_part.coverage, low_part.rows),
            "rows": f"{low_part.rows:,}",
        }
        sentences.append(SENTENCES["part"].format(**of_part, limit=limit))
    if len(low) > MOST_PARTS:
        sentences.append(SENTENCES["parts_more"].format(more=f"{len(low) - MOST_PARTS:,}"))
    is_promised = any(low_part.kind == origin.within for low_part in low)
    of_all = facts | {"looked_at": f"{sum(len(part.names) for part in parts.values()):,}"}
    of_all["within"] = "class" if origin.within == "label" else "group"
    sentences.append(SENTENCES["parts_open" if origin.laws is None else "parts_law"].format(**of_all))
    if is_promised or kind in NOT_CONTRADICTED:
        sentences[-1] += SENTENCES["parts_within" if is_promised else "parts_average"].format(**of_all)
    return sentences, kind if kind not in NOT_CONTRADICTED else "low_parts" if is_promised else "uneven"
