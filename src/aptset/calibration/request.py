"""What a face is asked about rows: one value, checked once, and turned into rows, cells and levels here.

Arrays are answered by arrays and tensors by tensors, on the device where the question lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset import PredictionSets
from aptset.calibration.formulas import Confidence, confidence_of
from aptset.calibration.weights import corrected
from aptset.conformal.clusters import clusters_in_words, promise_about
from aptset.conformal.importance import Whole, effective_in_words, rows_of
from aptset.conformal.thresholds import Thresholds
from aptset.core import validate
from aptset.core.devices import is_on_device, is_tensor, meta_array, on_host, tensor_of
from aptset.core.groups import ONE_CELL, Ids
from aptset.core.levels import Level
from aptset.core.matrix import TOLERANCE, TOLERANCES, check_new_probabilities, check_rows, softmax_of, tolerance_of
from aptset.core.randomization import (
    MANY_COPIES,
    NO_UNIFORMS,
    NewU,
    Randomization,
    Uniforms,
    check_first_row,
    column_or_values,
)
from aptset.core.tables import html_table, without_column
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.membership import mask_of, masks, select
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
from aptset.scores import Score
from aptset.scores.conformity import formula_of

if TYPE_CHECKING:
    from aptset.calibration.tensors import OnDevice


NAME = "probabilities"


class Face:
    """What calibrations of one model and of several have in common."""

    held_out: Thresholds
    classes: NDArray[Any]
    conformity: Score
    key: int
    chance: Randomization
    allow_empty: bool
    columns: NDArray[Any] | None
    normalize: bool
    parts: tuple[int, ...]

    @cached_property
    def _formula(self) -> Formula:
        return formula_of(self.conformity)

    @property
    def randomized(self) -> bool:
        """Whether u is drawn or 1 everywhere."""
        return self.chance.randomized

    @property
    def n(self) -> int:
        """Number of calibration samples; of clusters, where rows belong together."""
        return self.held_out.n

    @property
    def rows(self) -> int:
        """Number of calibration rows: more than ``n`` where several belong to one cluster."""
        return self.held_out.rows

    @property
    def effective_size(self) -> float | dict[Any, float]:
        """So many samples of equal weight would say as much about the coverage: W^2 / sum w^2; n without weights.

        With groups it is a dictionary with that of each. It is the n to think of when coverage varies from one
        calibration to the next, as an approximation for weights that have nothing to do with the scores. Where heavy
        rows are the hard ones it is too large: the standard deviation of coverage is then more than this n says, by a
        tenth to two fifths where weights and scores are moderately correlated.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, weights=[1.0] * 10 + [3.0] * 10)
        >>> calibration.effective_size
        16.0
        """
        sizes: list[float] = self.held_out.effective_sizes.tolist()
        return self.held_out.groups.by_name(sizes)

    def _html(self, promise: float, *more: tuple[str, Any]) -> str:
        """Return a table for notebooks, with what is promised at alpha = 0.1."""
        rows = [("calibration rows", f"{self.rows:,}"), ("classes", len(self.classes)), ("score", self.conformity)]
        about = f"{promise:.4g}{promise_about(self.held_out.clusters)}"
        rows += [("groups", self.held_out.groups.kind), ("promise at alpha = 0.1", about), *more]
        return html_table(type(self).__name__, (), rows)

    def _size_in_words(self) -> str:
        """Return n, with the effective size where there are weights, or what n counts where rows belong together."""
        size = effective_in_words(self.held_out)
        return f"n={self.n} ({size} effective)" if size else f"n={self.n}{clusters_in_words(self.held_out)}"


def stays_on_device(probabilities: Any, formula: Formula) -> bool:
    """Tell whether rows are worked on where they lie: a score that is only a Python function runs on the host."""
    return type(probabilities) is not np.ndarray and is_on_device(probabilities) and formula.linear is not None


def shape_proxy(probabilities: Any, stays: bool) -> Any:
    """Return what checks of the shape look at: rows that stay on their device are not fetched for it."""
    if not stays:
        return probabilities
    return meta_array(probabilities if is_tensor(probabilities) else tensor_of(probabilities))


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
        tolerance = tolerance_of(values, None if logits or given is matrix else given)
        values = values if factors is None else corrected(values, factors, tolerance, normalize)
        rows = Rows(values, formula, key, tolerance, *draw, normalize, side, first_row)
        if values is matrix or draw.seeds is not None:
            return rows
        keys = content_seeds(rows, matrix)
        return with_own_seeds(rows, keys, own_seeds(keys, side, first_row))
    from aptset.calibration.tensors import OnDevice

    tolerance = TOLERANCE if logits else tolerance_of(matrix, given)
    return OnDevice.of(tensor_of(given), formula, key, tolerance, *draw, normalize, side, first_row, logits)


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


def new_rows(
    face: Face,
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
    ids, formula = request.ids, face._formula
    if ids is not None:
        probabilities, ids = take_ids(probabilities, ids)
    held_out, matrix, stays = face.held_out, probabilities, False
    is_plain = type(matrix) is np.ndarray and matrix.dtype.kind == "f" and matrix.ndim == 2 and len(matrix) > 0
    is_plain = is_plain and matrix.shape[1] == len(face.classes)  # the usual case: nothing to ask
    if not is_plain:
        may_stay = may_stay and not held_out.is_weighted and not held_out.groups.by_both
        stays = may_stay and stays_on_device(probabilities, formula)
        matrix = check_new_probabilities(shape_proxy(probabilities, stays), NAME, face.classes, face.columns)
    starts = request.first_row == 0  # the last piece of a file may well be one row
    if draw is None:
        chance, draw = face.chance, NO_UNIFORMS
        is_plain_draw = chance.randomized and chance.source != "given" and chance.copies < MANY_COPIES
        if not is_plain_draw or request.u is not None or ids is not None:
            whole = starts if is_whole is None else is_whole
            draw = chance.predicts(request.u, ids, len(matrix), face.key, whole)
    divide = face.normalize if request.normalize is None else validate.flag(request.normalize, "normalize")
    start = 0 if type(request.first_row) is int and starts else check_first_row(request.first_row)
    if is_plain and request.logits is False and not held_out.corrects:
        tolerance = TOLERANCES.get(matrix.dtype, TOLERANCE)
        return Rows(matrix, formula, face.key, tolerance, *draw, divide, PREDICTION, start), draw, matrix
    soft = validate.flag(request.logits, "logits")
    of_rows = (formula, face.key, draw, divide, PREDICTION, start, held_out.factors, name)
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
        if scores.first_bad >= 0:
            check_rows(rows.probabilities, scores.first_bad, NAME, rows.normalize, rows.tolerance)
        return scores
    return rows.label_scores(columns)


def sets_like_input(sets: Any, given: Any) -> Any:
    """Return sets where the question lies, with the names of its rows if it has any."""
    if not isinstance(sets, PredictionSets):
        return sets
    if not is_on_device(given):
        return sets.named_as(given)
    from aptset.calibration.tensors import TensorSets

    return TensorSets.of(sets, tensor_of(given).device)


class PlacedRows(NamedTuple):
    """New rows under one model, with the cells and the masses that they have in a measure.

    A mass of None is one for each row. ``name`` is what people call the probabilities.
    """

    held_out: Thresholds
    rows: Rows | OnDevice
    ids: Ids | None
    mass: Whole | None = None
    name: str = NAME

    def sets(self, levels: Sequence[Level], classes: NDArray[Any], allow_empty: bool) -> list[Any]:
        """Return the sets at each level: the shape of the thresholds decides which loop is run."""
        rows = self.rows
        if not isinstance(rows, Rows):
            return rows.sets(self.held_out, self.ids, levels, classes, allow_empty)
        selected = select(rows, self._thresholds(levels), 0 if allow_empty else 1)
        if selected.first_bad >= 0:
            check_rows(rows.probabilities, selected.first_bad, self.name, rows.normalize, rows.tolerance)
        return [PredictionSets.trusted(*chosen, classes) for chosen in selected.sets]

    def mask(self, level: Level, allow_empty: bool) -> Any:
        """Return the sets at one level as a boolean matrix."""
        rows = self.rows
        if not isinstance(rows, Rows):
            return rows.mask(self.held_out, self.ids, level, allow_empty)
        min_size, thresholds = 0 if allow_empty else 1, self._thresholds([level])
        if isinstance(thresholds, np.ndarray):
            flags, first_bad = masks(rows, thresholds[0], min_size)
        else:
            selected = select(rows, thresholds, min_size)
            flags, first_bad = mask_of(selected, rows.n_columns), selected.first_bad
        check_rows(rows.probabilities, first_bad, self.name, rows.normalize, rows.tolerance)
        return flags

    def seeded(self) -> PlacedRows:
        """Return the same with seeds that are worked out, for whoever asks several things about the rows."""
        return self._replace(rows=self.rows.seeded())

    def p_values(self) -> Any:
        """Return the p-value of every label."""
        rows, held_out = self.rows, self.held_out
        if held_out.overlapping is not None or (held_out.p_values is None and isinstance(rows, Rows)):
            held_out.check_offers("p_values")
        if not isinstance(rows, Rows):
            if not held_out.folds:
                raise TypeError(
                    "probabilities must be on the host for p-values of a calibration that only has counts or "
                    "thresholds; got a tensor on a device. Pass probabilities.cpu()."
                )
            return rows.p_values(held_out, self.ids)
        p_values, first_bad = held_out.p_values(rows, self.ids, self.mass)
        check_rows(rows.probabilities, first_bad, self.name, rows.normalize, rows.tolerance)
        return p_values

    def confidence(self, classes: NDArray[Any]) -> Confidence:
        """Return the guess of each row, of rows on the host, with its confidence and credibility."""
        assert isinstance(self.rows, Rows)
        return confidence_of(self.p_values(), self.rows.probabilities, classes)

    def _thresholds(self, levels: Sequence[Level]) -> Floats | Callable[[int, int], Floats]:
        """Return thresholds, (levels, 1 or rows, 1 or labels), or where both have their own, what makes them.

        Those of every label of every row might not fit into memory.
        """
        held_out, mass, groups = self.held_out, self.mass, self.held_out.groups
        cells = ONE_CELL if groups.is_one else groups.index(self.ids)
        if min(cells.shape if mass is None else np.broadcast_shapes(cells.shape, mass.shape)) == 1:
            return held_out.thresholds(levels, cells, mass)

        def of_block(start: int, stop: int) -> Floats:
            own = None if mass is None else rows_of(mass, start, stop)
            return held_out.thresholds(levels, rows_of(cells, start, stop), own)

        return of_block


def prepare(face: Face, probabilities: Any, request: Request, levels: Sequence[Level]) -> tuple[PlacedRows, bool]:
    """Return new rows as one model is asked about them, and whether sets may be empty.

    Without levels nothing is said about too few samples.
    """
    rows, _, matrix = new_rows(face, probabilities, request)
    ids, mass = face.held_out.place(request.groups, request.weights, len(matrix), levels)
    allow_empty = face.allow_empty
    if request.allow_empty is not None:
        allow_empty = validate.flag(request.allow_empty, "allow_empty")
    return PlacedRows(face.held_out, rows, ids, mass), allow_empty
