"""The face for people who only have probabilities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.tally import mask_of_one_model, p_values_of_one_model, sets_of_one_model
from aptset.calibrations.tuning import Tuning
from aptset.chance import BY_CONTENT, Chance
from aptset.kernels.copies import BLOCK_ROWS, PREDICTION
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows
from aptset.probabilities.artefacts import read_calibration, write_calibration
from aptset.probabilities.border import NAME, Scored, score_labels, take_ids
from aptset.scores import Places, Score
from aptset.sets import PredictionSets
from aptset.validation.artefacts import check_mergeable
from aptset.validation.chance import check_first_row, warn_of_equal_shards
from aptset.validation.matrices import check_new_probabilities, softmax_of, tolerance_of
from aptset.validation.outcomes import check_flag, check_flag_or_none
from aptset.validation.scores import AUTO, formula_of
from aptset.validation.settings import check_alpha, check_alphas, warn_if_too_few


@dataclass(frozen=True, repr=False, eq=False)
class Calibration:
    """Calibration scores, ready to turn new probabilities into prediction sets. Made by :func:`calibrate`.

    Attributes
    ----------
    classes : array
        The label of each column of probabilities.
    conformity : score
        The score that was calibrated.
    randomized : bool
        Whether u is drawn (keyed by the row) or 1 everywhere.
    chance : Chance
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

    @property
    def randomized(self) -> bool:
        """Whether u is drawn or 1 everywhere."""
        return self.chance.randomized

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return self.held_out.n

    @property
    def scores(self) -> Floats:
        """The calibration scores, upward."""
        return self.held_out.scores

    def __repr__(self) -> str:
        chance = "" if self.randomized else ", randomized=False"
        return f"Calibration(n={self.n}, {len(self.classes)} classes, {self.conformity}{chance})"

    def threshold(self, alpha: float = 0.1) -> float | dict[Any, float]:
        """Return the score up to which labels are in the set at this level; infinite if there are too few samples.

        With groups it is a dictionary with the threshold of each.
        """
        found = self.held_out.thresholds(check_alpha(alpha)).tolist()
        groups = self.held_out.groups
        return found[0] if groups.kind == "all" else dict(zip(groups.names, found, strict=False))

    def guarantee(self, alpha: float = 0.1) -> float:
        """Return the coverage that Theorem 1 promises at this level (within each group, if there are groups)."""
        return float(1 - check_alpha(alpha))

    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: float = ...,
        *,
        groups: ArrayLike | None = ...,
        u: ArrayLike | None = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
    ) -> PredictionSets: ...
    @overload
    def predict_set(
        self,
        probabilities: Any,
        alpha: Sequence[float],
        *,
        groups: ArrayLike | None = ...,
        u: ArrayLike | None = ...,
        ids: Any = ...,
        normalize: bool | None = ...,
        logits: bool = ...,
        allow_empty: bool | None = ...,
        first_row: int = ...,
    ) -> list[PredictionSets]: ...
    def predict_set(
        self,
        probabilities: Any,
        alpha: Any = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
    ) -> PredictionSets | list[PredictionSets]:
        """Return the prediction set of each row.

        Parameters
        ----------
        probabilities : array or data frame, shape (rows, classes)
            Columns in the order of ``classes``; the columns of a data frame are found by name.
        alpha : float or sequence of float, default=0.1
            Miscoverage level: sets hold the true label with probability at least 1 - alpha. For a sequence, a list
            with the sets of each level is returned from one pass over the rows.
        groups : array, optional
            The group of each row, where groups were passed to :func:`calibrate`.
        u : array of float in [0, 1], optional
            The uniform of each row, where u was passed to :func:`calibrate`; by default a keyed hash of the row.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, so that a row has the same set wherever and however often it
            comes. A text names a column of the data frame of probabilities.
        normalize : bool, optional
            Divide each row by its sum instead of refusing rows that do not sum to 1; by default as at calibration.
        logits : bool, default=False
            The numbers are logits: a softmax in float64 makes them probabilities.
        allow_empty : bool, optional
            If False, an empty set gets its most likely label, which can only raise the coverage.
        first_row : int, default=0
            The number of the first row, where a long table is predicted in pieces: a multiple of 4096. Only copies of
            rows depend on it.

        Returns
        -------
        PredictionSets, or a list of them
        """
        alphas, is_sequence = check_alphas(alpha)
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        ids, met = self.held_out.meet(groups, len(rows))
        warn_if_too_few(met, alphas, self.held_out.groups.kind != "all")
        may_be_empty = check_flag_or_none(allow_empty, self.allow_empty, "allow_empty")
        sets = sets_of_one_model(self.held_out, rows, ids, alphas, self.classes, may_be_empty, NAME)
        return sets if is_sequence else sets[0]

    def predict_mask(
        self,
        probabilities: Any,
        alpha: float = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        allow_empty: bool | None = None,
        first_row: int = 0,
    ) -> NDArray[np.bool_]:
        """Return the prediction sets as a boolean matrix, (rows, classes): faster, since nothing is put in order.

        Equal to ``predict_set(...).mask``; the parameters are those of :meth:`predict_set`.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, randomized=False)
        >>> calibration.predict_mask([[0.875, 0.125], [0.5, 0.5]], alpha=0.1).sum(axis=1)
        array([1, 1])
        """
        level = check_alpha(alpha)
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        ids, met = self.held_out.meet(groups, len(rows))
        warn_if_too_few(met, [level], self.held_out.groups.kind != "all")
        may_be_empty = check_flag_or_none(allow_empty, self.allow_empty, "allow_empty")
        return mask_of_one_model(self.held_out, rows, ids, level, may_be_empty, NAME)

    def p_values(
        self,
        probabilities: Any,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        logits: bool = False,
        first_row: int = 0,
    ) -> Floats:
        """Return the conformal p-value of every label, (rows, classes): a label is in the set iff it exceeds alpha.

        That of the true label is at most t with probability at most t. (With ``allow_empty=False`` an empty set gets
        its most likely label, whatever its p-value.)
        """
        rows = self._rows(probabilities, u, ids, normalize, logits, first_row)
        ids, _ = self.held_out.meet(groups, len(rows))
        return p_values_of_one_model(self.held_out, rows, ids, NAME)

    def merge(self, other: Calibration) -> Calibration:
        """Join with a calibration of the same score on other rows: as if all rows had been calibrated at once.

        Both must have been made with the same settings and the same integer ``random_state``. A calibration that was
        merged before is refused, since its rows would count twice; rows that are in both otherwise are not noticed.
        Where rows come more than once, give each shard a ``first_row`` of its own (or ids): copies in shards that start
        at the same row share their chance, and less is known than n says.
        """
        same = {
            "score": self.conformity == other.conformity,
            "key (random_state)": self.key == other.key,
            "randomized": self.randomized == other.randomized,
            "where u comes from (u, ids)": self.chance.source == other.chance.source,
            "normalize": self.normalize == other.normalize,
            "allow_empty": self.allow_empty == other.allow_empty,
            "classes": np.array_equal(self.classes, other.classes),
            "kind of groups": self.held_out.groups.kind == other.held_out.groups.kind,
        }
        mine, theirs = ({*one.parts, sum(one.parts) % 2**64} if one.parts else set() for one in (self, other))
        check_mergeable([name for name, equal in same.items() if not equal], bool(mine & theirs))
        if self.chance.source == "content" and {*self.first_rows} & {*other.first_rows}:
            warn_of_equal_shards(min(self.chance.copies, other.chance.copies))
        n_copies = self.chance.copies * self.n + other.chance.copies * other.n
        return replace(
            self,
            held_out=self.held_out.merge(other.held_out),
            chance=self.chance.with_copies(n_copies, self.n + other.n),
            parts=self.parts + other.parts,
            first_rows=self.first_rows + other.first_rows,
        )

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file that :func:`load` reads; opening it runs no code.

        A score of your own is saved by its name, "module:object", and its settings if it is a dataclass.
        The file is replaced whole: a kill at any moment leaves the old one or the new one.
        """
        write_calibration(path, {field.name: getattr(self, field.name) for field in fields(self)})

    def _rows(
        self, probabilities: Any, u: ArrayLike | None, ids: Any, normalize: bool | None, logits: bool, first_row: int
    ) -> Rows:
        probabilities, ids = take_ids(probabilities, ids)
        matrix = check_new_probabilities(probabilities, NAME, self.classes, self.columns)
        matrix = softmax_of(matrix, NAME) if check_flag(logits, "logits") else matrix
        is_whole = first_row == 0  # the last piece of a file may well be one row
        draw = self.chance.predicts(u, ids, len(matrix), self.key, is_whole, stacklevel=5)
        divide = check_flag_or_none(normalize, self.normalize, "normalize")
        start = check_first_row(first_row, BLOCK_ROWS)
        tolerance = tolerance_of(matrix)
        return Rows(matrix, formula_of(self.conformity), self.key, tolerance, *draw, divide, PREDICTION, start)


def calibrate(
    probabilities: Any,
    labels: ArrayLike,
    *,
    conformity: str | Score | Callable[[Places], Any] = "adaptive",
    classes: ArrayLike | None = None,
    groups: str | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
    first_row: int = 0,
) -> Calibration:
    """Calibrate prediction sets on the probabilities and true labels of samples that no model was trained on.

    Parameters
    ----------
    probabilities : array or data frame, shape (rows, classes)
        Rows must sum to 1, up to rounding. float16 and float32 are widened to float64 first. A data frame goes by the
        names of its columns, here and in ``predict_set``.
    labels : array, shape (rows,)
        The true label of each row.
    conformity : str, score or function of :class:`Places`, default="adaptive"
        How strange a label is for a row: "adaptive" ("aps"), "homogeneous" ("lac", "thr"), "regularized" ("raps"),
        "saps", "margin", "rank" ("topk"), a score with settings of its own, or any function. "auto" chooses one as
        :func:`tune` does, on a fifth of the rows (4,000 at most, drawn by ``random_state``), which then do not
        calibrate.
    classes : array, optional
        The label of each column; by default the column names of a data frame, else the column numbers 0, 1, ...
    groups : None, "label" or array, optional
        Calibrate within groups, so that the promise holds in each: "label" for every true label, an array for the
        group of each row (``predict_set`` then needs the groups of the new rows).
    randomized : bool, default=True
        False takes u = 1 everywhere: chance only orders equal probabilities. Sets cover as promised, or far more
        where scores tie: with confident probabilities most scores are 0. With the adaptive score no set is empty.
    allow_empty : bool, default=True
        If False, an empty set gets its most likely label, which can only raise the coverage.
    normalize : bool, default=False
        Divide each row by its sum instead of refusing rows that do not sum to 1; new rows likewise.
    logits : bool, default=False
        The numbers are logits: a softmax in float64 makes them probabilities. Say so to ``predict_set``, too.
    u : array of float in [0, 1], optional
        The uniform of each row; by default a keyed hash of the row and of which copy it is, where equal rows come more
        than once. Whoever passes it here must pass it with the new rows as well.
    ids : array or name of a column, optional
        One id per row: u then comes from the id alone. A text names a column of the data frame of probabilities; an
        index that names the rows is passed as ``ids=frame.index`` (one that only numbers them is refused with new
        rows).
    random_state : None, int or numpy random generator, optional
        Where the key of the hash comes from; None draws a fresh one, which the calibration keeps.
    first_row : int, default=0
        The number of the first row, where a long table is calibrated in pieces: a multiple of 4096.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import aptset
    >>> calibration = aptset.calibrate([[0.5, 0.375, 0.125]] * 3, [0, 0, 1], u=[0.5, 1.0, 0.0])
    >>> calibration.scores
    array([0.   , 0.25 , 0.875])
    """
    may_be_empty = check_flag(allow_empty, "allow_empty")
    tuning = Tuning() if isinstance(conformity, str) and conformity == AUTO else None
    settings = (conformity, classes, groups, randomized, normalize, u, ids, random_state, first_row, logits)
    found = score_labels(probabilities, labels, *settings, tuning)
    return calibration_of(found, may_be_empty, bool(normalize), first_row)


def calibration_of(found: Scored, allow_empty: bool, normalize: bool, first_row: int = 0) -> Calibration:
    """Keep what was scored."""
    held_out, parts = HeldOut((found.fold(slice(None)),), found.groups), (found.fingerprint,)
    of_rows = (found.classes, found.conformity, found.key, found.chance, allow_empty, found.columns)
    return Calibration(held_out, *of_rows, normalize, parts, (int(first_row),))


def load(path: str | Path, *, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()) -> Calibration:
    """Read a calibration that was saved; a damaged, truncated, forged or newer file is refused with one clear error.

    Parameters
    ----------
    path : path
        What ``save`` wrote.
    scores : mapping, optional
        Scores of your own by the name under which they were saved, "module:object": a function, or the class of a
        dataclass, whose settings are in the file.
    trust : list of str, optional
        Modules that may be imported to find such a score. Without either, nothing is imported and such a file is
        refused.

    Examples
    --------
    >>> import aptset, tempfile, pathlib
    >>> calibration = aptset.calibrate([[0.9, 0.1]] * 20, [0] * 20, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibration.save(pathlib.Path(folder) / "cal.aptset")
    ...     aptset.load(pathlib.Path(folder) / "cal.aptset")
    Calibration(n=20, 2 classes, Adaptive())
    """
    fields, _ = read_calibration(path, scores, trust)
    return Calibration(**fields)
