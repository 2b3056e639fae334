"""Rows that a split held out, one by one: from them a classifier learns when to act on its guess, and when to ask.

The threshold of confidence is learned on one half of these rows. Sets for the rows that it leaves to a person are
calibrated on the rows of the other half that it leaves: given the threshold these are exchangeable with new ones, so
that the sets cover the truth of asked rows, and not only of rows on average (docs/design/0024).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Acceptance, AcceptanceThreshold, PredictionSets
from aptset.calibration.acceptance_rows import Reading
from aptset.conformal.measure import FoldScores, Measure, scores_of
from aptset.conformal.scheme import is_full
from aptset.core.groups import Groups
from aptset.core.levels import CellLevel, Level, alpha_of
from aptset.core.matrix import OF_ESTIMATOR
from aptset.core.randomization import fingerprint_of
from aptset.core.store import Rules, Tensor, Tensors
from aptset.core.tables import Backend, make_table
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words, uniforms
from aptset.kernels.rows import Rows

_TIES, _HALVES = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)  # other draws than the u of the scores
TENSORS: dict[str, Tensor] = {
    "decision_numbers": Tensor("F64", ("held-out rows", "numbers"), optional=True),
    "decision_codes": Tensor("I64", ("held-out rows", "codes"), optional=True),
}
SIZES: dict[str, int] = {"numbers": 3, "codes": 4}


@dataclass(frozen=True, eq=False)
class Decisions:
    """Of each held-out row: the score of its label and the label's cell, its guess, confidence, u and half."""

    scores: Floats
    confidence: Floats
    u: Floats
    guesses: NDArray[np.int64]
    is_wrong: NDArray[np.bool_]
    is_first: NDArray[np.bool_]
    cells: NDArray[np.intp]

    def acceptance(self, rule: Any, rows: Any = slice(None)) -> Acceptance:
        """Return what decides about guesses, learned on some of the rows."""
        by_guess = Groups("row", tuple(rule.classes.tolist()))
        reading = Reading("largest", rule.classes, None, by_guess, "guess", False, rule.key, rule.chance)
        of_rows = (self.confidence[rows], self.u[rows], self.is_wrong[rows], self.guesses[rows])
        parts = (fingerprint_of(self.u[rows].copy().view(np.uint64), self.confidence[rows].copy()),)
        return Acceptance.of(reading, *of_rows, parts)

    def of_asked(self, threshold: AcceptanceThreshold, groups: Groups) -> Measure:
        """Return the scores of the rows of the second half that the threshold leaves to a person."""
        acted = threshold.above(self.confidence, self.u, self.guesses)
        rows = np.flatnonzero(~acted & ~self.is_first)
        return Measure((FoldScores.sort(self.scores[rows], self.cells[rows], groups),), groups)

    def tensors(self) -> Tensors:
        """Return the rows as tensors of a file."""
        codes = np.column_stack([self.guesses, self.is_wrong, self.is_first, self.cells]).astype(np.int64)
        return {
            "decision_numbers": np.column_stack([self.scores, self.confidence, self.u]),
            "decision_codes": codes,
        }


def decisions_of(tensors: Tensors) -> Decisions | None:
    """Return the rows of a file, None for one that has none: of several folds, or of an earlier version."""
    if "decision_numbers" not in tensors:
        return None
    scores, confidence, u = np.ascontiguousarray(tensors["decision_numbers"].T)
    guesses, is_wrong, is_first, cells = np.ascontiguousarray(tensors["decision_codes"].T)
    return Decisions(scores, confidence, u, guesses, is_wrong == 1, is_first == 1, cells.astype(np.intp))


