"""Who decides: how many rows could be acted on, by the error that is allowed; what is promised, and what was measured.

Jin and Candès 2023 for a batch, docs/design/0024 for a threshold.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset import Acceptance
from aptset.metrics.evaluation_rows import EvaluationRows
from aptset.reports.words import share

ERRORS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
ASSURANCE = 0.9
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520.0, 190.0, 44.0, 206.0


class CurveRow(NamedTuple):
    """One error that is allowed, and for each rule the share of rows acted on and the share of these that is wrong."""

    error: str
    threshold: str
    threshold_wrong: str
    batch: str
    batch_wrong: str
    estimate: str


def who_decides(source: Any, evidence: EvaluationRows | None) -> dict[str, Any] | None:
    """Return what the page says about acting; None for sources that kept no rows to learn it from."""
    fitted = getattr(source, "fitted_", None)
    if evidence is None or evidence.probabilities is None or getattr(fitted, "decisions", None) is None:
        return None
    rule = source.acceptance_
    probabilities = np.asarray(evidence.probabilities)
    confidence = probabilities.max(axis=1).astype(np.float64)
    is_wrong = probabilities.argmax(axis=1) != evidence.columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few rows show as a share of 0
        numbers = [_at(rule, confidence, is_wrong, error) for error in ERRORS]
    lines = [CurveRow(share(e), *(_words(one) for one in rest)) for e, rest in zip(ERRORS, numbers, strict=True)]
    curves = {name: _points([row[k] or 0.0 for row in numbers]) for name, k in (("threshold", 0), ("batch", 2))}
    ticks = [(_x(error), f"{error:.0%}") for error in (0.01, 0.05, 0.1, 0.15, 0.2)]
    return {
        "lines": lines,
        "n": f"{rule.n:,}",
        "assurance": f"{ASSURANCE:.0%}",
        "curves": {**curves, "estimate": _points([row[4] or 0.0 for row in numbers])},
        "x_ticks": ticks,
        "y_ticks": [(_y(part), f"{part:.0%}") for part in (0.0, 0.25, 0.5, 0.75, 1.0)],
    }


def _at(
    rule: Acceptance, confidence: NDArray[np.float64], is_wrong: NDArray[np.bool_], error: float
) -> list[float | None]:
    """Return share acted on and share wrong by one threshold and as a batch, and the share that the curve estimates."""
    threshold = rule.threshold(error, ASSURANCE)
    nobody = np.zeros(len(confidence))
    by_threshold = threshold.above(confidence, nobody, None)
    batch = rule.above_in_batch(confidence, error)
    wrong = np.cumsum(rule.is_wrong) / np.arange(1, rule.n + 1)
    fits = np.flatnonzero(wrong <= error)
    estimate = float((fits[-1] + 1) / rule.n) if len(fits) else 0.0
    measured: list[float | None] = []
    for act in (by_threshold, batch):
        measured += [float(act.mean()), float(is_wrong[act].mean()) if act.any() else None]
    return [*measured, estimate]


def _words(value: float | None) -> str:
    return "none" if value is None else share(value)


def _x(error: float) -> float:
    return round(_LEFT + _WIDTH * error / ERRORS[-1], 1)


def _y(part: float) -> float:
    return round(_BOTTOM - _HEIGHT * part, 1)


def _points(shares: list[float]) -> str:
    return " ".join(f"{_x(error)},{_y(part)}" for error, part in zip(ERRORS, shares, strict=True))
