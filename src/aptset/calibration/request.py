"""What a face is asked about rows: one value, checked once, and turned into rows, cells and levels here.

Arrays are answered by arrays and tensors by tensors, on the device where the question lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.importance import (
    Whole,
    check_label_weights,
    check_one_kind_of_weights,
    check_some_weight,
    check_weights,
    warn_of_uncertain_ratios,
)
from aptset.core import validate
from aptset.core.devices import is_on_device, meta_array, on_host, tensor_of
from aptset.core.groups import Ids
from aptset.core.levels import Level
from aptset.core.matrix import check_new_probabilities, check_rows, softmax_of, tolerance_of
from aptset.core.randomization import NewU, Uniforms, check_first_row, column_or_values
from aptset.core.tables import without_column
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats, Formula, normalised
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import (
    BLOCK_ROWS,
    CALIBRATION,
    PREDICTION,
    LabelScores,
    Rows,
    find_copies,
    hash_rows,
    label_scores,
    own_seeds,
)
from aptset.sets import PredictionSets

if TYPE_CHECKING:
    from aptset.calibration.calibration import Calibration
    from aptset.calibration.cross_calibration import CrossCalibration
    from aptset.calibration.tensors import OnDevice

    Face: TypeAlias = Calibration | CrossCalibration


class RowWeights(NamedTuple):
    """The weight of each calibration row, and where labels decide it, the ratio of each label."""

    of_rows: Floats
    ratios: Floats | None
    corrects: bool

    @property
    def factors(self) -> Floats | None:
        """What columns are multiplied by; None: nothing."""
        return self.ratios if self.corrects else None

    def some(self, rows: NDArray[np.bool_]) -> RowWeights:
        """Return the weights of some rows."""
        return self._replace(of_rows=check_some_weight(self.of_rows[rows]))


@dataclass(frozen=True)
class ImportanceWeights:
    """What was passed about weights."""

    weights: Any = None
    label_weights: Any = None
    prior_correction: Any = False
    is_part: bool = False  # of all rows: none of it may have weight

    def of(self, columns: NDArray[np.int64], classes: NDArray[Any]) -> RowWeights | None:
        """Return the weights of calibration rows, given their labels; None if all weigh the same."""
        corrects = validate.flag(self.prior_correction, "prior_correction")
        check_one_kind_of_weights(self.weights, self.label_weights, corrects)
        if self.weights is not None:
            weights = check_weights(self.weights, len(columns))
            return RowWeights(weights if self.is_part else check_some_weight(weights), None, False)
        if self.label_weights is None:
            return None
        ratios = check_label_weights(self.label_weights, classes)
        if corrects:
            # What label_ratios returns knows its errors; ratios from elsewhere are taken as known.
            warn_of_uncertain_ratios(getattr(self.label_weights, "errors", {}), columns, classes)
        return RowWeights(check_some_weight(ratios[columns], "label_weights"), ratios, corrects)


EQUAL = ImportanceWeights()

_BLOCK_CELLS = 2**15  # some temporary matrices of so many float64 stay in the cache of a core


def corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> NDArray[np.generic]:
    """Multiply each column by its factor and divide rows by their new sums; bad rows stay what they are.

    A row all of whose mass is on labels without a factor stays as it is, too: any fixed map will do, and there is none
    better.
    """
    if (factors == factors[0]).all():
        return matrix
    corrected, shares = np.empty(matrix.shape), factors / factors.max()

    def work(start: int, stop: int) -> None:
        corrected[start:stop] = _corrected(matrix[start:stop], shares, tolerance, normalize)

    over_blocks(len(matrix), max(1, _BLOCK_CELLS // matrix.shape[1]), work)
    return corrected


def _corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> Floats:
    with np.errstate(all="ignore"):
        wide = matrix.astype(np.float64, order="C")
        wide = normalised(wide) if normalize else wide
        total = ((wide + 2.0) - 2.0).sum(axis=1, keepdims=True)  # on the grid, where sums are exact
        is_good = (abs(total - 1.0) <= tolerance) & (wide >= 0.0).all(axis=1, keepdims=True)
        times = wide * factors
        divided = normalised(np.where(times.any(axis=1, keepdims=True), times, wide))
    return np.where(is_good, divided, wide)


NAME = "probabilities"


def stays_on_device(probabilities: Any, formula: Formula) -> bool:
    """Tell whether rows are worked on where they lie: a score that is only a Python function runs on the host."""
    return type(probabilities) is not np.ndarray and is_on_device(probabilities) and formula.weights is not None


def shape_proxy(probabilities: Any, stays: bool) -> Any:
    """Return what checks of the shape look at: rows that stay on their device are not fetched for it."""
    return meta_array(tensor_of(probabilities)) if stays else probabilities


def make_rows(
    matrix: NDArray[Any],
    given: Any,
    stays: bool,
    logits: bool,
    formula: Formula,
    key: int,
    draw: Uniforms,
    normalize: bool,
    side: int,
    first_row: int,
    factors: Floats | None = None,
    name: str = NAME,
) -> Rows | OnDevice:
    """Return rows as the loops take them, from a matrix that was checked and what it came as."""
    if not stays:
        values = softmax_of(matrix, name) if logits else matrix
        tolerance = tolerance_of(values, None if logits else given)
        values = values if factors is None else corrected(values, factors, tolerance, normalize)
        rows = Rows(values, formula, key, tolerance, *draw, normalize, side, first_row)
        if values is matrix or draw.seeds is not None:
            return rows
        keys = content_seeds(rows, matrix)
        return with_own_seeds(rows, keys, own_seeds(keys, side, first_row))
    from aptset.calibration.device_rows import DeviceRows
    from aptset.calibration.tensors import OnDevice

    tolerance = tolerance_of(np.empty(0)) if logits else tolerance_of(matrix, given)
    return OnDevice(DeviceRows(tensor_of(given), formula, key, tolerance, *draw, normalize, side, first_row, logits))


def take_ids(probabilities: Any, ids: Any) -> tuple[Any, Any]:
    """Return the probabilities and the ids, which may be a column of the same data frame."""
    return without_ids(probabilities, ids), column_or_values(ids, probabilities)


def without_ids(probabilities: Any, ids: Any, name: str = "ids") -> Any:
    """Return the probabilities without the column of their data frame that is meant by a text."""
    column_or_values(ids, probabilities, name)  # which refuses a column that is not there
    return without_column(probabilities, ids) if isinstance(ids, str) else probabilities


class Request(NamedTuple):
    """What comes with the probabilities of new rows, the same for every verb of every face."""

    groups: Any = None
    u: NewU = None
    ids: Any = None
    normalize: bool | None = None
    logits: bool = False
    first_row: int = 0
    weights: Any = None
    allow_empty: bool | None = None


def prepare(
    face: Calibration, formula: Formula, probabilities: Any, request: Request, levels: Sequence[Level]
) -> tuple[Rows | OnDevice, Ids | None, Whole | None, bool]:
    """Return the rows, cells and masses that one model is asked about, and whether sets may be empty.

    Without levels nothing is said about too few samples. A mass of None is one for each row.
    """
    rows, _, matrix = new_rows(face, formula, probabilities, request)
    cells, mass = face.held_out.place(request.groups, request.weights, len(matrix), levels)
    if request.allow_empty is None:
        return rows, cells, mass, face.allow_empty
    return rows, cells, mass, validate.flag(request.allow_empty, "allow_empty")


def new_rows(
    face: Face,
    formula: Formula,
    probabilities: Any,
    request: Request,
    draw: Uniforms | None = None,
    name: str = NAME,
    *,
    is_whole: bool | None = None,
    may_stay: bool = True,
) -> tuple[Rows | OnDevice, Uniforms, NDArray[Any]]:
    """Return new rows as the loops take them, where their u comes from, and the matrix that they are made of.

    A ``draw`` that was made for the rows of another fold is used again. ``is_whole`` says that the rows are no piece of
    a longer table; by default those that start at row 0 are none. ``may_stay`` allows rows to stay on their device.
    """
    ids = request.ids
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    factors = face.held_out.factors
    is_plain = type(probabilities) is np.ndarray and request.logits is False and factors is None
    may_stay = may_stay and not is_plain and not face.held_out.is_weighted and face.held_out.groups.kind != "pair"
    stays = may_stay and stays_on_device(probabilities, formula)
    shape = probabilities if is_plain else shape_proxy(probabilities, stays)
    matrix = check_new_probabilities(shape, NAME, face.classes, face.columns)
    starts = request.first_row == 0  # the last piece of a file may well be one row
    if draw is None:
        whole = starts if is_whole is None else is_whole
        draw = face.chance.predicts(request.u, ids, len(matrix), face.key, whole)
    divide = face.normalize if request.normalize is None else validate.flag(request.normalize, "normalize")
    start = 0 if type(request.first_row) is int and starts else check_first_row(request.first_row, BLOCK_ROWS)
    if is_plain:
        return Rows(matrix, formula, face.key, tolerance_of(matrix), *draw, divide, PREDICTION, start), draw, matrix
    soft = validate.flag(request.logits, "logits")
    of_rows = (formula, face.key, draw, divide, PREDICTION, start, factors, name)
    return make_rows(matrix, probabilities, stays, soft, *of_rows), draw, matrix


def content_seeds(rows: Rows, matrix: NDArray[Any]) -> Words:
    """Return the seed of each row's content, whichever copy it is; ``matrix`` is what the rows came from.

    Logits are hashed, not their softmax, and probabilities before a correction of prior: rows that differ stay
    different where either makes them 0 and 1.
    """
    return rows.content_seeds() if rows.probabilities is matrix else hash_rows(matrix, rows.key)


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
        scores = label_scores(rows, columns)
        check_rows(rows.probabilities, scores.first_bad, NAME, rows.normalize, rows.tolerance)
        return scores
    return rows.label_scores(columns)


def sets_like_input(sets: Any, given: Any) -> Any:
    """Return sets where the question lies, with the names of its rows if it has any."""
    if not isinstance(sets, PredictionSets):
        return sets
    if not is_on_device(given):
        return sets.named_as(given)
    from aptset.calibration.tensor_sets import TensorSets

    return TensorSets.of(sets, tensor_of(given).device)
