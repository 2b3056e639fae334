"""Calibration scores of several folds: the face for people who have the probabilities of each fold's model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.calibration.formulas import Confidence, confidence_of
from aptset.calibration.merging import merged_folds
from aptset.calibration.request import NAME, Face, Request, new_rows
from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import promised
from aptset.conformal.importance import Whole
from aptset.conformal.measure import Measure
from aptset.conformal.scheme import Promises, Scheme, warn_no_promise
from aptset.conformal.schemes.cross import CVPlus, check_same_shape, folds_in_order
from aptset.core import validate
from aptset.core.groups import Ids
from aptset.core.levels import Assurance, Level, check_alphas, check_level
from aptset.core.matrix import check_rows
from aptset.core.randomization import BY_CONTENT, NewU, Randomization
from aptset.core.validate import refuse_foreign_keywords
from aptset.kernels.formula import Floats
from aptset.kernels.rows import Rows
from aptset.scores import Score

# What Calibration offers and several folds cannot: every other verb and option is the same on both.
NOT_OFFERED = {
    "threshold": "a label is compared with the scores of each fold under that fold's own model, so no one threshold "
    "decides. Ask predict_set or p_values",
    "ranks": "counts of all folds are compared with one rank, and no one score has it. Ask predict_set or p_values",
    "scores": "scores of different folds come from different models. Those of each fold are in held_out.folds",
    "monitor": "a monitor goes by the law of a split, and of folds only a bound is known. Watch a calibration of one "
    "model",
    "first_rows": "shards of out-of-fold rows are told apart by their ids alone",
}


@dataclass(frozen=True, repr=False, eq=False)
class CrossCalibration(Face):
    """Scores of each fold's held-out rows, ready to combine the folds' probabilities. Made by :func:`calibrate_cv`.

    Attributes
    ----------
    classes : array
        The label of each column of probabilities.
    folds : array
        The names of the folds, sorted: the order in which ``predict_set`` takes their probabilities.
    conformity : score
        The score that was calibrated.
    scheme : object
        How the folds combine, and what is promised.
    parts : tuple of int
        A fingerprint of the rows of each calibration that was merged into this one; empty for the folds of a fitted
        classifier.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> out_of_fold = np.random.default_rng(0).dirichlet([1, 1, 1], size=90)
    >>> calibration = aptset.calibrate_cv(out_of_fold, out_of_fold.argmax(axis=1), np.arange(90) % 3, random_state=0)
    >>> calibration.folds, calibration.n
    (array([0, 1, 2]), 90)
    >>> calibration.guarantee(0.1) < 0.9
    True
    """

    held_out: Measure
    folds: NDArray[Any]
    classes: NDArray[Any]
    conformity: Score
    key: int
    chance: Randomization = BY_CONTENT
    allow_empty: bool = True
    columns: NDArray[Any] | None = None
    normalize: bool = False
    scheme: Scheme = field(default_factory=CVPlus)
    parts: tuple[int, ...] = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say why something that a calibration of one model offers is not here."""
            why = NOT_OFFERED.get(name)
            raise AttributeError(f"CrossCalibration has no {name}" + (f": {why}." if why else "."))

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        return self._html(float(self._promises.coverage(Fraction(1, 10))))

    def __repr__(self) -> str:
        sizes = f"{self._size_in_words()} in {len(self.folds)} folds, {len(self.classes)} classes"
        return f"CrossCalibration({self.scheme.name}, {sizes}, {self.conformity})"

    @overload
    def guarantee(self, alpha: float = ..., *, assurance: float | Assurance | None = ...) -> float: ...
    @overload
    def guarantee(
        self, alpha: Mapping[Any, float], *, assurance: float | Assurance | None = ...
    ) -> dict[Any, float]: ...
    def guarantee(self, alpha: Any = 0.1, *, assurance: float | Assurance | None = None) -> Any:
        """Return the coverage that Theorem 2 (or the minimax bound) promises at this level, in every group.

        For a mapping it is a dictionary with the promise to each label or group: about 1 - 2 alpha of each. The
        theorems speak of folds that were made without a look at the labels, and of models that do not depend on
        the order of their training rows (one seed for all folds, or chance of their own). Where none speaks of the
        folds the number is 0, and a warning says why. With weights it is 1 - 2 alpha where every fold has one row, if
        the weights are right, and nothing otherwise. ``assurance`` is refused. With clusters the theorem
        has clusters in the place of rows, and the number says what it is about, such as "0.79 for a row of a new
        patient".
        """
        level = check_level(alpha, assurance)
        self.held_out.check_level_offered(level)
        warn_no_promise(self._promises.reason_of_nothing(level))
        coverage = self._promises.by_name(level)
        if isinstance(coverage, dict):
            return {name: promised(part, self.held_out.clusters) for name, part in coverage.items()}
        return promised(coverage, self.held_out.clusters)

    def confidence(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> Confidence:
        """Return for each row the label with the largest p-value, and how it stands out.

        As :meth:`Calibration.confidence`; with values of :meth:`p_values` that pool several models, a wrong guess with
        a confidence of at least 1 - e comes with probability at most ``1 - guarantee(e)``, about 2e.
        """
        request = Request(groups, u, ids, normalize, logits, first_row, weights)
        tally, cells, mass, _ = self._prepare(fold_probabilities, request, ())
        return confidence_of(tally.p_values(self.held_out, cells, mass), tally.mass, self.classes)

    @property
    def _promises(self) -> Promises:
        return Promises.of(self.scheme, self.held_out)

    def predict_set(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
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
        assurance: float | Assurance | None = None,
        **foreign: Any,
    ) -> Any:
        """Return the prediction set of each row.

        Parameters
        ----------
        fold_probabilities : iterable of matrices, or mapping from fold to matrix
            What the model of each fold says about the same new rows, (rows, classes), in the order of ``folds``. A
            generator is taken one fold at a time.
        alpha : float, mapping, or sequence of them, default=0.1
            Miscoverage level, or one for each label or group by name, as in :meth:`Calibration.predict_set`; for a
            sequence, a list with the sets of each level is returned.
        groups : array, optional
            The group of each row, where groups were passed to :func:`calibrate_cv`.
        u : array of float in [0, 1], "fresh" or numpy Generator, optional
            The uniform of each row, for all folds, where u was passed to :func:`calibrate_cv`. By default it is a keyed
            hash of what a fold's model says about the row, under that fold: the same function of the row on both sides.
            With "fresh", or a generator of your own, every call draws anew, one u for all folds.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, and is the same for all folds.
        normalize : bool, optional
            Divide each row by its sum instead of refusing rows that do not sum to 1; by default as at calibration.
        logits : bool, default=False
            The numbers are logits, of every fold; as in :meth:`Calibration.predict_set`.
        allow_empty : bool, optional
            If False, an empty set gets its most likely label, which can only raise the coverage.
        first_row : int, default=0
            The number of the first row, where a long table is predicted in pieces: a multiple of 4096. Only copies of
            rows depend on it.
        weights : array of float, optional
            The weight of each row, up to the same constant, where weights were passed to :func:`calibrate_cv`.
        assurance : float, optional
            Refused: the coverage of one calibration has no known law for several models.
        **foreign
            Keywords of other libraries: the error says what they are called here.
        """
        if foreign:
            refuse_foreign_keywords("predict_set", foreign)
        levels, is_sequence = check_alphas(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        tally, cells, mass, may_be_empty = self._prepare(fold_probabilities, request, levels)
        chosen = tally.sets(self.held_out, cells, levels, may_be_empty, mass)
        sets = [PredictionSets.trusted(*of_level, self.classes) for of_level in chosen]
        return sets if is_sequence else sets[0]

    def predict_mask(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        alpha: float | Mapping[Any, float] = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
        weights: ArrayLike | None = None,
        assurance: float | Assurance | None = None,
    ) -> NDArray[np.bool_]:
        """Return the prediction sets as a boolean matrix, (rows, classes): nothing is put in order.

        Equal to ``predict_set(...).mask``; the parameters are those of :meth:`predict_set`.

        Examples
        --------
        >>> import numpy as np, aptset
        >>> out_of_fold = np.random.default_rng(0).dirichlet([1, 1, 1], size=90)
        >>> y, folds = out_of_fold.argmax(axis=1), np.arange(90) % 3
        >>> calibration = aptset.calibrate_cv(out_of_fold, y, folds, random_state=0)
        >>> calibration.predict_mask([[[0.7, 0.2, 0.1]], [[0.6, 0.3, 0.1]], [[0.8, 0.1, 0.1]]], ids=["row 1"])
        array([[ True, False, False]])
        """
        level = check_level(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        tally, cells, mass, may_be_empty = self._prepare(fold_probabilities, request, [level])
        return next(tally.masks(self.held_out, cells, [level], may_be_empty, mass))

    def p_values(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        first_row: int = 0,
        weights: ArrayLike | None = None,
    ) -> Floats:
        """Return the share of scores, over all folds, that are at least as large as the label's own, (rows, classes).

        A label is in the set iff its value exceeds alpha. (With ``allow_empty=False`` an empty set gets its most likely
        label, whatever its value.) It is no p-value in the exact sense: that of the true label is at most t with
        probability at most ``1 - guarantee(t)``; with one row per fold that is 2t: twice the value is a p-value.
        """
        request = Request(groups, u, ids, normalize, logits, first_row, weights)
        tally, cells, mass, _ = self._prepare(fold_probabilities, request, ())
        return tally.p_values(self.held_out, cells, mass)

    def sets_and_p_values(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        alpha: float | Mapping[Any, float] = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: NewU = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
        weights: ArrayLike | None = None,
        assurance: float | Assurance | None = None,
    ) -> tuple[PredictionSets, Floats]:
        """Return what :meth:`predict_set` and :meth:`p_values` return, and go through the folds once.

        The parameters are those of :meth:`predict_set`.
        """
        level = check_level(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        tally, cells, mass, may_be_empty = self._prepare(fold_probabilities, request, [level])
        (chosen,) = tally.sets(self.held_out, cells, [level], may_be_empty, mass)
        sets = PredictionSets.trusted(*chosen, self.classes)
        return sets, tally.p_values(self.held_out, cells, mass)

    def merge(self, other: CrossCalibration) -> CrossCalibration:
        """Join with a calibration of other rows under the same models: as if all rows had been calibrated at once.

        For out-of-fold probabilities that are made in pieces. A fold of the same name stands for the same model in
        both; a fold that is in one of them only is added. Both must have been made by :func:`calibrate_cv` with the
        same settings and the same integer ``random_state``. The folds of a fitted classifier are refused, since its
        models are its own. Rows that are in both are noticed only where a whole calibration comes twice.

        Examples
        --------
        >>> import numpy as np, aptset
        >>> out_of_fold = np.random.default_rng(0).dirichlet([1, 1, 1], size=90)
        >>> y, folds = out_of_fold.argmax(axis=1), np.arange(90) % 3
        >>> first, second = (
        ...     aptset.calibrate_cv(out_of_fold[some], y[some], folds[some], random_state=0)
        ...     for some in (slice(0, 60), slice(60, 90))
        ... )
        >>> first.merge(second)
        CrossCalibration(CV+, n=90 in 3 folds, 3 classes, Adaptive())
        """
        return merged_folds(self, other)

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file that :func:`load` reads; opening it runs no code.

        All that :meth:`Calibration.save` says holds. The models of the folds are not in it, nor is a splitter that made
        the folds: what it means for the promise is.
        """
        from aptset.calibration.storage import write_calibration  # half of what `calibrate_cv` has to load

        write_calibration(path, {field.name: getattr(self, field.name) for field in fields(self)})

    def _prepare(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        request: Request,
        levels: Sequence[Level],
    ) -> tuple[Tally, Ids | None, Whole | None, bool]:
        """Take in what the folds say about new rows, one at a time; the first of them is checked with all the rest."""
        tally, draw = None, None
        for number, probabilities in enumerate(folds_in_order(fold_probabilities, self.folds)):
            name = f"{NAME} of fold {self.folds[number]}"
            rows, draw, matrix = new_rows(self, probabilities, request, draw, name, may_stay=False)
            assert isinstance(rows, Rows)  # the counts of the folds are added on the host
            if tally is None:
                tally = self.scheme.combine(*matrix.shape)
                cells, mass = self.held_out.place(request.groups, request.weights, len(matrix), levels)
            check_same_shape(matrix, tally.mass, number)
            first_bad = tally.add(self.held_out.of_models[number], rows.seeded(), cells)
            check_rows(rows.probabilities, first_bad, name, rows.normalize, rows.tolerance)
        assert tally is not None  # there are at least two folds
        return tally, cells, mass, validate.flag(request.allow_empty, "allow_empty", self.allow_empty)
