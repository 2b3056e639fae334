"""The formulas themselves: the paper's score and the conformal rank."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from aptset.data.label_checks import check_labels
from aptset.data.matrix_checks import (
    check_named_columns,
    check_probabilities,
    check_rows,
    check_u,
    tolerance_of,
)
from aptset.data.setting_checks import (
    check_alpha,
    check_generator,
    check_sample_size,
    draw_key,
)
from aptset.kernels.copies import CALIBRATION
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats
from aptset.kernels.places import Rows, label_scores
from aptset.scores import Adaptive
from aptset.scores.conformity import formula_of


def adaptive_scores(
    probabilities: Any,
    labels: ArrayLike,
    u: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    normalize: bool = False,
    random_state: Any = None,
) -> Floats:
    """Return the paper's score E(x, y, u) of one label per row: the mass above the label plus (1 - u) of its own.

    Parameters
    ----------
    probabilities : array or data frame, shape (rows, classes)
        Rows must sum to 1.
    labels : array, shape (rows,)
        The label to score in each row.
    u : float or array of float in [0, 1], optional
        The uniform of each row; by default a keyed hash of the row and of which copy it is, as in :func:`calibrate`.
    classes : array, optional
        The label of each column; by default the column numbers 0, 1, ...
    normalize : bool, default=False
        Divide each row by its sum instead of refusing rows that do not sum to 1.
    random_state : None, int or numpy random generator, optional
        Decides the order of equal probabilities, and u where it is not given.

    Examples
    --------
    >>> import aptset
    >>> aptset.adaptive_scores([[0.25, 0.5, 0.25, 0.0]] * 2, [1, 3], u=[0.5, 0.25])
    array([0.25, 1.75])
    """
    matrix, names = check_probabilities(probabilities, "probabilities")
    matrix, known = check_named_columns(matrix, names, classes, labels, "probabilities")
    columns = check_labels(labels, known, len(matrix))
    key, uniforms = draw_key(check_generator(random_state)), check_u(u, len(matrix))
    tolerance = tolerance_of(matrix, probabilities)
    rows = Rows(matrix, formula_of(Adaptive()), key, tolerance, None, uniforms, normalize, CALIBRATION)
    found = label_scores(rows, columns)
    check_rows(matrix, found.first_bad, "probabilities", normalize, tolerance)
    return found.scores


def conformal_rank(n: int, alpha: float) -> int:
    """Return ceil((1 - alpha)(n + 1)) exactly: which smallest of n scores is the threshold; above n, every label is in.

    Examples
    --------
    >>> import aptset
    >>> aptset.conformal_rank(9, 0.1), aptset.conformal_rank(8, 0.1)
    (9, 9)
    """
    return rank_at(check_sample_size(n), check_alpha(alpha))
