"""Worst-slice coverage: the slab { a <= v.x <= b } where sets serve worst, found on some rows, judged on others.

Cauchois, Gupta and Duchi 2021, "Knowing what you know: valid and validated confidence sets in multiclass and
multilabel prediction"; on other rows than it was found, as Romano, Sesia and Candès 2020 do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.core import validate
from aptset.core.tables import is_table
from aptset.kernels.blocks import LONG, least_and_most, looked_up, over_blocks, shared_out, thread_count
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import sort_beside
from aptset.kernels.slabs import Bounds, Slab, find_slab, least_mean, least_mean_bounds
from aptset.metrics.estimates import Estimate, check_confidence, share
from aptset.metrics.features import Features, check_projections, features_of, in_words, project, rows_within
from aptset.metrics.outcome import Outcome

_FEWEST_ROWS = 10  # of a slice that is shown; the coverage of fewer says nothing
_FEWEST_DIRECTIONS, _DIRECTIONS_AT_ONCE = 2, 64  # that share a look at the rows
_ROUNDS = 2  # of each thread: more of them would read the rows more often
_BINS_AT_ONCE = 2**18  # of all directions together: they stay near the core
_POINTS_IN_BIN = 5
_COARSE, _FINE = 2**12, 2**15  # bins at the most: for a first look at all directions, and for those that are left
_WORTH_THREADS = 200_000  # rows times directions
_SEARCHED_AT_ONCE = 4  # directions, by several threads
_MANY_ROWS = 2**14  # for which several directions, or words about several columns, are worth a thread
_FAR = 1e300


def search(matrix: Any, covered: NDArray[np.bool_], vectors: Floats, delta: Fraction) -> tuple[Slab, Floats]:
    """Return the worst slab over all directions (the first of equal ones)."""
    least = max(1, -int(-delta * len(covered) // 1))  # ceil, exactly
    low, high = (0.0, np.inf) if hasattr(matrix, "tocsr") else least_and_most(matrix)
    points = _Points(matrix, covered.astype(np.uint8), least, max(float(high), -float(low)))
    bounds, known = points.bounds(vectors, Fraction(1), _COARSE)
    close = np.flatnonzero(bounds <= float(known) + 1e-9)
    if len(close) > 1 and len(covered) > _POINTS_IN_BIN * _COARSE:  # many points in a bin: a closer look is worth it
        bounds[close], known = points.bounds(vectors[close], known, _FINE)
    left = [number for number in np.argsort(bounds, kind="stable").tolist() if bounds[number] <= float(known) + 1e-9]
    # Several are looked at side by side: what only one thread can do for a direction is then done for all of them.
    at_once = min(_SEARCHED_AT_ONCE, thread_count()) if len(covered) > _MANY_ROWS else 1
    best = points.worst(vectors, left[:at_once])
    for start in range(at_once, len(left), at_once):
        if bounds[left[start]] > float(best.mean) + 1e-9:
            break  # neither this direction nor any later one can be worse
        best = min(best, points.worst(vectors, left[start : start + at_once]), key=_rank)
    return find_slab(best.position, best.flags, least, best.mean), vectors[best.number]


class _Found(NamedTuple):
    """The least mean of a slab so far, the number of its direction, and the points along it."""

    number: int
    mean: Fraction
    position: Floats
    flags: NDArray[np.uint8]


def _rank(slab: _Found) -> tuple[Fraction, int]:
    """Return what comes first of several: the least mean, and of equal ones the first direction."""
    return slab.mean, slab.number


class _Points(NamedTuple):
    """Rows, whether they are covered, how many a slab holds at least, and the largest value (infinite if unknown)."""

    matrix: Any
    flags: NDArray[np.uint8]
    least: int
    largest: float

    def worst(self, vectors: Floats, numbers: list[int]) -> _Found:
        """Return the worst slab of some directions, or the first of equal ones."""

        def work(place: int, _: int) -> _Found:
            number = numbers[place]
            (projection,) = project(self.matrix, vectors[number : number + 1])
            position, flags = sort_beside(projection, self.flags)
            return _Found(number, least_mean(position, flags, self.least), position, flags)

        return min(over_blocks(len(numbers), 1, work, serial_blocks=1), key=_rank)

    def bounds(self, vectors: Floats, known: Fraction, most_bins: int) -> Bounds:
        """Return what no slab of each direction falls below, some directions at a time on every core."""
        n_bins = min(max(len(self.flags) // _POINTS_IN_BIN, 16), most_bins)
        fewest = min(_FEWEST_DIRECTIONS, -(-len(vectors) // thread_count()))
        fair = max(fewest, -(-len(vectors) // (_ROUNDS * thread_count())))
        at_once = max(1, min(fair, _DIRECTIONS_AT_ONCE, _BINS_AT_ONCE // n_bins))
        is_safe = self.largest * float(np.abs(vectors).sum(axis=1).max()) < _FAR  # no sum can overflow

        def work(start: int, stop: int) -> Bounds:
            # A sparse matrix is projected before, and what came out is its own direction. What others know by now saves
            # time; it depends on the threads, but only bounds that rule a direction out depend on it.
            nonlocal known
            directions = vectors[start:stop]
            rows = self.matrix if is_safe else project(self.matrix, directions).T
            along = directions if is_safe else np.eye(len(directions))
            bounds = least_mean_bounds(rows, along, self.flags, self.least, known, n_bins)
            known = min(known, bounds.known)
            return bounds

        if len(self.flags) * len(vectors) < _WORTH_THREADS:
            several = [work(k, k + at_once) for k in range(0, len(vectors), at_once)]
        else:
            several = over_blocks(len(vectors), at_once, work, serial_blocks=1)
        return Bounds(np.concatenate([one.least for one in several]), min(one.known for one in several))


_LEAST_SPECIAL = 0.1  # standard deviations that a column must be away to be worth a word


@dataclass(frozen=True)
class WorstSlice:
    """The slab where coverage is worst. ``float(slice)`` is its coverage.

    Attributes
    ----------
    coverage : Estimate
        Coverage in the slab with its interval and counts: on the rows kept apart, or, for method="in-sample", on the
        rows where it was found (then biased downward, and the interval does not hold). NaN if no row fell into it.
    found : float
        Coverage in the slab on the rows where it was found.
    direction : array
        The vector v, one entry per column of ``names``.
    low, high : float
        The bounds on v.x.
    share : float
        The share of the rows where it was found that lie in the slab.
    names : list of str
        The features; categories appear as "column=value".
    means, overall : array
        The mean of each feature among the rows in the slab and among all rows.
    method : str
        "held-out" or "in-sample".
    rows : array of int
        The rows behind ``coverage``.
    sentences : tuple of str
        What sets the rows in the slab apart, in words.
    chance : float
        The chance that a slab of as many rows, drawn at random from those that judge, holds as many misses: a slice is
        worse than chance if it is small. NaN for method="in-sample".
    left_out : tuple of str
        Columns that no slice is made of: texts of many values.
    fill : dict
        What stands for missing values, by the name of the column.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> sets = np.ones((2000, 2), dtype=bool)
    >>> sets[X[:, 0] > 1, 0] = False  # label 0 is missed where the first feature is large
    >>> worst = aptset.worst_slice_coverage(sets, np.zeros(2000, dtype=int), X)
    >>> worst.is_worse_than_chance, worst.top_features(1)[0][0]
    (True, 'x0')
    """

    coverage: Estimate
    found: float
    direction: Floats
    low: float
    high: float
    share: float
    names: list[str]
    means: Floats
    overall: Floats
    spread: Floats
    method: str
    rows: NDArray[np.intp]
    sentences: tuple[str, ...] = ()
    chance: float = float("nan")
    left_out: tuple[str, ...] = ()
    fill: dict[str, float] = field(default_factory=dict)

    def __float__(self) -> float:
        return float(self.coverage)

    def top_features(self, count: int = 3) -> list[tuple[str, float]]:
        """Return the features that weigh most: entry of the direction times the spread of the feature."""
        weight = self.direction * self.spread
        order = np.argsort(-np.abs(weight), kind="stable")[:count]
        return [(self.names[j], float(weight[j])) for j in order]

    @property
    def is_shown(self) -> bool:
        """Whether displays and reports show it: the coverage of very few rows says nothing."""
        return len(self.rows) >= _FEWEST_ROWS

    def describe(self) -> str:
        """Return the slab in words, or that none is worse than chance."""
        aside = f" (left out: {', '.join(self.left_out)})" if self.left_out else ""
        worst = f"coverage {self.coverage!r} in the worst slice found, {self.share:.0%} of the rows"
        if not self.is_worse_than_chance:
            return f"no slice found that is worse than chance: {worst}{aside}"
        where = f", where {'; '.join(self.sentences)}" if self.sentences else ""
        return f"{worst}{where}{aside}"

    @property
    def is_worse_than_chance(self) -> bool:
        """Whether the slab holds more misses than one in twenty slabs drawn at random; unknown counts as worse."""
        return not (self.chance > 0.05 or self.coverage.n == 0)

    def __repr__(self) -> str:
        return f"WorstSlice({self.method}: {self.describe()})"

    def contains(self, X: Any) -> NDArray[np.bool_]:
        """Tell which rows of X lie in the slab; X must have the columns the slab was found with."""
        inside, _ = rows_within(features_of(X, self.names, fill=self.fill).matrix, self.direction, self.low, self.high)
        return inside


def check_directions(directions: Any, n_features: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return unit vectors: random ones, or those that were passed."""
    if isinstance(directions, int | np.integer) and not isinstance(directions, bool):
        if directions < 1:
            raise ValueError(f"directions must be at least 1; got {directions}.")
        drawn = generator.normal(size=(int(directions), n_features))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
    try:
        vectors = np.array(directions, dtype=np.float64, ndmin=2)
    except (TypeError, ValueError) as error:
        raise TypeError(f"directions must be a whole number or a matrix of numbers; got {directions!r}.") from error
    if vectors.ndim != 2 or vectors.shape[1] != n_features or not np.isfinite(vectors).all():
        raise ValueError(f"directions must be finite, with one entry per feature ({n_features}); got {vectors.shape}.")
    if len(vectors) == 0 or (vectors == 0).all(axis=1).any():
        raise ValueError("directions must not be empty or zero.")
    return vectors  # as they are: dividing by a length would tear exact ties apart


