"""Tests of exchangeability: do rows wander along their order, do labels come that were not there, do rows repeat?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import columns_of, in_order
from aptset.kernels.blocks import over_blocks
from aptset.kernels.long_arrays import furthest_sums
from aptset.metrics.features import Features, features_of

PERMUTATIONS = 1999
_MOST_COLUMNS = 30
_MOST_PIECES = 1000
_CELLS_AT_ONCE = 2**21
_ORDERS_AT_ONCE, _MOST_DRAWN = 32, 256


def path_test(columns: NDArray[np.float64], generator: np.random.Generator, permutations: int = PERMUTATIONS) -> float:
    """Return the p-value of the furthest that partial sums of any column get from zero, under reordering of the rows.

    ``columns`` has a row for each row, in the order that is asked about, and any number of columns, which are centred
    and scaled. Many rows are taken in pieces of one size: means of pieces are as exchangeable as the rows.
    """
    steps = _standardised(pieces(columns))
    if steps.size == 0:
        return 1.0
    as_they_are = np.arange(len(steps))[None]
    reached = furthest_sums(steps, as_they_are)[0] * (1 - 1e-9)  # sums in another order may differ in their last bits
    at_once = max(1, min(_CELLS_AT_ONCE // steps.size, _MOST_DRAWN))
    counts = [min(at_once, permutations - start) for start in range(0, permutations, at_once)]
    as_far, orders = 0, _drawn(generator, counts[0], len(steps))
    for following in [*counts[1:], 0]:
        count = partial(_count_as_far, steps, orders, reached)
        orders, more = _beside(partial(_drawn, generator, following, len(steps)), len(orders), count)
        as_far += more
    return (1 + as_far) / (1 + permutations)


def _beside(
    draw: Callable[[], NDArray[np.intp]], n_orders: int, count: Callable[[int, int], int]
) -> tuple[NDArray[np.intp], int]:
    """Draw what comes next on one thread, while the others count the orders that get as far."""

    def work(number: int, _: int) -> Any:
        start = (number - 1) * _ORDERS_AT_ONCE
        return draw() if number == 0 else count(start, start + _ORDERS_AT_ONCE)

    drawn, *counts = over_blocks(1 - (-n_orders // _ORDERS_AT_ONCE), 1, work)
    return drawn, sum(counts)


def _drawn(generator: np.random.Generator, count: int, n: int) -> NDArray[np.intp]:
    """Return so many orders of n rows."""
    return generator.permuted(np.tile(np.arange(n), (count, 1)), axis=1) if count else np.empty((0, n), dtype=np.intp)


def _count_as_far(steps: NDArray[np.float64], orders: NDArray[np.intp], reached: float, start: int, stop: int) -> int:
    """Count the orders that get as far."""
    return int((furthest_sums(steps, orders[start:stop]) >= reached).sum())


def pieces(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means over pieces of one size, at most so many; the first rows may be left over. Pieces stay pieces."""
    size = -(-len(columns) // _MOST_PIECES)
    count = len(columns) // size
    means: NDArray[np.float64] = columns[len(columns) - count * size :].reshape(count, size, -1).mean(axis=1)
    return means


def _standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns with mean 0 and spread 1, without those that do not vary."""
    centred = columns - columns.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    varies = spread > 1e-12 * np.maximum(1.0, np.abs(columns).max(axis=0, initial=0.0))
    return np.ascontiguousarray(centred[:, varies] / spread[varies])


def columns_of_labels(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column of zeros and ones for each of the labels that occur most, and one for all others."""
    codes = columns_of(labels, in_order(labels))
    common = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_COLUMNS]
    column = np.full(codes.max() + 1, len(common))
    column[common] = np.arange(len(common))
    return np.asarray(np.eye(len(common) + 1)[column[codes]])


