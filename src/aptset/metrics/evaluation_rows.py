"""What lies behind an evaluation, row by row: p-values, probabilities, true labels, and where the sets come from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset import PredictionSets
from aptset.core import validate
from aptset.core.devices import on_host
from aptset.core.groupings import Overlapping
from aptset.core.groups import groups_labels
from aptset.core.labels import as_labels, columns_of, with_one_missing
from aptset.core.tables import is_table, matrix_of_table, plain_list
from aptset.kernels.formula import Floats
from aptset.metrics.coverage_distribution import FoldCounts, simultaneous_band
from aptset.metrics.estimates import Estimate, share


def as_group_list(groups: Any) -> list[Any] | None:
    """Return the group of each row as plain values, every missing one as the same; None where groups overlap."""
    if groups is None or isinstance(groups, Overlapping):
        return None
    if groups_labels(groups):
        way_out = "Pass bands.of(labels)." if hasattr(groups, "of") else "Pass the group of each row's label."
        raise TypeError(
            f"groups must hold the group of each row; got {type(groups).__name__}, which are about labels. {way_out}"
        )
    if is_table(groups) or (isinstance(groups, np.ndarray) and groups.ndim > 1):
        raise TypeError(
            f"groups must be 1-D, with the group of each row; got {type(groups).__name__} of shape {groups.shape}. For "
            "groups that a row may be in several of, pass aptset.Overlapping(...) to aptset.evaluate."
        )
    return with_one_missing(plain_list(groups))


@dataclass(frozen=True, eq=False)
class Origin:
    """How sets were calibrated, as far as it is known.

    Attributes
    ----------
    calibration : str or None
        The name of the calibration; "split" with one group has an exact law of coverage.
    n : int or None
        Number of calibration rows.
    losses : tuple of tuples of (float, float)
        For each group the lines (constant, slope) that are proven: a group's promise is the largest of ``1 - constant -
        slope * alpha`` over its lines, 0 if it has none; the promise is the smallest over the groups.
    is_upper_open : bool
        Whether coverage may be higher than the law says: sets without chance, or never empty.
    settings : dict
        Words for each setting, to be shown.
    within : str or None
        "label" or "group", if the promise is within each of those that are shown.
    group_of_row : array of int or None
        After one split: the group within which each test row was calibrated, -1 for a label that has none.
    group_sizes : tuple of int
        Number of calibration rows of each of these groups.
    folds : tuple, or None
        After several folds: what each fold by itself, which is a split, says about the test rows, group by group.
    is_weighted : bool
        Whether calibration rows had masses of their own, by weights, clusters or votes: no law is known then.
    about : str
        With clusters or votes what the promise is about, such as "a row of a new patient".
    """

    calibration: str | None = None
    n: int | None = None
    losses: tuple[tuple[tuple[float, float], ...], ...] = (((0.0, 1.0),),)
    has_groups: bool = False
    is_upper_open: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    within: str | None = None
    group_of_row: NDArray[np.int64] | None = None
    group_sizes: tuple[int, ...] = ()
    folds: tuple[tuple[FoldCounts, ...], ...] | None = None
    is_weighted: bool = False
    about: str = ""

    @property
    def n_of_law(self) -> int | None:
        """Number of calibration rows, if the count of covered rows follows one Beta-binomial law."""
        return self.n if self.calibration == "split" and not self.has_groups and not self.is_weighted else None

    @property
    def laws(self) -> tuple[tuple[int, int], ...] | None:
        """Test rows and calibration rows of each group: the count of covered rows is a sum of Beta-binomial counts."""
        return None if self.group_of_row is None else self.laws_of(self.group_of_row)

    def laws_of(self, groups: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
        """Return the laws of some rows, whose groups these are."""
        present, rows = np.unique(groups[groups >= 0], return_counts=True)
        return tuple((int(m), self.group_sizes[group]) for group, m in zip(present.tolist(), rows, strict=True))

    def promise(self, alpha: float) -> float:
        """Return the coverage that is promised at a level."""
        best = (max((1 - constant - slope * alpha for constant, slope in lines), default=0.0) for lines in self.losses)
        return max(0.0, min(best))


class LabelsNeeded(NamedTuple):
    """How doubtful rows are before chance: how many of its most likely labels hold a share of each row's mass."""

    share: float
    of_row: NDArray[np.int64]


_CELLS_AT_ONCE = 2**22


