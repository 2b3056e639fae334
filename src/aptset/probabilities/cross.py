"""The face for people who trained the folds elsewhere and only have their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibrations.checks import (
    check_fold_ids,
    check_same_shape,
    folds_in_order,
)
from aptset.calibrations.cross import CVPlus
from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.minimax import Minimax
from aptset.calibrations.promises import Promises
from aptset.calibrations.scheme import Scheme
from aptset.calibrations.tally import Tally
from aptset.chance import BY_CONTENT, Chance
from aptset.groups import Ids
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows
from aptset.probabilities.border import NAME, score_labels, take_ids
from aptset.rich import html_table
from aptset.scores import Places, Score
from aptset.validation.matrices import (
    check_new_probabilities,
    check_rows,
    tolerance_of,
)
from aptset.validation.scores import formula_of
from aptset.validation.settings import (
    check_alpha,
    check_alphas,
    check_flag,
    check_flag_or_none,
    check_option,
    warn_if_too_few,
)

_COMBINE: dict[str, Scheme] = {"plus": CVPlus(), "minimax": Minimax()}


@dataclass(frozen=True, repr=False, eq=False)
class CrossCalibration:
    """Scores of each fold's held-out rows, ready to combine the folds' probabilities. Made by :func:`calibrate_cv`.

    Attributes
    ----------
    classes : array
        The label of each column of probabilities.
    folds : array
        The names of the folds, sorted: the order in which ``predict_set`` takes their probabilities.
    conformity : score
        The score that was calibrated.
    """

    held_out: HeldOut
    folds: NDArray[Any]
    classes: NDArray[Any]
    conformity: Score
    key: int
    chance: Chance = BY_CONTENT
    allow_empty: bool = True
    columns: NDArray[Any] | None = None
    normalize: bool = False
    scheme: Scheme = _COMBINE["plus"]

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return self.held_out.n

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [("calibration rows", f"{self.n:,}"), ("classes", len(self.classes)), ("score", self.conformity)]
        rows += [("groups", self.held_out.groups.kind), ("promise at alpha = 0.1", f"{self.guarantee(0.1):.4g}")]
        return html_table(type(self).__name__, (), rows)

    def __repr__(self) -> str:
        sizes = f"n={self.n} in {len(self.folds)} folds, {len(self.classes)} classes"
        return f"CrossCalibration({self.scheme.name}, {sizes}, {self.conformity})"

    def guarantee(self, alpha: float = 0.1) -> float:
        """Return the coverage that Theorem 2 (or the minimax bound) promises at this level, in every group.

        The theorems speak of folds that were made without a look at the labels, and of models that do not depend on
        the order of their training rows (one seed for all folds, or chance of their own).
        """
        return float(Promises(self.scheme, self.held_out.sizes_of_folds).coverage(check_alpha(alpha)))

    def predict_set(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        alpha: Any = 0.1,
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
        allow_empty: bool | None = None,
    ) -> Any:
        """Return the prediction set of each row.

        Parameters
        ----------
        fold_probabilities : iterable of matrices, or mapping from fold to matrix
            What the model of each fold says about the same new rows, (rows, classes), in the order of ``folds``. A
            generator is taken one fold at a time.
        alpha : float or sequence of float, default=0.1
            Miscoverage level; for a sequence, a list with the sets of each level is returned.
        groups : array, optional
            The group of each row, where groups were passed to :func:`calibrate_cv`.
        u : array of float in [0, 1], optional
            The uniform of each row, for all folds, where u was passed to :func:`calibrate_cv`. By default it is a keyed
            hash of what a fold's model says about the row, under that fold: the same function of the row on both sides.
        ids : array or name of a column, optional
            One id per row: u then comes from the id alone, and is the same for all folds.
        normalize : bool, optional
            Divide each row by its sum instead of refusing rows that do not sum to 1; by default as at calibration.
        allow_empty : bool, optional
            If False, an empty set gets its most likely label, which can only raise the coverage.
        """
        alphas, is_sequence = check_alphas(alpha)
        tally, ids, met = self._tally(fold_probabilities, groups, u, ids, normalize)
        warn_if_too_few(met, alphas, self.held_out.groups.kind)
        may_be_empty = check_flag_or_none(allow_empty, self.allow_empty, "allow_empty")
        sets = tally.sets(self.held_out, ids, alphas, self.classes, may_be_empty)
        return sets if is_sequence else sets[0]

    def p_values(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        *,
        groups: ArrayLike | None = None,
        u: ArrayLike | None = None,
        ids: Any = None,
        normalize: bool | None = None,
    ) -> Floats:
        """Return the share of scores, over all folds, that are at least as large as the label's own, (rows, classes).

        A label is in the set iff its value exceeds alpha. (With ``allow_empty=False`` an empty set gets its most likely
        label, whatever its value.) It is no p-value in the exact sense: that of the true label is at most t with
        probability at most ``1 - guarantee(t)``; with one row per fold that is 2t: twice the value is a p-value.
        """
        tally, ids, _ = self._tally(fold_probabilities, groups, u, ids, normalize)
        return tally.p_values(self.held_out, ids)

    def _tally(
        self,
        fold_probabilities: Iterable[Any] | Mapping[Any, Any],
        groups: ArrayLike | None,
        u: ArrayLike | None,
        ids: Any,
        normalize: bool | None,
    ) -> tuple[Tally, Ids | None, dict[Any, int]]:
        tally: Tally | None = None
        divide = check_flag_or_none(normalize, self.normalize, "normalize")
        for number, probabilities in enumerate(folds_in_order(fold_probabilities, self.folds)):
            probabilities, named = take_ids(probabilities, ids)
            matrix = check_new_probabilities(probabilities, NAME, self.classes, self.columns)
            if tally is None:
                tally = self.scheme.combine(len(matrix), len(self.classes))
                draw = self.chance.predicts(u, named, len(matrix), self.key, stacklevel=5)
                groups_of_rows, met = self.held_out.meet(groups, len(matrix))
            check_same_shape(matrix, tally.mass, number)
            rows = Rows(matrix, formula_of(self.conformity), self.key, tolerance_of(matrix), *draw, divide).seeded()
            first_bad = tally.add(self.held_out.of_models[number], rows, groups_of_rows)
            check_rows(matrix, first_bad, f"{NAME} of fold {self.folds[number]}", divide)
        assert tally is not None  # there are at least two folds
        return tally, groups_of_rows, met


def calibrate_cv(
    probabilities: Any,
    labels: ArrayLike,
    folds: ArrayLike,
    *,
    combine: Literal["plus", "minimax"] = "plus",
    conformity: str | Score | Callable[[Places], Any] = "adaptive",
    classes: ArrayLike | None = None,
    groups: str | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
) -> CrossCalibration:
    """Calibrate CV+ (or the jackknife+, or minimax) on out-of-fold probabilities of models trained elsewhere.

    Parameters
    ----------
    probabilities : array or data frame, shape (rows, classes)
        Row i holds what the model that was trained *without* the fold of row i says about it.
    labels : array, shape (rows,)
        The true label of each row.
    folds : array, shape (rows,)
        The fold of each row: any labels. As many folds as rows is the jackknife+.
    combine : {"plus", "minimax"}, default="plus"
        Compare each fold's scores under its own model (CV+), or with the lowest score that any model gives (minimax).
    conformity, classes, groups, randomized, allow_empty, normalize, u, ids, random_state
        As in :func:`calibrate`.

    Returns
    -------
    CrossCalibration

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> out_of_fold = generator.dirichlet([1, 1, 1], size=90)
    >>> calibration = aptset.calibrate_cv(out_of_fold, out_of_fold.argmax(axis=1), np.arange(90) % 3, random_state=0)
    >>> calibration
    CrossCalibration(CV+, n=90 in 3 folds, 3 classes, Adaptive())
    >>> of_three_models = [[[0.7, 0.2, 0.1]], [[0.6, 0.3, 0.1]], [[0.8, 0.1, 0.1]]]
    >>> calibration.predict_set(of_three_models, alpha=0.1, ids=["row 1"])[0]
    array([0])
    """
    scheme = _COMBINE[check_option(combine, tuple(_COMBINE), "combine")]
    may_be_empty = check_flag(allow_empty, "allow_empty")
    settings = (conformity, classes, groups, randomized, normalize, u, ids, random_state)
    found = score_labels(probabilities, labels, *settings)
    names, fold_of_row = check_fold_ids(folds, len(found.scores))
    members = np.split(np.argsort(fold_of_row, kind="stable"), np.cumsum(np.bincount(fold_of_row))[:-1])
    held_out = HeldOut(tuple(found.fold(rows) for rows in members), found.groups)
    common = (found.classes, found.conformity, found.key, found.chance, may_be_empty, found.columns, bool(normalize))
    return CrossCalibration(held_out, names, *common, scheme)
