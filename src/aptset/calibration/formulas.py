"""The formulas themselves: the paper's score, the conformal rank, and confidence.

Confidence and credibility: Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random world".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import PredictionSets
from aptset.core import validate
from aptset.core.labels import check_labels
from aptset.core.levels import Assurance, check_assurance, rank_at
from aptset.core.matrix import check_named_columns, check_probabilities, check_rows, check_u, tolerance_of
from aptset.core.validate import draw_key
from aptset.kernels.formula import Floats
from aptset.kernels.membership import select
from aptset.kernels.rows import CALIBRATION, Rows, label_scores
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
    key, uniforms = draw_key(validate.generator(random_state)), check_u(u, len(matrix))
    tolerance = tolerance_of(matrix, probabilities)
    rows = Rows(matrix, formula_of(Adaptive()), key, tolerance, None, uniforms, normalize, CALIBRATION)
    scores = label_scores(rows, columns)
    check_rows(matrix, scores.first_bad, "probabilities", normalize, tolerance)
    return scores.scores


def conformal_rank(n: int, alpha: float, assurance: float | Assurance | None = None) -> int:
    """Return ceil((1 - alpha)(n + 1)) exactly: which smallest of n scores is the threshold; above n, every label is in.

    With ``assurance`` it is the least k for which P(Bin(n, 1 - alpha) >= k) is at most 1 - assurance: with this
    probability over calibrations on n independent rows, the coverage of the one at hand is at least 1 - alpha.

    Examples
    --------
    >>> import aptset
    >>> aptset.conformal_rank(9, 0.1), aptset.conformal_rank(8, 0.1)
    (9, 9)
    >>> aptset.conformal_rank(1000, 0.1), aptset.conformal_rank(1000, 0.1, assurance=0.95)
    (901, 916)
    """
    sure = check_assurance(assurance)
    return rank_at(validate.sample_size(n), validate.alpha(alpha), None if sure is None else sure.risk(1))


class Confidence(NamedTuple):
    """The label with the largest p-value of each row, and how it stands out.

    Attributes
    ----------
    guess : array
        The label with the largest p-value; of several, the most likely one.
    confidence : array of float
        1 minus the second largest p-value.
    credibility : array of float
        The largest p-value.

    Examples
    --------
    >>> import aptset
    >>> calibration = aptset.calibrate([[0.75, 0.25]] * 19, [0] * 19, randomized=False)
    >>> calibration.confidence([[0.875, 0.125]]).confidence
    array([0.95])
    """

    guess: NDArray[Any]
    confidence: Floats
    credibility: Floats


def confidence_of(p_values: Floats, probabilities: NDArray[Any], classes: NDArray[Any]) -> Confidence:
    """Return the guess of each row with its confidence and credibility."""
    rows = np.arange(len(p_values))
    largest = p_values.max(axis=1)
    guess = np.where(p_values == largest[:, None], probabilities, -np.inf).argmax(axis=1)
    others = p_values.copy()
    others[rows, guess] = 0.0
    return Confidence(classes[guess], 1.0 - others.max(axis=1), largest)


def oracle_sets(
    probabilities: Any,
    alpha: float,
    u: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    normalize: bool = False,
    random_state: Any = None,
) -> PredictionSets:
    """Return the smallest sets that hold the label with probability 1 - alpha in every row, if probabilities are true.

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
    wanted = 1 - validate.alpha(alpha)
    matrix, names = check_probabilities(probabilities, "probabilities")
    uniforms = check_u(u, len(matrix))
    matrix, labels = check_named_columns(matrix, names, classes, [0], "probabilities")
    key = draw_key(validate.generator(random_state))
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
    selection = select(rows, np.full((1, 1, 1), threshold))
    check_rows(matrix, selection.first_bad, "probabilities", normalize, tolerance)
    return PredictionSets.trusted(*selection.sets[0], labels)