def worst_slice_coverage(
    sets: Any,
    labels: ArrayLike,
    X: Any,
    *,
    method: Literal["held-out", "in-sample"] = "held-out",
    delta: float = 0.1,
    directions: int | ArrayLike = 1000,
    share_to_find: float = 0.25,
    standardize: bool | None = None,
    classes: ArrayLike | None = None,
    confidence: float = 0.95,
    random_state: Any = 0,
) -> WorstSlice:
    """Return the coverage in the slab where it is worst.

    Parameters
    ----------
    sets, labels, classes, confidence
        As in :func:`coverage`.
    X : array, sparse matrix or data frame
        The features. Columns of texts and categories are turned into one column per value.
    method : {"held-out", "in-sample"}, default="held-out"
        "held-out" finds the slab on a part of the rows and measures it on the others: for rows that are independent of
        each other it is unbiased, 1 - alpha for sets with valid conditional coverage. (Rows of one patient in both
        parts know each other's misses.) "in-sample" is the minimum itself, which lies below the truth even for perfect
        sets.
    delta : float, default=0.1
        The least share of the points that a slab holds.
    directions : int or array, default=1000
        Number of directions, uniform on the sphere, or the directions themselves, (directions, features).
    share_to_find : float, default=0.25
        The share of the rows on which the slab is found.
    standardize : bool, optional
        Divide the features by their standard deviations first; by default for data frames, not for arrays.
    random_state : None, int or numpy random generator, default=0
        Draws the directions and the rows.

    Returns
    -------
    WorstSlice

    Examples
    --------
    >>> import numpy as np, aptset
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> sets = np.ones((2000, 2), dtype=bool)
    >>> sets[X[:, 1] > 1.2, 0] = False  # label 0 is missed where the second feature is large
    >>> worst = aptset.worst_slice_coverage(sets, np.zeros(2000, dtype=int), X)
    >>> round(float(worst), 2), worst.top_features(1)[0][0]
    (0.01, 'x1')
    """
    validate.one_of(method, ("held-out", "in-sample"), "method")
    covered = Outcome.of(sets, labels, classes).covered
    features = features_of(X, None, len(covered))
    rule = "in (0, 1], the least share of the points in a slab"
    validate.number(delta, "delta", rule, lambda share: 0 < share <= 1)
    least_share, sure = Fraction(str(delta)), check_confidence(confidence)
    generator = validate.generator(random_state)
    vectors = check_directions(directions, features.matrix.shape[1], generator)
    if is_table(X) if standardize is None else validate.flag(standardize, "standardize"):
        spread = check_projections(features.spread)
        vectors = check_projections(vectors / np.where(spread > 0, spread, 1.0))
    if method == "in-sample":
        find = judge = np.arange(len(covered))
    else:
        # Drawing is left to one thread; the others take what is said of the features in the meantime.
        several: list[Callable[[], NDArray[Any]]] = [
            partial(generator.permutation, len(covered)),
            lambda: features.spread,
        ]
        order, _ = over_blocks(2, 1, lambda number, _: several[number](), serial_blocks=1)
        n_find = max(1, round(validate.share(share_to_find, "share_to_find") * len(covered)))
        find, judge = order[:n_find], order[n_find:]
    slab, vector = search(features.some(find), looked_up(covered, find), vectors, least_share)
    inside, rows = rows_within(features.matrix, vector, slab.low, slab.high)
    judged = _judged(covered, inside, judge)
    hits, means = looked_up(covered, judged.rows), features.means(rows)
    return WorstSlice(
        coverage=share(hits, sure),
        found=float(slab.mean),
        direction=vector,
        low=slab.low,
        high=slab.high,
        share=float(np.count_nonzero(looked_up(inside, find)) / len(find)),
        names=features.names,
        means=means,
        overall=features.overall,
        spread=features.spread,
        method=method,
        rows=judged.rows,
        sentences=_sentences(features, rows, means),
        chance=float("nan") if method == "in-sample" else _chance(len(judge), judged.misses, hits),
        left_out=features.left_out,
        fill=features.fill,
    )


