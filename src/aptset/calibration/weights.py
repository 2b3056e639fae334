"""Weights of calibration rows: as they were passed, by ratios of labels, and how such ratios are estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.conformal.importance import (
    check_label_weights,
    check_one_kind_of_weights,
    check_some_weight,
    check_weights,
    warn_of_uncertain_ratios,
)
from aptset.core import validate
from aptset.core.labels import check_labels, some
from aptset.core.matrix import (
    check_named_columns,
    check_new_probabilities,
    check_probabilities,
    check_rows,
    tolerance_of,
)
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats, normalised


class RowWeights(NamedTuple):
    """The weight of each calibration row, and where labels decide it, the ratio of each label."""

    of_rows: Floats
    ratios: Floats | None
    corrects: bool

    @property
    def factors(self) -> Floats | None:
        """What columns are multiplied by; None: nothing."""
        return self.ratios if self.corrects else None

    def some(self, rows: NDArray[np.bool_]) -> RowWeights:
        """Return the weights of some rows."""
        return self._replace(of_rows=check_some_weight(self.of_rows[rows]))


@dataclass(frozen=True)
class ImportanceWeights:
    """What was passed about weights."""

    weights: Any = None
    label_weights: Any = None
    prior_correction: Any = False
    is_part: bool = False  # of all rows: none of it may have weight

    def of(self, columns: NDArray[np.int64], classes: NDArray[Any]) -> RowWeights | None:
        """Return the weights of calibration rows, given their labels; None if all weigh the same."""
        corrects = validate.flag(self.prior_correction, "prior_correction")
        check_one_kind_of_weights(self.weights, self.label_weights, corrects)
        if self.weights is not None:
            weights = check_weights(self.weights, len(columns))
            return RowWeights(weights if self.is_part else check_some_weight(weights), None, False)
        if self.label_weights is None:
            return None
        ratios = check_label_weights(self.label_weights, classes)
        if corrects:
            # What label_ratios returns knows its errors; ratios from elsewhere are taken as known.
            warn_of_uncertain_ratios(getattr(self.label_weights, "errors", {}), columns, classes)
        return RowWeights(check_some_weight(ratios[columns], "label_weights"), ratios, corrects)


EQUAL = ImportanceWeights()


_CORRECTED_CELLS = 2**15  # some temporary matrices of so many float64 stay in the cache of a core


def corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> NDArray[np.generic]:
    """Multiply each column by its factor and divide rows by their new sums; bad rows stay what they are.

    A row all of whose mass is on labels without a factor stays as it is, too: any fixed map will do, and there is none
    better.
    """
    if (factors == factors[0]).all():
        return matrix
    corrected, shares = np.empty(matrix.shape), factors / factors.max()

    def work(start: int, stop: int) -> None:
        corrected[start:stop] = _corrected(matrix[start:stop], shares, tolerance, normalize)

    over_blocks(len(matrix), max(1, _CORRECTED_CELLS // matrix.shape[1]), work)
    return corrected


def _corrected(matrix: NDArray[np.generic], factors: Floats, tolerance: float, normalize: bool) -> Floats:
    with np.errstate(all="ignore"):
        wide = matrix.astype(np.float64, order="C")
        wide = normalised(wide) if normalize else wide
        total = ((wide + 2.0) - 2.0).sum(axis=1, keepdims=True)  # on the grid, where sums are exact
        is_good = (abs(total - 1.0) <= tolerance) & (wide >= 0.0).all(axis=1, keepdims=True)
        times = wide * factors
        divided = normalised(np.where(times.any(axis=1, keepdims=True), times, wide))
    return np.where(is_good, divided, wide)


def check_plain_rows(matrix: NDArray[np.generic], given: Any, name: str) -> Floats:
    """Return rows that are probabilities; refuse others. ``given`` is what the matrix came as."""
    wide, tolerance = matrix.astype(np.float64, order="C"), tolerance_of(matrix, given)
    with np.errstate(invalid="ignore", over="ignore"):
        is_good = (np.abs(wide.sum(axis=1) - 1) <= tolerance) & (wide >= 0).all(axis=1)
    check_rows(matrix, -1 if is_good.all() else int(np.argmin(is_good)), name, False, tolerance)
    return wide


_WORST = 1e8  # a condition from here on leaves nothing of what was measured
_OLD, _NEW = "probabilities", "new_probabilities"
_MOST_STEPS = 2000
_CLOSE = 1e-7  # to the proportions of the last step: EM is done
_BLOCK_CELLS = 2**16  # of rows that are looked at twice while they are in the cache of a core
_TINY = 1e-290  # sums of rows from here on can be inverted
_DRAWS = 30  # of rows with replacement, for the standard errors
_MOST_DRAWN = 20_000  # rows of new probabilities that the draws look at; errors of more rows are scaled


class LabelRatios(dict[Any, float]):
    """Ratios of labels, target over source, by label. Made by :func:`label_ratios`.

    Attributes
    ----------
    method : str
        How they were estimated.
    errors : dict
        The standard error of each, from rows drawn with replacement.
    condition : float or None
        With "bbse": the condition number of the matrix that was solved. Errors grow with it.

    Examples
    --------
    >>> import aptset
    >>> ratios = aptset.LabelRatios({"cat": 1.5, "dog": 0.5}, "em", {"cat": 0.1, "dog": 0.1}, None)
    >>> ratios["cat"], ratios.errors["cat"], ratios.method
    (1.5, 0.1, 'em')
    """

    def __init__(
        self, ratios: dict[Any, float], method: str, errors: dict[Any, float], condition: float | None
    ) -> None:
        super().__init__(ratios)
        self.method, self.errors, self.condition = method, errors, condition


def label_ratios(
    probabilities: Any,
    labels: ArrayLike,
    new_probabilities: Any,
    method: Literal["em", "bbse"] = "em",
    *,
    classes: ArrayLike | None = None,
    random_state: Any = 0,
) -> LabelRatios:
    """Estimate how many times as frequent each label is among new rows as among calibration rows.

    It asks that each label looks as it did: only the proportions have changed. Pass what it returns as
    ``label_weights=`` to :func:`calibrate`.

    Parameters
    ----------
    probabilities, labels
        Of calibration rows, as in :func:`calibrate`; every class must have a row.
    new_probabilities : array or data frame, shape (rows, classes)
        What the same model says about new rows, whose labels nobody knows.
    method : {"em", "bbse"}, default="em"
        "em" finds the proportions under which the new probabilities are most likely (Saerens, Latinne and Decaestecker,
        2002), and takes the probabilities at their word; "bbse" solves for those that explain how often each label is
        guessed (Lipton, Wang and Smola, 2018), whatever the probabilities are worth, and varies more.
    classes : array, optional
        The label of each column, as in :func:`calibrate`.
    random_state : None, int or numpy random generator, default=0
        Draws the rows for the standard errors.

    Returns
    -------
    LabelRatios
        A dictionary from label to ratio.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> likely = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> p, y = likely[[0] * 100 + [1] * 100], [0] * 90 + [1] * 10 + [0] * 10 + [1] * 90
    >>> ratios = aptset.label_ratios(p, y, likely[[0, 0, 0, 1] * 50])
    >>> {label: round(ratio, 3) for label, ratio in ratios.items()}
    {0: 1.625, 1: 0.375}
    """
    solve = {"em": _by_likelihood, "bbse": _by_guesses}[validate.one_of(method, ("em", "bbse"), "method")]
    matrix, names = check_probabilities(probabilities, _OLD)
    matrix, known = check_named_columns(matrix, names, classes, labels, _OLD)
    columns = check_labels(labels, known, len(matrix))
    old = check_plain_rows(matrix, probabilities, _OLD)
    aligned = check_new_probabilities(new_probabilities, _NEW, known, names)
    new = check_plain_rows(aligned, new_probabilities, _NEW)
    counts = np.bincount(columns, minlength=len(known))
    if not counts.all():
        raise ValueError(
            f"labels must hold every class, so that its ratio can be told; got no row of {some(known[counts == 0])}. "
            "Calibrate on rows of every class, or use groups='label', which needs no ratios."
        )
    ratios = solve(old, columns, new)
    condition = float(np.linalg.cond(_confusion(old, columns, new.shape[1]))) if method == "bbse" else None
    if condition is not None and not condition < _WORST:
        raise ValueError(
            "method='bbse' must have guesses that distinguish the labels; the condition number of their matrix is "
            f"{condition:.3g}. Some label is never guessed, or two are guessed alike. Use method='em'."
        )
    errors = _errors(solve, old, columns, new, validate.generator(random_state))
    plain = known.tolist()
    return LabelRatios(
        dict(zip(plain, ratios.tolist(), strict=True)),
        method,
        dict(zip(plain, errors.tolist(), strict=True)),
        condition,
    )


def _by_likelihood(old: Floats, columns: NDArray[np.int64], new: Floats) -> Floats:
    """Return the ratios under which the new rows are most likely, step by step."""
    source = old.mean(axis=0)  # what the model takes the shares to be: where nothing shifts, its errors cancel
    ratios = np.ones(new.shape[1])
    for _ in range(_MOST_STEPS):
        target = _mean_under(new, ratios)
        with np.errstate(divide="ignore", invalid="ignore"):
            last, ratios = ratios, np.where(source > 0, target / source, 0.0)
        if np.abs((ratios - last) * source).max() < _CLOSE:
            break
    return ratios


def _mean_under(new: Floats, ratios: Floats) -> Floats:
    """Return the mean of rows that are multiplied by ratios and divided by their sums; one of sum 0 stays as it is."""
    sums = np.zeros(new.shape[1])
    step = max(1, _BLOCK_CELLS // new.shape[1])
    for start in range(0, len(new), step):
        rows = new[start : start + step]
        total = rows @ ratios
        is_tiny = total < _TINY
        if is_tiny.any():
            scaled, of_scaled = rows[is_tiny] * ratios, total[is_tiny, None]
            sums += np.divide(scaled, of_scaled, out=rows[is_tiny], where=of_scaled > 0).sum(axis=0)
            rows, total = rows[~is_tiny], total[~is_tiny]
        sums += (1.0 / total) @ rows * ratios
    return sums / len(new)


def _confusion(old: Floats, columns: NDArray[np.int64], n_classes: int) -> Floats:
    """Return how often each label is guessed where each is true, as shares of all rows."""
    pairs = old.argmax(axis=1) * n_classes + columns
    return np.bincount(pairs, minlength=n_classes**2).reshape(n_classes, n_classes) / len(columns)


def _by_guesses(old: Floats, columns: NDArray[np.int64], new: Floats) -> Floats:
    """Return the ratios that explain how often each label is guessed; none is negative, and shares sum to 1."""
    n_classes = new.shape[1]
    guessed = np.bincount(new.argmax(axis=1), minlength=n_classes) / len(new)
    shares = np.linalg.lstsq(_confusion(old, columns, n_classes), guessed, rcond=None)[0]
    shares = np.maximum(shares, 0.0)
    total = (shares * np.bincount(columns, minlength=n_classes)).sum() / len(columns)
    return shares / total if total > 0 else np.ones(n_classes)


def _errors(solve: Any, old: Floats, columns: NDArray[np.int64], new: Floats, generator: np.random.Generator) -> Floats:
    """Return the standard error of each ratio: rows of both sides are drawn with replacement."""
    n_old, n_new = min(len(old), _MOST_DRAWN), min(len(new), _MOST_DRAWN)
    drawn = []
    for _ in range(_DRAWS):
        ours, theirs = generator.integers(len(old), size=n_old), generator.integers(len(new), size=n_new)
        drawn.append(solve(old[ours], columns[ours], new[theirs]))
    shrunk: float = np.sqrt(max(n_old / len(old), n_new / len(new)))
    errors: Floats = np.std(drawn, axis=0, ddof=1) * shrunk
    return errors
