"""Sets when the true probabilities are known (section 1.1 of the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aptset.data.matrix_checks import (
    check_named_columns,
    check_probabilities,
    check_rows,
    check_u,
    tolerance_of,
)
from aptset.data.sets import PredictionSets
from aptset.data.setting_checks import (
    check_alpha,
    check_generator,
    draw_key,
)
from aptset.kernels.cuts import cut
from aptset.kernels.places import Rows
from aptset.scores import Adaptive
from aptset.scores.conformity import formula_of


def oracle_sets(
    probabilities: Any,
    alpha: float,
    u: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    normalize: bool = False,
    random_state: Any = None,
) -> PredictionSets:
    """Return the smallest sets that hold the label with probability 1 - alpha, given the true probabilities.

    Without ``u`` the labels are taken, most likely first, until their sum reaches 1 - alpha. With ``u`` the last of
    them is left out if u <= V, which makes the probability exactly 1 - alpha. Labels of probability zero never enter.
    A sum that misses 1 - alpha by no more than the rounding of its terms counts as reaching it: 0.6 + 0.3 is 0.9.

    Parameters
    ----------
    probabilities : array or data frame, shape (rows, classes)
        The true probabilities; rows must sum to 1.
    alpha : float
        Miscoverage level.
    u : float or array of float in [0, 1], optional
        The uniform of each row.
    classes : array, optional
        The label of each column; by default the column names of a data frame, else the column numbers 0, 1, ...
    normalize : bool, default=False
        Divide each row by its sum instead of refusing rows that do not sum to 1.
    random_state : None, int or numpy random generator, optional
        Decides the order of equal probabilities.

    Examples
    --------
    >>> import aptset
    >>> aptset.oracle_sets([[0.3, 0.6, 0.1]], alpha=0.1)[0]
    array([1, 0])
    >>> aptset.oracle_sets([[0.3, 0.6, 0.1]], alpha=0.5, u=[0.1])[0]
    array([], dtype=int64)
    """
    wanted = 1 - check_alpha(alpha)
    matrix, names = check_probabilities(probabilities, "probabilities")
    uniforms = check_u(u, len(matrix))
    matrix, labels = check_named_columns(matrix, names, classes, [0], "probabilities")
    key = draw_key(check_generator(random_state))
    tolerance = tolerance_of(matrix, probabilities)
    rows = Rows(
        matrix,
        formula_of(Adaptive()),
        key,
        tolerance,
        u=np.ones(len(matrix)) if uniforms is None else uniforms,
        normalize=normalize,
    )
    # S(x, u; t) holds the labels whose score is below t; each term of a sum is off by half a grid step at most.
    threshold = float(wanted) - (matrix.shape[1] + 2) * 2.0**-52
    found = cut(rows, np.full((len(matrix), 1), threshold))
    check_rows(matrix, found.first_bad, "probabilities", normalize, tolerance)
    return PredictionSets.trusted(*found.at(0), labels)
