"""Calibrate on out-of-fold probabilities: for people who trained the folds elsewhere."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aptset.calibrations.checks import check_fold_ids
from aptset.calibrations.cross import CVPlus
from aptset.calibrations.minimax import Minimax
from aptset.calibrations.scheme import Scheme
from aptset.calibrations.tally import Tally
from aptset.calibrations.weight_checks import check_weights_of_scheme
from aptset.data.groups.bands import LabelBands
from aptset.data.groups.overlapping_checks import refuse_overlapping
from aptset.data.setting_checks import check_flag, check_option
from aptset.probabilities.border import score_labels
from aptset.probabilities.cross import CrossCalibration
from aptset.probabilities.weighing import EQUAL, Weighing
from aptset.scores import Conformity

_COMBINE: dict[str, Scheme] = {"plus": CVPlus(), "minimax": Minimax()}


def calibrate_cv(
    probabilities: Any,
    labels: ArrayLike,
    folds: ArrayLike,
    *,
    combine: Literal["plus", "minimax"] = "plus",
    conformity: Conformity = "adaptive",
    classes: ArrayLike | None = None,
    groups: str | LabelBands | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
    weights: ArrayLike | None = None,
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
    weights : array of float, optional
        As in :func:`calibrate`; for ``combine="plus"`` only. With one row per fold the promise is 1 - 2 alpha if the
        weights are right; for larger folds none is known.

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
    check_weights_of_scheme(weights is not None, scheme.combine is Tally, f"combine={combine!r}")
    weighing = EQUAL if weights is None else Weighing(weights)
    found = score_labels(probabilities, labels, *settings, weighing=weighing)
    refuse_overlapping(found.groups.kind, "cross calibration", "Use aptset.calibrate, or give each row one group.")
    names, fold_of_row = check_fold_ids(folds, len(found.scores))
    members = np.split(np.argsort(fold_of_row, kind="stable"), np.cumsum(np.bincount(fold_of_row))[:-1])
    held_out = found.held_out(members)
    common = (found.classes, found.conformity, found.key, found.chance, may_be_empty, found.columns, bool(normalize))
    return CrossCalibration(held_out, names, *common, scheme, (found.fingerprint,))