def decision_rules(tensors: Tensors, n: int, n_classes: int, n_groups: int) -> Rules:
    """Return what must hold of the rows of a file."""
    if "decision_numbers" not in tensors and "decision_codes" not in tensors:
        return {}
    numbers, codes = tensors.get("decision_numbers"), tensors.get("decision_codes")
    limits = np.array([n_classes, 2, 2, n_groups])
    return {
        "its held-out rows must be complete": lambda: numbers is not None and codes is not None and len(numbers) == n,
        "its held-out rows must have finite numbers": lambda: numbers is not None and np.isfinite(numbers).all(),
        "its guesses and halves must be numbers of them": lambda: (
            codes is not None and ((codes >= 0) & (codes < limits)).all()
        ),
        "its scores must be those of its held-out rows": lambda: (
            numbers is not None and np.array_equal(np.sort(numbers[:, 0]), np.sort(tensors["scores"]))
        ),
    }


def remember_rows(rows: Rows, columns: NDArray[np.int64], ids: Any, groups: Groups) -> tuple[FoldScores, Decisions]:
    """Return the scores of held-out rows as a calibration keeps them, and the same rows one by one."""
    scores, cells = scores_of(rows, columns, OF_ESTIMATOR), groups.ids_of_labels(ids, columns)
    assert rows.seeds is not None
    guesses = np.asarray(rows.probabilities.argmax(axis=1), dtype=np.int64)
    is_first = uniforms(rows.seeds ^ _HALVES) < 0.5
    confidence, u = confidence_and_u(rows.probabilities, rows.seeds)
    kept = Decisions(scores, confidence, u, guesses, guesses != columns, is_first, np.array(cells, dtype=np.intp))
    return FoldScores.sort(scores, cells, groups), kept


def confidence_and_u(probabilities: NDArray[Any], seeds: Words) -> tuple[Floats, Floats]:
    """Return the largest probability of each row, and the uniform that orders rows of equal ones."""
    return probabilities.max(axis=1).astype(np.float64), uniforms(seeds ^ _TIES)


def promise_in_words(threshold: AcceptanceThreshold, level: Level) -> str:
    """Say what is promised of rows that are acted on, and of those that are not."""
    alpha, sure = alpha_of(level), level.assurance if isinstance(level, CellLevel) else None
    each = {"": alpha} if isinstance(alpha, float) else {f" ({name})": of_name for name, of_name in alpha.items()}
    shares = ", ".join(f"{1 - of_name:.4g}{whose}" for whose, of_name in each.items())
    confidence = "" if sure is None else f", with {sure.confidence:g} confidence"
    return f"{threshold.sentence()} The others come with a set that holds the truth for {shares} of them{confidence}."


def frame_of_rows(sets: PredictionSets, values: Floats, probabilities: Any, backend: Backend = "pandas") -> Any:
    """Return the most likely label with its probability and its p-value, and the set with its size."""
    chances = np.asarray(probabilities)
    first, rows = chances.argmax(axis=1), np.arange(len(chances))
    columns = {
        "prediction": sets.classes[first].tolist(),
        "probability": chances[rows, first],
        "p_value": values[rows, first],
        "size": sets.sizes,
        "labels": [row.tolist() for row in sets],
    }
    return make_table(columns, backend, sets.row_names)


def check_decisions(fitted: Any) -> Decisions:
    """Return the held-out rows one by one; refuse where no promise about guesses is known."""
    rule = fitted.rule
    if fitted.decisions is None or rule.groups.overlaps:
        if is_full(rule.scheme):
            why = "every row trains"
        elif len(fitted.held_out.of_models) > 1:
            why = "the guess is that of several models together, and no row was held out from all of them"
        elif fitted.held_out.is_weighted or fitted.held_out.clusters is not None or rule.groups.overlaps:
            why = "nothing is known for weights, clusters or overlapping groups"
        else:
            why = "this classifier was saved by a version that kept no rows: fit it again"
        raise ValueError(
            "act_or_ask must have calibration rows that the model was not trained on, all of equal weight; "
            f"{why}. Use calibration='split' (or a FrozenEstimator) without weights, or "
            "aptset.learn_acceptance on other rows."
        )
    decisions: Decisions = fitted.decisions
    return decisions