def mass_of_sets(sets: PredictionSets, probabilities: NDArray[Any]) -> Floats:
    """Return the probability that the model gives to the labels in each set together."""
    rows, labels = probabilities.shape
    step = max(1, _CELLS_AT_ONCE // max(1, labels))
    mass = np.zeros(rows)
    for start in range(0, rows, step):
        sizes = sets.sizes[start : start + step]
        members = sets.indices[sets.indptr[start] : sets.indptr[min(start + step, rows)]]
        of_row = np.repeat(np.arange(len(sizes)), sizes)
        shares = _shares(probabilities[start : start + step])[of_row, members]
        mass[start : start + step] = np.bincount(of_row, weights=shares, minlength=len(sizes))
    return mass


def labels_needed(sets: PredictionSets, probabilities: NDArray[Any]) -> LabelsNeeded:
    """Return how many of its most likely labels each row needs to hold the share that sets hold on average.

    Sizes depend on u: of the two sets that it chooses between, the smaller one covers less, for an oracle too. This
    number is one of the row alone, so the oracle's randomised sets (Romano, Sesia and Candes 2020) cover 1 - alpha
    at each value of it; only the average share knows u, by one part in as many as there are rows.
    """
    rows, labels = probabilities.shape
    step = max(1, _CELLS_AT_ONCE // max(1, labels))
    held = float(mass_of_sets(sets, probabilities).sum()) / max(1, rows)
    needed = np.zeros(rows, dtype=np.int64)
    for piece in (slice(start, start + step) for start in range(0, rows, step)):
        mass = np.cumsum(-np.sort(-_shares(probabilities[piece]), axis=1), axis=1)
        needed[piece] = np.minimum(labels, 1 + np.count_nonzero(mass < held - 1e-9, axis=1))
    return LabelsNeeded(held, needed)


def _shares(probabilities: NDArray[Any]) -> Floats:
    """Return probabilities as shares of their row's sum."""
    wide = probabilities.astype(np.float64)
    return np.asarray(wide / np.maximum(wide.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


class ModelWords(NamedTuple):
    """What the probabilities of a model say beside its sets.

    ``accuracy`` is how often the most likely label is the true one; ``claimed`` the mean probability of the labels in
    sets of each size.
    """

    accuracy: Estimate
    claimed: dict[int, float]


def words_of_model(sets: PredictionSets, labels: Any, probabilities: NDArray[Any], confidence: float) -> ModelWords:
    """Return what the probabilities of a model say about sets and true labels."""
    right = np.argmax(probabilities, axis=1) == columns_of(as_labels(labels, "labels"), sets.classes)
    mass, sizes = mass_of_sets(sets, probabilities), sets.sizes
    means = {size: float(mass[sizes == size].mean()) for size in np.unique(sizes).tolist()}
    return ModelWords(share(right, confidence), means)


def check_rows_of_calibration(n: Any, p_values: NDArray[np.float64]) -> int:
    """Return the number of calibration rows; refuse one that these p-values cannot come from."""
    size = validate.sample_size(n)
    if size < 1:
        raise ValueError(f"n must be at least 1, the number of calibration rows; got {size}.")
    counts = p_values * (size + 1)
    off = np.abs(counts - np.rint(counts)) > 1e-6 * (size + 1)
    if off.any():
        raise ValueError(
            f"n must be the number of rows that calibrated: p-values are then multiples of 1 / (n + 1). Got n={size} "
            f"and a p-value {p_values[off][0]:.6g}. Leave n out for groups and for other calibrations than one split."
        )
    return size


def check_evidence(
    sets: Any, p_values: Any, probabilities: Any, alpha: float | None, allow_empty: bool | None
) -> tuple[NDArray[np.float64], NDArray[Any] | None, NDArray[np.int64] | None]:
    """Return p-values, probabilities, and the label that empty sets got, if they did; refuse what does not fit."""
    shape = (len(sets), len(sets.classes))
    values = check_matrix(p_values, shape, "p_values").astype(np.float64, copy=False)
    chances = None if probabilities is None else check_matrix(probabilities, shape, "probabilities")
    if alpha is None:
        raise ValueError("alpha must be given with p_values: the level of the sets, such as alpha=0.1.")
    mask, members = values > alpha, sets.mask
    differ = np.flatnonzero((mask != members).any(axis=1))
    if allow_empty is None:
        allow_empty = len(differ) == 0
    if mask[differ].any() or (members[differ].sum(axis=1) != 1).any() or (allow_empty and len(differ)):
        raise ValueError(
            f"p_values must exceed alpha={alpha:g} exactly for the labels in the sets; row {differ[0]} differs. "
            "Pass what p_values gives for the rows, in the order of the columns sets.classes, and the sets' alpha."
        )
    if allow_empty:
        return values, chances, None
    if chances is None:
        raise ValueError(
            "probabilities must be given for sets that are never empty: an empty set gets its most likely label, which "
            "p-values do not tell. Pass probabilities=classifier.predict_proba(X)."
        )
    if not members.any(axis=1).all():
        raise ValueError("allow_empty must be True for sets of which some are empty; got False.")
    filled = np.argmax(chances, axis=1).astype(np.int64)
    filled[differ] = np.argmax(members[differ], axis=1)
    return values, chances, filled


def check_matrix(values: Any, shape: tuple[int, int], name: str) -> NDArray[Any]:
    """Return a matrix of numbers from 0 to 1, one for each row and class."""
    matrix: NDArray[Any] | None = matrix_of_table(values)[0] if is_table(values) else np.asarray(on_host(values))
    if matrix is None or matrix.shape != shape or matrix.dtype.kind not in "fiu":
        came = "a frame that does not hold numbers only"
        came = came if matrix is None else f"{matrix.dtype} of shape {matrix.shape}"
        raise ValueError(f"{name} must be a matrix of numbers (rows, classes) = {shape}; got {came}.")
    if np.isnan(matrix).any():
        raise ValueError(f"{name} must not have missing values (NaN); row {np.argwhere(np.isnan(matrix))[0][0]} has.")
    if len(matrix) and not (matrix.min() >= 0 and matrix.max() <= 1):
        raise ValueError(f"{name} must be between 0 and 1; got {matrix.min():g} to {matrix.max():g}.")
    return matrix


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationRows:
    """The rows behind an evaluation.

    Attributes
    ----------
    p_values : array, shape (rows, classes)
        Of every label; a label is in the set iff it exceeds alpha.
    most_likely : array of int or None
        The label that an empty set gets, where sets are never empty.
    """

    sets: PredictionSets
    labels: NDArray[Any]
    p_values: Floats
    probabilities: NDArray[Any] | None = None
    groups: list[Any] | None = None
    X: Any = None
    most_likely: NDArray[np.int64] | None = None
    origin: Origin = Origin()

    @classmethod
    def of(
        cls,
        sets: PredictionSets,
        labels: Any,
        p_values: Any,
        probabilities: Any,
        groups: Any,
        X: Any,
        alpha: float | None,
        n: int | None,
        allow_empty: bool | None,
    ) -> EvaluationRows:
        """Return the rows of sets at a level, calibrated by one split on n rows if n is known."""
        values, chances, filled = check_evidence(sets, p_values, probabilities, alpha, allow_empty)
        origin = Origin(settings={"Calibration": "not stated; the promise is that of a valid one at this level"})
        if n is not None:
            size = check_rows_of_calibration(n, values)
            known = {"Calibration": "split", "Calibration rows": f"{size:,}"}
            of_row = np.zeros(len(sets), dtype=np.int64)
            law: dict[str, Any] = {"group_of_row": of_row, "group_sizes": (size,)}
            origin = Origin("split", size, is_upper_open=filled is not None, settings=known, **law)
        return cls(sets, as_labels(labels, "labels"), values, chances, as_group_list(groups), X, filled, origin)

    def some(self, rows: NDArray[np.intp], settings: dict[str, str]) -> EvaluationRows:
        """Return some of the rows, with words about them; what each fold says by itself is not known of them alone."""
        origin, X = self.origin, self.X
        of_row = None if origin.group_of_row is None else origin.group_of_row[rows]
        origin = replace(origin, group_of_row=of_row, folds=None, settings={**origin.settings, **settings})
        X = None if X is None else X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        chances, filled = (None if one is None else one[rows] for one in (self.probabilities, self.most_likely))
        groups = None if self.groups is None else [self.groups[row] for row in rows.tolist()]
        return EvaluationRows(
            self.sets[rows], self.labels[rows], self.p_values[rows], chances, groups, X, filled, origin
        )

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """The column of each true label, -1 for a label that no set can hold."""
        return columns_of(self.labels, self.sets.classes)

    @cached_property
    def p_of_truth(self) -> Floats:
        """The p-value of each true label; 0, which exceeds no alpha, for a label that no set can hold."""
        of_truth = np.take_along_axis(self.p_values, np.maximum(self.columns, 0)[:, None], axis=1)[:, 0]
        return np.where(self.columns >= 0, of_truth, 0.0)

    @cached_property
    def saved_from(self) -> Floats:
        """From which alpha on a true label is in because the set would be empty without it; infinity for never."""
        if self.most_likely is None:
            return np.full(len(self.labels), np.inf)
        return np.where(self.most_likely == self.columns, self.p_values.max(axis=1), np.inf)

    @cached_property
    def needed(self) -> LabelsNeeded | None:
        """How many labels each row needs before chance; None where no probabilities are known."""
        return None if self.probabilities is None else labels_needed(self.sets, np.asarray(self.probabilities))

    def covered_at(self, alpha: float) -> NDArray[np.bool_]:
        """Tell which rows the sets of a level cover."""
        return np.asarray((self.p_of_truth > alpha) | (self.saved_from <= alpha))


# Levels that are drawn: every half percent up to one half.
LEVELS: tuple[Fraction, ...] = tuple(Fraction(number, 200) for number in range(1, 101))


def coverage_curve(evidence: EvaluationRows, levels: tuple[Fraction, ...] = LEVELS) -> dict[str, Any]:
    """Return nominal and measured coverage, and the band that holds 95 of 100 valid curves where their law is known.

    Where coverage may exceed the law (never-empty sets, no randomisation) only the lower end says something.
    """
    alphas = [float(level) for level in levels]
    rows = len(evidence.labels)
    columns: dict[str, Any] = {"nominal": np.array([float(1 - level) for level in levels])}
    columns["coverage"] = np.array([np.count_nonzero(evidence.covered_at(alpha)) / rows for alpha in alphas])
    n = evidence.origin.n_of_law
    if n is not None:
        low, high = simultaneous_band(rows, n, levels, evidence.origin.is_upper_open)
        columns |= {"low": low, "high": high}
    return columns