class _Judged(NamedTuple):
    """Those of the rows that judge which lie in a slab, in their order, and how many of all that judge are missed."""

    rows: NDArray[np.intp]
    misses: int


def _judged(covered: NDArray[np.bool_], inside: NDArray[np.bool_], judge: NDArray[np.intp]) -> _Judged:
    """Look at each row that judges once."""

    def work(start: int, stop: int) -> _Judged:
        rows = judge[start:stop]
        return _Judged(rows[inside[rows]], stop - start - int(np.count_nonzero(covered[rows])))

    several = over_blocks(len(judge), shared_out(len(judge), LONG, 2), work)
    none = _Judged(judge[:0], 0)
    return _Judged(np.concatenate([one.rows for one in [none, *several]]), sum(one.misses for one in several))


def _sentences(features: Features, rows: NDArray[np.intp], means: Floats, most: int = 3) -> tuple[str, ...]:
    """Say what is special about the rows inside, for the columns that set them apart most, each of them once."""
    if not len(rows):
        return ()
    away = (means - features.overall) / np.where(features.spread > 0, features.spread, 1.0)
    # A value is told where it is frequent: that another one is rare says less.
    special = [away[j] if feature.kind == "value" else abs(away[j]) for j, feature in enumerate(features.columns)]
    chosen: dict[str, int] = {}
    for j in np.argsort(-np.array(special), kind="stable").tolist():
        column = features.columns[j].column
        if len(chosen) < most and column not in chosen and special[j] > _LEAST_SPECIAL:
            chosen[column] = j
    numbers = list(chosen.values())

    def work(place: int, _: int) -> str:
        j = numbers[place]
        return in_words(features.columns[j], features.of(j, rows), features.overall[j], partial(features.of, j))

    return tuple(over_blocks(len(numbers), 1, work, serial_blocks=1 if len(rows) > _MANY_ROWS else most))


def _chance(n: int, misses: int, inside: NDArray[np.bool_]) -> float:
    """Return the chance of as many misses among as many of n rows drawn at random: the hypergeometric law."""
    from scipy.stats import hypergeom

    return float(hypergeom.sf(np.count_nonzero(~inside) - 1, n, misses, len(inside)))
