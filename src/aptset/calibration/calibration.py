"""Calibration scores: the face for people who only have probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.calibration.formulas import Confidence
from aptset.calibration.merging import merged
from aptset.calibration.request import Face, Request, prepare, sets_like_input
from aptset.conformal.clusters import promised
from aptset.conformal.importance import effective_in_words
from aptset.conformal.thresholds import Thresholds
from aptset.core.devices import like_input, on_host
from aptset.core.levels import Assurance, CellLevel, check_alphas, check_level
from aptset.core.randomization import BY_CONTENT, NewU, Randomization
from aptset.core.validate import refuse_foreign_keywords
from aptset.kernels.formula import Floats
from aptset.scores import Score

if TYPE_CHECKING:
    from aptset import CoverageMonitor


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(Face):
    """Calibration scores, ready to turn new probabilities into prediction sets. Made by :func:`calibrate`.

    Attributes
    ----------
    classes : array
        The label of each column of probabilities.
    conformity : score
        The score that was calibrated.
    randomized : bool
        Whether u is drawn (keyed by the row) or 1 everywhere.
    chance : Randomization
        How the u of the calibration rows arose.
    allow_empty : bool
        Whether sets may be empty by default.
    normalize : bool
        Whether rows are divided by their sums by default.
    parts : tuple of int
        A fingerprint of the rows of each calibration that was merged into this one.
    first_rows : tuple of int
        The number of the first row of each of them.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([1, 1, 1], size=500)
    >>> labels = probabilities.argmax(axis=1)
    >>> calibration = aptset.calibrate(probabilities, labels, random_state=0)
    >>> calibration
    Calibration(n=500, 3 classes, Adaptive())
    >>> calibration.predict_set([[0.7, 0.2, 0.1]], alpha=0.1, ids=["row 1"])[0]
    array([0])
    """

    held_out: Thresholds
    classes: NDArray[Any]
    conformity: Score
    key: int
    chance: Randomization = BY_CONTENT
    allow_empty: bool = True
    columns: NDArray[Any] | None = None
    normalize: bool = False
    parts: tuple[int, ...] = ()
    first_rows: tuple[int, ...] = (0,)

    @property
    def scores(self) -> Floats:
        """The calibration scores, upward."""
        return self.held_out.scores

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        size = effective_in_words(self.held_out)
        return self._html(self.guarantee(0.1), *([("effective size", size)] if size else []))

    def __repr__(self) -> str:
        chance = "" if self.randomized else ", randomized=False"
        return f"Calibration({self._size_in_words()}, {len(self.classes)} classes, {self.conformity}{chance})"

    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: float | Mapping[Any, float] = ...,
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
        weights: ArrayLike | None = ...,
        assurance: float | Assurance | None = ...,
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: Sequence[float | Mapping[Any, float]],
        *,
        groups: ArrayLike | None = ...,
        u: NewU = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
        weights: ArrayLike | None = ...,
        assurance: float | Assurance | None = ...,
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
        assurance: float | Assurance | None = None,
        **foreign: Any,
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        probabilities : array, tensor or data frame, shape (rows, classes)
            Columns in the order of ``classes``; the columns of a data frame are found by name. A tensor of torch on a
            GPU, or an array there that DLPack can show, is worked on and answered where it lies.
        alpha : float, mapping, or sequence of them, default=0.1
            Miscoverage level: sets hold the true label with probability at least 1 - alpha. After calibration in
            groups, one level for each by name: ``{"malignant": 0.01, "benign": 0.1}`` with ``groups="label"``. For a
            sequence, a list with the sets of each level is returned from one pass over the rows.
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
        assurance : float or Assurance, optional
            0.95, for instance: with this probability over calibrations the one at hand covers at least 1 - alpha of
            new rows, in each group (:class:`Assurance` for all groups at once). Sets are larger than those that cover
            1 - alpha on average over calibrations. For independent rows; refused with weights and overlapping groups.
        **foreign
            Keywords of other libraries: the error says what they are called here.

        Returns
        -------
        PredictionSets, or a list of them; TensorSets on a GPU
        """
        if foreign:
            refuse_foreign_keywords("predict_set", foreign)
        levels, is_sequence = check_alphas(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        placed, may_be_empty = prepare(self, probabilities, request, levels)
        sets = placed.sets(levels, self.classes, may_be_empty)
        if type(probabilities) is not np.ndarray:
            sets = [sets_like_input(of_level, probabilities) for of_level in sets]
        return sets if is_sequence else sets[0]

    def predict_mask(
        self,
        probabilities: Any,
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
        """Return the prediction sets as a boolean matrix, (rows, classes): faster, since nothing is put in order.

        Equal to ``predict_set(...).mask``, a tensor for a tensor; the parameters are those of :meth:`predict_set`.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
        >>> calibration.predict_mask([[0.875, 0.125], [0.5, 0.5]], alpha=0.1).sum(axis=1)
        array([1, 1])
        """
        level = check_level(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        placed, may_be_empty = prepare(self, probabilities, request, [level])
        mask: NDArray[np.bool_] = placed.mask(level, may_be_empty)
        return mask if type(probabilities) is np.ndarray else like_input(mask, probabilities)

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
        request = Request(groups, u, ids, normalize, logits, first_row, weights)
        p_values: Floats = prepare(self, probabilities, request, ())[0].p_values()
        return p_values if type(probabilities) is np.ndarray else like_input(p_values, probabilities)

    def sets_and_p_values(
        self,
        probabilities: Any,
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
        level = check_level(alpha, assurance)
        request = Request(groups, u, ids, normalize, logits, first_row, weights, allow_empty)
        placed, may_be_empty = prepare(self, probabilities, request, [level])
        (sets,) = (placed := placed.seeded()).sets([level], self.classes, may_be_empty)
        return sets_like_input(sets, probabilities), like_input(placed.p_values(), probabilities)

    def threshold(
        self, alpha: float | Mapping[Any, float] = 0.1, *, assurance: float | Assurance | None = None
    ) -> float | dict[Any, float]:
        """Return the score up to which labels are in the set at this level; infinite if there are too few samples.

        With groups it is a dictionary with the threshold of each, and with ``label_weights`` one with that of each
        label. With ``weights`` every row has a threshold of its own, and there is nothing to return.
        """
        level = check_level(alpha, assurance)
        if self.held_out.has_weights:
            return dict(zip(self.classes.tolist(), self.held_out.by_label(level), strict=True))
        return self.held_out.groups.by_name(self.held_out.by_cell(level).tolist())

    def ranks(
        self, alpha: float | Mapping[Any, float] = 0.1, *, assurance: float | Assurance | None = None
    ) -> int | dict[Any, int]:
        """Return which smallest calibration score is the threshold; more than n where every label is in.

        A label is in the set iff its p-value exceeds ``1 - rank / (n + 1)``. With groups it is a dictionary.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 200, [0] * 200, random_state=0)
        >>> calibration.ranks(0.1), calibration.ranks(0.1, assurance=0.95)
        (181, 188)
        """
        return self.held_out.groups.by_name(self.held_out.ranks(check_level(alpha, assurance)))

    @overload
    def guarantee(self, alpha: float = ..., *, assurance: float | Assurance | None = ...) -> float: ...
    @overload
    def guarantee(
        self, alpha: Mapping[Any, float], *, assurance: float | Assurance | None = ...
    ) -> dict[Any, float]: ...
    def guarantee(self, alpha: Any = 0.1, *, assurance: float | Assurance | None = None) -> Any:
        """Return the coverage that Theorem 1 promises at this level (within each group, if there are groups).

        For a mapping it is a dictionary with the promise to each label or group. With ``assurance`` the same coverage
        is promised of this calibration, with that probability, and not on average over calibrations. With clusters or
        votes the number says what it is about, such as "0.9 for a row of a new patient". With weights it is promised if
        they are right; else the coverage is less by at most half their mean error, that is the mean of
        abs(used - right) over calibration rows, where both have the mean 1.
        """
        level = check_level(alpha, assurance)
        self.held_out.check_level_offered(level)
        if isinstance(level, CellLevel) and not isinstance(level.alpha, Fraction):
            of_cells = [float(1 - part) for part in level.alphas(self.held_out.groups)]
            return self.held_out.groups.by_name([promised(part, self.held_out.clusters) for part in of_cells])
        return promised(float(1 - (level if isinstance(level, Fraction) else level.strictest)), self.held_out.clusters)

    def confidence(
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
    ) -> Confidence:
        """Return for each row the label with the largest p-value, and how it stands out.

        ``confidence`` is 1 minus the second largest p-value, ``credibility`` the largest one: the set at alpha has at
        most one label iff confidence >= 1 - alpha, and none iff credibility <= alpha. A wrong guess with a confidence
        of at least 1 - e comes with probability at most e, and a credibility of at most e with probability at most e.
        Neither is the probability that this guess is right, nor bounds the errors among confident rows. The parameters
        are those of :meth:`p_values`.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 19, [0] * 19, randomized=False)
        >>> guess, confidence, credibility = calibration.confidence([[0.875, 0.125]])
        >>> guess.tolist(), confidence.tolist(), credibility.tolist()
        ([0], [0.95], [1.0])
        """
        request = Request(groups, u, ids, normalize, logits, first_row, weights)
        return prepare(self, on_host(probabilities), request, ())[0].confidence(self.classes)

    def merge(self, other: Calibration) -> Calibration:
        """Join with a calibration of the same score on other rows: as if all rows had been calibrated at once.

        Both must have been made with the same settings and the same integer ``random_state``. A calibration that was
        merged before is refused, since its rows would count twice, and with it one whose rows have the same content,
        labels and u as other rows; rows that are in both otherwise are not noticed. Where rows come more than once,
        give each shard a ``first_row`` of its own (or ids): copies in shards that start at the same row share their
        chance, and less is known than n says. Weights of both must have one constant. A cluster that has rows in both
        counts once, as it would in one calibration.
        """
        return merged(self, other)

    def monitor(
        self, alpha: float = 0.1, alarm: float = 100.0, *, mature: int | timedelta | None = None
    ) -> CoverageMonitor:
        """Return a monitor that tells whether sets at this level still cover as they should, while they are in use.

        Feed it with ``monitor.update(sets.covers(labels))`` in the order of prediction, or with the number of each
        prediction in any order (and with the groups of the rows, if there are groups: the labels themselves for
        ``groups="label"``). ``mature`` is how long a label is waited for: see :class:`CoverageMonitor`.
        """
        self.held_out.check_offers("monitor")
        from aptset import CoverageMonitor  # with figures and files, which sets do not need

        self.threshold(alpha)  # of a level that it knows
        n = self.n if self.held_out.groups.is_one else self.held_out.size_of_group
        return CoverageMonitor(n, alpha, alarm, mature=mature)

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file that :func:`load` reads; opening it runs no code.

        A score of your own is saved by its name, "module:object", and its settings if it is a dataclass.
        The file is replaced whole: a kill at any moment leaves the old one or the new one.
        """
        from aptset.calibration.storage import write_calibration  # half of what `calibrate` has to load

        write_calibration(path, {field.name: getattr(self, field.name) for field in fields(self)})
