"""What a calibration answers: arrays about arrays, tensors about tensors, on the device where the question lies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.devices import is_on_device, on_host, stand_in, tensor_of
from aptset.data.matrix_checks import check_rows, softmax_of, tolerance_of
from aptset.data.sets import PredictionSets
from aptset.kernels.copies import BLOCK_ROWS, CALIBRATION, find_copies, own_seeds
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.places import LabelScores, Rows, label_scores
from aptset.kernels.rowhash import Words
from aptset.kernels.seeding import hash_rows
from aptset.probabilities.chance import Draw
from aptset.probabilities.weighing import corrected

if TYPE_CHECKING:
    from aptset.probabilities.tensors import OnDevice

NAME = "probabilities"


def stays_on_device(probabilities: Any, formula: Formula) -> bool:
    """Tell whether rows are worked on where they lie: a score that is only a Python function runs on the host."""
    return type(probabilities) is not np.ndarray and is_on_device(probabilities) and formula.weights is not None


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
    factors: Floats | None = None,
) -> Rows | OnDevice:
    """Return rows as the loops take them, from a matrix that was checked and what it came as."""
    if not stays:
        values = softmax_of(matrix, NAME) if logits else matrix
        tolerance = tolerance_of(values, None if logits else given)
        values = values if factors is None else corrected(values, factors, tolerance, normalize)
        rows = Rows(values, formula, key, tolerance, *draw, normalize, side, first_row)
        if not logits or draw.seeds is not None:
            return rows
        keys = content_seeds(rows, matrix, logits)
        return with_own_seeds(rows, keys, own_seeds(keys, side, first_row))
    from aptset.probabilities.device_rows import DeviceRows
    from aptset.probabilities.tensors import OnDevice

    tolerance = tolerance_of(np.empty(0)) if logits else tolerance_of(matrix, given)
    return OnDevice(DeviceRows(tensor_of(given), formula, key, tolerance, *draw, normalize, side, first_row, logits))


def content_seeds(rows: Rows, matrix: NDArray[Any], logits: bool) -> Words:
    """Return the seed of each row's content, whichever copy it is; ``matrix`` is what the rows came from.

    Logits are hashed, not their softmax: rows that differ stay different where probabilities are 0 and 1.
    """
    return hash_rows(matrix, rows.key) if logits else rows.content_seeds()


def with_own_seeds(rows: Rows, keys: Words, seeds: Words) -> Rows:
    """Return rows with the seeds that copies have of their own, from the seeds of their content."""
    return replace(rows, seeds=seeds, n_copies=int(np.count_nonzero(seeds != keys)))


def count_copies(matrix: NDArray[Any], given: Any, stays: bool, key: int) -> tuple[int, int]:
    """Return how many of the first rows are copies of others, and of how many: for rows whose ids are hashed instead.

    A prediction without ids draws from the content again. One block tells enough, and costs no pass over all rows.
    """
    block = np.asarray(on_host(tensor_of(given)[:BLOCK_ROWS])) if stays else matrix[:BLOCK_ROWS]
    return len(find_copies(hash_rows(block, key), CALIBRATION).rows), len(block)


def scores_of_labels(rows: Rows | OnDevice, columns: NDArray[np.int64]) -> LabelScores:
    """Score one label of each row; refuse rows that are no probabilities."""
    if isinstance(rows, Rows):
        found = label_scores(rows, columns)
        check_rows(rows.probabilities, found.first_bad, NAME, rows.normalize, rows.tolerance)
        return found
    return rows.label_scores(columns)


def sets_as_given(sets: Any, given: Any) -> Any:
    """Return sets where the question lies, with the names of its rows if it has any."""
    if not isinstance(sets, PredictionSets):
        return sets
    if not is_on_device(given):
        return sets.named_as(given)
    from aptset.probabilities.tensor_sets import TensorSets

    return TensorSets.of(sets, tensor_of(given).device)
