"""Is coverage even? The mean distance of conditional coverage from 1 - alpha, as one number with a test.

Braun, Holzmüller, Jordan and Bach 2025, "Conditional coverage diagnostics for conformal prediction" (excess risk of the
target coverage), in its L1 form: E|P(covered | x) - (1 - alpha)| is the largest mean of
sign(h(x) - (1 - alpha)) (covered - (1 - alpha)) over all functions h. A fitted h gives a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.labels import as_labels, check_length, numbered
from aptset.kernels.formula import Floats
from aptset.metrics.coverages import levels_by_name
from aptset.metrics.estimates import Estimate, check_confidence, in_p
from aptset.metrics.features import features_of
from aptset.metrics.outcome import Outcome, check_by

_FIRST, _BLOCKS = 0.2, 8  # the share of the rows that only train, and how many blocks the others are judged in
_FEWEST = 50  # rows or clusters; a normal law says nothing about fewer


class Unevenness(Estimate):
    """How far coverage lies from 1 - alpha, averaged over rows: a float with an interval, made by a fitted model.

    It is a lower bound: a model that sees nothing gives about 0, or a little less.

    Attributes
    ----------
    under, over : Estimate
        The parts where the model expects coverage below, and above, 1 - alpha. They add up to the value.
    z : float
        The value divided by its standard error.
    chance : float
        The chance of such a value or a larger one if coverage were 1 - alpha everywhere, by the normal law.
    model : str
        The name of the model. Values of different models, or of different numbers of rows, cannot be compared.
    left_out : tuple of str
        Columns that the model did not see: texts of many values.
    low, high, n, standard_error
        As in :class:`Estimate`; n counts the rows (or clusters) that were judged.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> sets = np.ones((1000, 2), dtype=bool)
    >>> sets[X[:, 0] > 1.2, 0] = False  # label 0 is missed where the first feature is large
    >>> uneven = aptset.coverage_unevenness(sets, np.zeros(1000, dtype=int), X, alpha=0.1)
    >>> uneven.chance < 1e-6, uneven.under > 0.05
    (True, True)
    """

    under: Estimate
    over: Estimate  # type: ignore[assignment]  # what n counts has no other name here
    z: float
    chance: float
    model: str
    left_out: tuple[str, ...]

    def __new__(
        cls, whole: Estimate, under: Estimate, over: Estimate, model: str, left_out: tuple[str, ...] = ()
    ) -> Self:
        """Make the float and hang the rest on it."""
        from scipy.special import ndtr

        self = super().__new__(cls, whole, whole.low, whole.high, whole.n, None, whole.standard_error)
        self.under, self.over, self.model, self.left_out = under, over, model, left_out
        self.z = float(whole) / whole.standard_error if whole.standard_error else math.nan
        self.chance = float(ndtr(-self.z))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        whole = Estimate(float(self), self.low, self.high, self.n, None, self.standard_error)
        return type(self), (whole, self.under, self.over, self.model, self.left_out)

    @property
    def is_more_than_chance(self) -> bool:
        """Whether even coverage would give such a value in less than one of twenty cases."""
        return self.chance < 0.05

    def describe(self) -> str:
        """Return the parts, the test and the model in words."""
        parts = f"under {float(self.under):.3g}, over {float(self.over):.3g}; z = {self.z:.2f}, {in_p(self.chance)}"
        aside = f", left out: {', '.join(self.left_out)}" if self.left_out else ""
        return f"{parts}; {self.model}{aside}"

    def __repr__(self) -> str:
        if math.isnan(self):
            return f"none (n={self.n})"
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}] (n={self.n}; {self.describe()})"

    __str__ = __repr__


def coverage_unevenness(
    sets: Any,
    labels: ArrayLike,
    X: Any,
    alpha: float | Mapping[Any, float] | ArrayLike | None = None,
    *,
    estimator: Any = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> Unevenness:
    """Return how far coverage lies from 1 - alpha, averaged over rows, as far as a model of misses can tell.

    A model learns from some rows which others are covered too little or too much. Rows are put in a random order; the
    first fifth only trains, and the others are judged in eight blocks, each by a model of all rows before it. The terms
    sign(model - (1 - alpha)) (covered - (1 - alpha)) then have mean 0 if coverage is 1 - alpha everywhere, whatever the
    model is, and z is normal. (Folds, above all stratified ones, raise about twice the false alarms.) Coverage that is
    too high or too low in all rows alike counts, too.

    Parameters
    ----------
    sets, labels, classes, confidence
        As in :func:`coverage`.
    X : array or data frame
        The features. For the default model texts of up to 50 values become one column per value, those of more are
        left out, and gaps are filled and marked.
    alpha : float, mapping or array
        The level of the sets, a level for each label, or one for each row.
    estimator : classifier, optional
        The model of misses, with ``fit`` and ``predict_proba``; it takes X as it is. By default gradient boosting, 40
        trees of 8 leaves. Where levels differ, its ``fit`` must take ``sample_weight``.
    random_state : None, int or numpy random generator, default=0
        Draws the order of the rows.

    Returns
    -------
    Unevenness
        NaN for fewer than 50 rows.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(2000, 2))
    >>> sets = np.ones((2000, 2), dtype=bool)
    >>> sets[generator.random(2000) < 0.1, 0] = False  # a tenth is missed, anywhere
    >>> aptset.coverage_unevenness(sets, np.zeros(2000, dtype=int), X, alpha=0.1).is_more_than_chance
    False
    """
    outcome, sure = Outcome.of(sets, labels, classes), check_confidence(confidence)
    covered, target = outcome.covered.astype(np.float64), _targets(alpha, labels, len(outcome.covered))
    generator = validate.generator(random_state)
    model = _Model.of(estimator, X, len(covered), int(generator.integers(2**31)))
    unit = np.arange(len(covered)) if outcome.clusters is None else np.unique(outcome.clusters.of_row, False, True)[1]
    n_units = int(unit.max(initial=-1)) + 1
    if n_units < _FEWEST:
        none = Estimate(math.nan, math.nan, math.nan, n_units, None, math.nan)
        return Unevenness(none, none, none, model.name, model.left_out)
    place = generator.permutation(n_units)[unit]
    edges = np.linspace(round(_FIRST * n_units), n_units, _BLOCKS + 1).round().astype(int).tolist()
    signs = np.zeros(len(covered))
    for start, stop in pairwise(edges):
        before, block = np.flatnonzero(place < start), np.flatnonzero((place >= start) & (place < stop))
        signs[block] = model.signs(covered, target, before, block)
    judged = place >= edges[0]
    terms = _Terms(signs[judged], covered[judged], target[judged], np.unique(unit[judged], False, True)[1])
    whole, under, over = (terms.mean(sides, sure) for sides in ([-1, 1], [-1], [1]))
    return Unevenness(whole, under, over, model.name, model.left_out)


def _targets(alpha: Any, labels: Any, n_rows: int) -> Floats:
    """Return the coverage that is wanted of each row."""
    if alpha is None:
        raise ValueError("alpha must be given: evenness is about coverage of 1 - alpha. Pass the level of the sets.")
    if isinstance(alpha, Mapping):
        names, number = numbered(check_by("label", as_labels(labels, "labels")))
        return np.asarray(1 - levels_by_name(alpha, names.tolist())[number])
    if np.ndim(alpha) == 0:
        return np.full(n_rows, 1 - levels_by_name(alpha, [None])[0])
    levels = as_labels(alpha, "alpha")
    check_length(levels, n_rows, "alpha")
    different, of_row = np.unique(levels, return_inverse=True)
    return np.array([1 - levels_by_name(level, [None])[0] for level in different.tolist()])[of_row]


class _Model(NamedTuple):
    """A model of misses, and the rows as it takes them."""

    estimator: Any
    rows: Any
    name: str
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, estimator: Any, X: Any, n_rows: int, seed: int) -> _Model:
        """Return the model that was passed with X as it is, or gradient boosting with X as numbers."""
        if estimator is not None:
            if not (hasattr(estimator, "fit") and hasattr(estimator, "predict_proba")):
                raise TypeError(f"estimator must have fit and predict_proba; got {type(estimator).__name__}.")
            check_length(range(X.shape[0]) if hasattr(X, "shape") else X, n_rows, "X")
            return cls(estimator, X, type(estimator).__name__)
        from sklearn.ensemble import HistGradientBoostingClassifier

        if hasattr(X, "tocsr"):
            raise TypeError(
                "X must be dense for the default estimator; got a sparse matrix. Pass estimator=LogisticRegression(), "
                "or another model that takes it."
            )
        settings: dict[str, Any] = {"max_iter": 40, "max_leaf_nodes": 8, "min_samples_leaf": 20}
        boosting = HistGradientBoostingClassifier(**settings, early_stopping=False, random_state=seed)
        features = features_of(X, None, n_rows)
        return cls(boosting, features.matrix, "gradient boosting", features.left_out)

    def signs(self, covered: Floats, target: Floats, before: NDArray[Any], block: NDArray[Any]) -> Floats:
        """Return the side of the target on which a model of the rows before expects each row of a block.

        Where targets differ, misses and hits are weighted by their distance from them: the mean of covered - target is
        positive where more than half of the weight is covered.
        """
        from sklearn.base import clone
        from sklearn.utils import _safe_indexing

        known = covered[before]
        if known.min() == known.max():
            return np.asarray(np.sign(known[0] - target[block]))
        is_one = target.min() == target.max()
        weights = {} if is_one else {"sample_weight": np.abs(known - target[before])}
        try:
            fitted = clone(self.estimator).fit(_safe_indexing(self.rows, before), known.astype(np.int64), **weights)
            expected = np.asarray(fitted.predict_proba(_safe_indexing(self.rows, block)), dtype=np.float64)[:, -1]
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"estimator could not be fitted on X: {error} Leave estimator out, for a model that reads texts and "
                "gaps by itself, or pass a pipeline that does" + ("." if is_one else " and whose fit takes weights.")
            ) from error
        return np.asarray(np.sign(expected - (target[block] if is_one else 0.5)))


class _Terms(NamedTuple):
    """What the model expected of the judged rows, what came, what was wanted, and the unit of each row."""

    signs: Floats
    covered: Floats
    target: Floats
    unit: NDArray[np.intp]

    def mean(self, sides: list[int], confidence: float) -> Estimate:
        """Return the mean of the terms of some sides over all units.

        The standard error is that of the terms, or of even coverage if that is larger: where no row is missed, the
        terms have no spread, and say nothing about it.
        """
        from scipy.special import ndtri

        chosen, times = np.isin(self.signs, sides), np.bincount(self.unit)
        terms = np.bincount(self.unit, chosen * self.signs * (self.covered - self.target)) / times
        if_even = np.bincount(self.unit, chosen * self.target * (1 - self.target)) / times**2
        n, value = len(terms), float(terms.mean())
        error = math.sqrt(max(float(terms.var(ddof=1)), float(if_even.mean())) / n)
        half = float(ndtri((1 + confidence) / 2)) * error
        return Estimate(value, value - half, value + half, n, None, error)
