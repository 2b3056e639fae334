"""What a calibration answers: arrays about arrays, tensors about tensors, on the device where the question lies."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.tally import mask_of_one_model, p_values_of_one_model, sets_of_one_model
from aptset.chance import Draw
from aptset.devices import as_given, is_on_device, stand_in, tensor_of
from aptset.groups import Ids
from aptset.kernels.formula import Formula
from aptset.kernels.places import LabelScores, Rows, label_scores
from aptset.validation.matrices import check_rows, softmax_of, tolerance_of

if TYPE_CHECKING:
    from aptset.probabilities.device_rows import DeviceRows

NAME = "probabilities"


def stays_on_device(probabilities: Any, formula: Formula) -> bool:
    """Tell whether rows are worked on where they lie: a score that is only a Python function runs on the host."""
    return is_on_device(probabilities) and formula.weights is not None


def looked_at(probabilities: Any, stays: bool) -> Any:
    """Return what checks of the shape look at: rows that stay on their device are not fetched for it."""
    return stand_in(tensor_of(probabilities)) if stays else probabilities


def make_rows(
    matrix: NDArray[Any],
    given: Any,
    stays: bool,
    logits: bool,
    formula: Formula,
    key: int,
    draw: Draw,
    normalize: bool,
    side: int,
    first_row: int,
) -> Rows | DeviceRows:
    """Return rows as the loops take them, from a matrix that was checked and what it came as."""
    if not stays:
        matrix = softmax_of(matrix, NAME, given) if logits else matrix
        tolerance = tolerance_of(matrix, None if logits else given)
        return Rows(matrix, formula, key, tolerance, *draw, normalize, side, first_row)
    from aptset.probabilities.device_rows import DeviceRows

    tolerance = tolerance_of(np.empty(0)) if logits else tolerance_of(matrix, given)
    rows = DeviceRows(tensor_of(given), formula, key, tolerance, *draw, normalize, side, first_row, logits)
    if logits:
        rows.refuse_probabilities(NAME)
    return rows


def scores_of_labels(rows: Rows | DeviceRows, columns: NDArray[np.int64]) -> LabelScores:
    """Score one label of each row; refuse rows that are no probabilities."""
    if isinstance(rows, Rows):
        found = label_scores(rows, columns)
        check_rows(rows.probabilities, found.first_bad, NAME, rows.normalize, rows.tolerance)
        return found
    from aptset.probabilities.tensors import label_scores_on_device

    return label_scores_on_device(rows, columns, NAME)


def sets_of(
    held_out: HeldOut,
    rows: Rows | DeviceRows,
    ids: Ids | None,
    alphas: list[Fraction],
    classes: NDArray[Any],
    allow_empty: bool,
    given: Any,
) -> list[Any]:
    """Return the sets at each level, with the names of the rows if they have any."""
    if isinstance(rows, Rows):
        sets = sets_of_one_model(held_out, rows, ids, alphas, classes, allow_empty, NAME)
        if isinstance(given, np.ndarray) or not is_on_device(given):
            return sets if isinstance(given, np.ndarray) else [some.named_as(given) for some in sets]
        from aptset.probabilities.tensor_sets import sets_as_given

        return [sets_as_given(some, given) for some in sets]
    from aptset.probabilities.tensors import sets_on_device

    return sets_on_device(held_out, rows, ids, alphas, classes, allow_empty, NAME)


def mask_of(
    held_out: HeldOut, rows: Rows | DeviceRows, ids: Ids | None, alpha: Fraction, allow_empty: bool, given: Any
) -> Any:
    """Return the sets at one level as a boolean matrix."""
    if isinstance(rows, Rows):
        return as_given(mask_of_one_model(held_out, rows, ids, alpha, allow_empty, NAME), given)
    from aptset.probabilities.tensors import mask_on_device

    return mask_on_device(held_out, rows, ids, alpha, allow_empty, NAME)


def p_values_of(held_out: HeldOut, rows: Rows | DeviceRows, ids: Ids | None, given: Any) -> Any:
    """Return the p-value of every label."""
    if isinstance(rows, Rows):
        return as_given(p_values_of_one_model(held_out, rows, ids, NAME), given)
    from aptset.probabilities.tensors import p_values_on_device

    return p_values_on_device(held_out, rows, ids, NAME)