def columns_of_features(
    X: Any, along: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray
) -> Callable[[np.random.Generator], NDArray[np.float64] | None]:
    """Return what gives ranks of each feature, or, for very many, random directions through them; None for no features.

    Ranks are not moved by outliers; gaps in arrays of numbers rank lowest. They are worked out here: only directions
    wait for a generator. What is given is what ``along`` makes of the columns.
    """
    from scipy.stats import rankdata

    try:
        features = features_of(_without_gaps(X))
    except (TypeError, ValueError, AttributeError):
        return lambda _: None
    if len(features.names) == 0:
        return lambda _: None
    if len(features.names) <= _MOST_COLUMNS and not hasattr(features.matrix, "tocsr"):
        ranks = over_blocks(len(features.names), 1, lambda column, _: rankdata(features.matrix[:, column]))
        together = along(np.column_stack(ranks))
        return lambda _: together
    return lambda generator: along(_along_directions(features, generator))


def _along_directions(features: Features, generator: np.random.Generator) -> NDArray[np.float64]:
    spread = np.where(features.spread > 0, features.spread, 1)[:, None]
    directions = generator.normal(size=(len(features.names), _MOST_COLUMNS)) / spread
    return np.asarray(features.matrix @ directions, dtype=np.float64)


def _without_gaps(X: Any) -> Any:
    """Return arrays of numbers with their missing values below all others; anything else as it is."""
    if not (isinstance(X, np.ndarray) and X.dtype.kind == "f" and X.ndim == 2 and np.isnan(X).any()):
        return X
    least = np.nanmin(np.where(np.isfinite(X), X, np.nan), initial=0.0)
    return np.where(np.isnan(X), least - 1, X)


_LARGEST = 6  # times that a row occurs, up to which it is looked at


def repeated_rows(content: NDArray[np.intp]) -> int:
    """Return how many rows have a copy."""
    times = np.bincount(content)
    return int(times[times > 1].sum())


def repeats_test(content: NDArray[np.intp]) -> float:
    """Return a p-value for: rows are drawn independently from one source, which may repeat itself as it likes.

    If some content comes a Poisson number of times, then for r = 2, 3, ... the expected numbers f of contents that come
    r - 1, r and r + 1 times obey (r + 1) f(r - 1) f(r + 1) >= r f(r)^2, whatever the source (Cauchy and Schwarz). Rows
    that were copied come too regularly: all of them three times, say, and none twice or four times.
    """
    counts = np.bincount(np.bincount(content), minlength=_LARGEST + 2)
    if not counts[2:].any():
        return 1.0
    low, high = -300.0, 0.0  # of the smallest chance that still contradicts: the logarithm of the p-value
    if not _contradicts(counts, 1.0):
        return 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if _contradicts(counts, 10.0**middle) else (middle, high)
    return float(10.0**high)


def _contradicts(counts: NDArray[np.intp], chance: float) -> bool:
    """Tell whether the inequality fails for some r by more than three Poisson counts allow, with a chance for all r."""
    from scipy.special import gammaincc, gammainccinv, gammaincinv

    r = np.arange(2, _LARGEST + 1)
    tail = chance / (3 * len(r))
    fewer, same, more = (counts[r + shift].astype(np.float64) for shift in (-1, 0, 1))
    most_fewer = gammainccinv(fewer + 1, tail)
    least_same = np.where(same > 0, gammaincinv(np.maximum(same, 1), tail), 0.0)
    expected = r / (r + 1) * least_same**2 / most_fewer
    return bool((gammaincc(more + 1, expected) <= tail).any())


def new_labels_test(
    labels: NDArray[Any], n_last: int, generator: np.random.Generator, permutations: int = PERMUTATIONS
) -> float:
    """Return the p-value of the number of last rows whose label no earlier row has, under reordering.

    The laws of the labels leave such rows out; without this test a table sorted by its label would look fine.
    """
    codes = columns_of(labels, in_order(labels))
    times = np.bincount(codes)

    def new(last: NDArray[np.intp]) -> int:
        among_last = np.bincount(last, minlength=len(times))
        return int(among_last[among_last == times].sum())

    observed = new(codes[-n_last:])
    as_many = sum(new(generator.permutation(codes)[-n_last:]) >= observed for _ in range(permutations))
    return (1 + as_many) / (1 + permutations)
