"""Ask every model once: sets, p-values, probabilities, and what each fold by itself says about the true labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.held_out import FoldScores, HeldOut
from aptset.calibrations.tally import p_values_of_one_model, sets_of_one_model
from aptset.calibrations.weighted import Weighted
from aptset.data.groups.ids import Groups, Ids
from aptset.data.matrix_checks import (
    OF_ESTIMATOR,
    check_rows,
)
from aptset.data.sets import PredictionSets
from aptset.judging.laws import FoldCounts
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, label_scores
from aptset.probabilities.cross import CrossCalibration

Columns = NDArray[np.int64]
_PIECES = 20  # that a model is asked in: enough for a bar, few enough to cost nothing
_FEWEST_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Answer:
    """All that a report needs to know from the models of a classifier."""

    sets: list[PredictionSets]
    p_values: Floats
    probabilities: NDArray[Any]
    folds: tuple[tuple[FoldCounts, ...], ...] | None


def ask(
    fitted: Any,
    samples: Any,
    columns: Columns,
    levels: list[Fraction],
    may_be_empty: bool,
    on_rows: Callable[[float], None],
) -> Answer:
    """Return what a fitted classifier says about rows whose true labels are these columns, -1 for unknown ones."""
    classes, held_out, ids = fitted.rule.classes, fitted.facing(samples), samples.ids
    if len(fitted.models) == 1:
        rows = _under(fitted.models[0], samples, classes, on_rows)
        sets = sets_of_one_model(held_out, rows, ids, levels, classes, may_be_empty, OF_ESTIMATOR)
        return Answer(sets, p_values_of_one_model(held_out, rows, ids, OF_ESTIMATOR), rows.probabilities, None)
    tally = fitted.rule.scheme.combine(len(samples), len(classes))
    of_row, folds = group_of_rows(held_out.groups, columns, ids), []
    for model, fold in zip(fitted.models, held_out.of_models, strict=True):
        rows = _under(model, samples, classes, on_rows)
        check_rows(rows.probabilities, tally.add(fold, rows, ids), OF_ESTIMATOR, normalize=False)
        # A model that judges by itself is a split by itself; with weights it has no law.
        if fold is not None and not isinstance(held_out, Weighted):
            folds.append(_counts(fold, _below(fold, rows, columns, of_row), of_row))
    sets = tally.sets(held_out, ids, levels, classes, may_be_empty)
    return Answer(sets, tally.p_values(held_out, ids), tally.mass / len(fitted.models), tuple(folds) or None)


def _under(model: Any, samples: Any, classes: NDArray[Any], on_rows: Callable[[float], None]) -> Rows:
    """Ask a model about the samples, in pieces that say how far it is."""
    step = max(_FEWEST_AT_ONCE, -(-len(samples) // _PIECES))
    parts = []
    for start in range(0, len(samples), step):
        some = samples if step >= len(samples) else samples.some(slice(start, start + step))
        parts.append(some.under(model, classes).probabilities)
        on_rows(len(parts[-1]))
    rows: Rows = samples.rows(parts[0] if len(parts) == 1 else np.concatenate(parts))
    return rows


def group_of_rows(groups: Groups, columns: Columns, ids: Ids | None) -> NDArray[np.int64]:
    """Return the group within which each row was calibrated; -1 for a label or a group that was not seen."""
    if ids is None:
        known = groups.ids_of_labels(None, np.maximum(columns, 0)).astype(np.int64)
        return np.where(columns < 0, -1, known)
    return np.zeros(len(columns), dtype=np.int64) if groups.kind == "all" else np.asarray(ids, dtype=np.int64)


def _below(fold: FoldScores, rows: Rows, columns: Columns, of_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many scores of its group in a fold lie below each row's own; all of them for an unknown label."""
    scores = label_scores(rows, np.maximum(columns, 0)).scores
    scores[columns < 0] = np.inf
    below = np.zeros(len(scores), dtype=np.int64)
    for group, (start, stop) in enumerate(zip(fold.offsets[:-1], fold.offsets[1:], strict=True)):
        mine = of_row == group
        below[mine] = np.searchsorted(fold.scores[start:stop], scores[mine], side="left")
    return below


def _counts(fold: FoldScores, below: NDArray[np.int64], of_row: NDArray[np.int64]) -> tuple[FoldCounts, ...]:
    """Return the counts of each group that has rows here and there."""
    found = []
    for group, n in enumerate(np.diff(fold.offsets).tolist()):
        mine = of_row == group
        if n > 0 and mine.any():
            found.append(FoldCounts(int(mine.sum()), n, np.bincount(below[mine], minlength=n + 1)))
    return tuple(found)


def folds_of_calibration(
    calibration: CrossCalibration,
    probabilities: list[Any],
    of_rows: dict[str, Any],
    columns: Columns,
    of_row: NDArray[np.int64],
) -> tuple[tuple[FoldCounts, ...], ...]:
    """Return what each fold by itself says: the p-values of a calibration of one fold tell how many lie below."""
    folds = []
    for number, (fold, matrix) in enumerate(zip(calibration.held_out.folds, probabilities, strict=True)):
        alone = HeldOut((fold,), calibration.held_out.groups)
        one = replace(calibration, held_out=alone, folds=calibration.folds[number : number + 1])
        p_values = one.p_values([matrix], **of_rows)
        of_truth = np.take_along_axis(p_values, np.maximum(columns, 0)[:, None], axis=1)[:, 0]
        n = np.diff(fold.offsets)[np.maximum(of_row, 0)]
        below = np.where(columns < 0, n, np.rint((n + 1) * (1 - of_truth)).astype(np.int64))
        folds.append(_counts(fold, below, of_row))
    return tuple(folds)
