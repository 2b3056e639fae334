"""What is asked of a calibration once it is there: sets, masks and p-values of new rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.labelled_rows import NAME, take_ids
from aptset.calibration.request import looked_at, make_rows, sets_as_given, stays_on_device
from aptset.conformal.aggregation import mask_of_one_model, p_values_of_one_model, sets_of_one_model
from aptset.conformal.importance import Weighted
from aptset.conformal.measure import HeldOut
from aptset.core.devices import as_given
from aptset.core.matrix import check_new_probabilities, tolerance_of
from aptset.core.randomization import BY_CONTENT, Chance, NewU, check_first_row
from aptset.core.validate import check_alpha, check_alphas, check_flag
from aptset.kernels.formula import Floats, Formula
from aptset.kernels.rows import BLOCK_ROWS, PREDICTION, Rows
from aptset.scores import Score
from aptset.scores.conformity import formula_of
from aptset.sets import PredictionSets

if TYPE_CHECKING:
    from aptset.calibration.tensors import OnDevice


@dataclass(frozen=True, repr=False, eq=False)
class AnsweringCalibration:
    """What a calibration is made of, and its answers about new rows."""

    held_out: HeldOut
    classes: NDArray[Any]
    conformity: Score
    key: int
    chance: Chance = BY_CONTENT
    allow_empty: bool = True
    columns: NDArray[Any] | None = None
    normalize: bool = False
    parts: tuple[int, ...] = ()
    first_rows: tuple[int, ...] = (0,)

    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: float = ...,
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
        weights: ArrayLike | None = ...,
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: Sequence[float],
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
        weights: ArrayLike | None = ...,
    ) -> list[PredictionSets]: ...
    def predict_set(
        self,
        probabilities: Any,
        alpha: Any = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        probabilities : array, tensor or data frame, shape (rows, classes)
            Columns in the order of ``classes``; the columns of a data frame are found by name. A tensor of torch on a
            GPU, or an array there that DLPack can show, is worked on and answered where it lies.
        alpha : float or sequence of float, default=0.1
            Miscoverage level: sets hold the true label with probability at least 1 - alpha. For a sequence, a list
            with the sets of each level is returned from one pass over the rows.
        groups : array, optional
            The group of each row, where groups were passed to :func:`calibrate`; of groups that overlap a boolean
            matrix or a data frame with the columns of the calibration.
        u : array of float in [0, 1], "fresh" or numpy Generator, optional
            The uniform of each row, where u was passed to :func:`calibrate`; by default a keyed hash of the row, and of
            which copy it is in this call. With "fresh", or a generator of your own, every call draws anew: for small
            batches of rows that repeat, and have no ids. A row then has another set in the next call.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, so that a row has the same set wherever and however often it
            comes. A text names a column of the data frame of probabilities.
        normalize : bool, optional
            Divide each row by its sum instead of refusing rows that do not sum to 1; by default as at calibration.
        logits : bool, default=False
            The numbers are logits: a softmax in float64 makes them probabilities, with the same bits on every device. u
            comes from the logits.
        allow_empty : bool, optional
            If False, an empty set gets its most likely label, which can only raise the coverage.
        first_row : int, default=0
            The number of the first row, where a long table is predicted in pieces: a multiple of 4096. Only copies of
            rows depend on it.
        weights : array of float, optional
            The weight of each row, up to the same constant, where weights were passed to :func:`calibrate`.

        Returns
        -------
        PredictionSets, or a list of them; TensorSets on a GPU
        """
        alphas, is_sequence = check_alphas(alpha)
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        n_rows = len(rows)
        ids, met = self.held_out.meet(groups, n_rows)
        held_out = self.held_out.facing(weights, n_rows)
        held_out.warn(met, ids, alphas)
        may_be_empty = self.allow_empty if allow_empty is None else check_flag(allow_empty, "allow_empty")
        sets = sets_of_one_model(held_out, rows, ids, alphas, self.classes, may_be_empty, NAME)
        if type(probabilities) is not np.ndarray:
            sets = [sets_as_given(some, probabilities) for some in sets]
        return sets if is_sequence else sets[0]

    def predict_mask(
        self,
        probabilities: Any,
        alpha: float = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Return the prediction sets as a boolean matrix, (rows, classes): faster, since nothing is put in order.

        Equal to ``predict_set(...).mask``, a tensor for a tensor; the parameters are those of :meth:`predict_set`.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
        >>> calibration.predict_mask([[0.875, 0.125], [0.5, 0.5]], alpha=0.1).sum(axis=1)
        array([1, 1])
        """
        level = check_alphas(alpha)[0][0] if type(alpha) is float else check_alpha(alpha)  # floats are remembered
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        n_rows = len(rows)
        ids, met = self.held_out.meet(groups, n_rows)
        held_out = self.held_out.facing(weights, n_rows)
        held_out.warn(met, ids, [level])
        may_be_empty = self.allow_empty if allow_empty is None else check_flag(allow_empty, "allow_empty")
        found: NDArray[np.bool_] = mask_of_one_model(held_out, rows, ids, level, may_be_empty, NAME)
        return found if type(probabilities) is np.ndarray else as_given(found, probabilities)

    def p_values(
        self,
        probabilities: Any,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> Floats:
        """Return the conformal p-value of every label, (rows, classes): a label is in the set iff it exceeds alpha.

        That of the true label is at most t with probability at most t. (With ``allow_empty=False`` an empty set gets
        its most likely label, whatever its p-value.) For a tensor it is a tensor.
        """
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        n_rows = len(rows)
        ids, _ = self.held_out.meet(groups, n_rows)
        held_out = self.held_out.facing(weights, n_rows)
        found: Floats = p_values_of_one_model(held_out, rows, ids, NAME)
        return found if type(probabilities) is np.ndarray else as_given(found, probabilities)

    def sets_and_p_values(
        self,
        probabilities: Any,
        alpha: float = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> tuple[PredictionSets, Floats]:
        """Return what :meth:`predict_set` and :meth:`p_values` return, and look at the rows once.

        The parameters are those of :meth:`predict_set`.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
        >>> sets, p_values = calibration.sets_and_p_values([[0.75, 0.25], [0.5, 0.5]], alpha=0.1)
        >>> bool((sets.mask == (p_values > 0.1)).all())
        True
        """
        level = check_alpha(alpha)
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row).seeded()
        n_rows = len(rows)
        ids, met = self.held_out.meet(groups, n_rows)
        held_out = self.held_out.facing(weights, n_rows)
        held_out.warn(met, ids, [level])
        may_be_empty = self.allow_empty if allow_empty is None else check_flag(allow_empty, "allow_empty")
        (sets,) = sets_of_one_model(held_out, rows, ids, [level], self.classes, may_be_empty, NAME)
        found = p_values_of_one_model(held_out, rows, ids, NAME)
        return sets_as_given(sets, probabilities), as_given(found, probabilities)

    @cached_property
    def _formula(self) -> Formula:
        return formula_of(self.conformity)

    def _rows(
        self, probabilities: Any, u: NewU, ids: Any, normalize: bool | None, logits: bool, first_row: int
    ) -> Rows | OnDevice:
        if ids is not None:
            probabilities, ids = take_ids(probabilities, ids)
        is_weighted = isinstance(self.held_out, Weighted)
        factors = self.held_out.factors if isinstance(self.held_out, Weighted) else None
        is_plain = type(probabilities) is np.ndarray and logits is False and factors is None
        stays = not is_plain and not is_weighted and stays_on_device(probabilities, self._formula)
        shape = probabilities if is_plain else looked_at(probabilities, stays)
        matrix = check_new_probabilities(shape, NAME, self.classes, self.columns)
        is_whole = first_row == 0  # the last piece of a file may well be one row
        draw = self.chance.predicts(u, ids, len(matrix), self.key, is_whole, stacklevel=5)
        divide = self.normalize if normalize is None else check_flag(normalize, "normalize")
        start = 0 if type(first_row) is int and is_whole else check_first_row(first_row, BLOCK_ROWS)
        if is_plain:
            return Rows(matrix, self._formula, self.key, tolerance_of(matrix), *draw, divide, PREDICTION, start)
        soft = check_flag(logits, "logits")
        of_rows = (self._formula, self.key, draw, divide, PREDICTION, start, factors)
        return make_rows(matrix, probabilities, stays, soft, *of_rows)
