"""Do the rows look exchangeable along their order, or along a column of times, and independent of each other?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.audits.dataset import Pool
from aptset.audits.results import SplitResult, TestedRows
from aptset.core.labels import columns_of, in_order
from aptset.kernels.blocks import over_blocks
from aptset.metrics.coverage_distribution import coverage_law
from aptset.metrics.estimates import in_p
from aptset.metrics.features import features_of

PERMUTATIONS = 1999
_MOST_COLUMNS = 30
_MOST_PIECES = 1000
_CELLS_AT_ONCE = 2**21
_ORDERS_AT_ONCE = 8


def path_test(columns: NDArray[np.float64], generator: np.random.Generator, permutations: int = PERMUTATIONS) -> float:
    """Return the p-value of the furthest that partial sums of any column get from zero, under reordering of the rows.

    ``columns`` has a row for each row, in the order that is asked about, and any number of columns, which are centred
    and scaled. Many rows are taken in pieces of one size: means of pieces are as exchangeable as the rows.
    """
    steps = _standardised(_pieces(columns))
    if steps.size == 0:
        return 1.0
    reached = _reach(steps[None])[0] * (1 - 1e-9)  # sums in another order may differ in their last bits
    at_once = max(1, _CELLS_AT_ONCE // steps.size)
    as_far = 0
    for start in range(0, permutations, at_once):
        count = min(at_once, permutations - start)
        orders = generator.permuted(np.tile(np.arange(len(steps)), (count, 1)), axis=1)
        as_far += sum(over_blocks(count, _ORDERS_AT_ONCE, partial(_count_as_far, steps, orders, reached)))
    return (1 + as_far) / (1 + permutations)


def _count_as_far(steps: NDArray[np.float64], orders: NDArray[np.intp], reached: float, start: int, stop: int) -> int:
    """Count the orders that get as far."""
    return int((_reach(steps[orders[start:stop]]) >= reached).sum())


def _reach(steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the furthest that any column's partial sums get, for each of many orders (orders, rows, columns)."""
    return np.asarray(np.abs(np.cumsum(steps, axis=1)).max(axis=(1, 2)))


def _pieces(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return means over pieces of one size, at most so many; the first rows may be left over."""
    size = -(-len(columns) // _MOST_PIECES)
    count = len(columns) // size
    means: NDArray[np.float64] = columns[len(columns) - count * size :].reshape(count, size, -1).mean(axis=1)
    return means


def _standardised(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns with mean 0 and spread 1, without those that do not vary."""
    centred = columns - columns.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    varies = spread > 1e-12 * np.maximum(1.0, np.abs(columns).max(axis=0, initial=0.0))
    return np.asarray(centred[:, varies] / spread[varies])


def columns_of_labels(labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column of zeros and ones for each of the labels that occur most, and one for all others."""
    codes = columns_of(labels, in_order(labels))
    common = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_COLUMNS]
    column = np.full(codes.max() + 1, len(common))
    column[common] = np.arange(len(common))
    return np.asarray(np.eye(len(common) + 1)[column[codes]])


def columns_of_features(X: Any, generator: np.random.Generator) -> NDArray[np.float64] | None:
    """Return ranks of each feature, or, for very many, random directions through them; None if there are none.

    Ranks are not moved by outliers; gaps in arrays of numbers rank lowest.
    """
    from scipy.stats import rankdata

    try:
        features = features_of(_without_gaps(X))
    except (TypeError, ValueError, AttributeError):
        return None
    if len(features.names) == 0:
        return None
    if len(features.names) <= _MOST_COLUMNS and not hasattr(features.matrix, "tocsr"):
        ranks = over_blocks(len(features.names), 1, lambda column, _: rankdata(features.matrix[:, column]))
        return np.column_stack(ranks)
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


# For all checks together. An audit may speak up for nothing in 0.01 of cases; verdicts are sharp and get the rest.
FALSE_ALARMS = 0.009
CHECKS = 5
LEVEL = FALSE_ALARMS / CHECKS  # of each check


@dataclass(frozen=True)
class Drift:
    """Whether rows look alike from first to last, and each drawn for itself.

    Splits are made of rows in an order that their content decides, so all that is found about a row depends on the
    rows and the seed, and not on where it stands: if rows are exchangeable, every reordering is as likely, and the
    share of reorderings that go as far is an exact p-value, given the rows and the seed.

    Attributes
    ----------
    warning : bool
        Whether one of the checks speaks up: for rows that are drawn independently from one source, in fewer than one of
        100 data sets.
    p_order : float
        Permutation test: do the p-values of the true labels, from random splits, wander along the order?
    p_labels, p_features : float, float or None
        Permutation tests: do the shares of the labels change along the order, do the features? None without features
        that are numbers or categories.
    p_last : float or None
        Exact test: trained and calibrated on the earlier rows, do the sets cover fewer of the last rows than the
        Beta-binomial law allows (or, with a promise for every label, do more of them have new labels than reorderings
        show)? None without such a law.
    p_repeats : float
        Do rows repeat in numbers that no independent draw makes, whatever the source?
    repeated : int
        Rows that occur more than once, label and all.
    coverage_of_last : float
        Coverage of the last rows when the earlier rows train and calibrate.
    coverage : array
        Mean coverage in ten pieces of the order, from random splits.
    monitor : str or None
        What a :class:`CoverageMonitor` says along the last rows when the earlier rows train and calibrate; None where
        their misses have no such law.
    times : str
        How the column of times was read, and from when to when it goes; "" where the order is that of the rows.
    """

    warning: bool
    p_order: float
    p_labels: float
    p_features: float | None
    p_last: float | None
    p_repeats: float
    repeated: int
    coverage_of_last: float
    coverage: NDArray[np.float64]
    monitor: str | None = None
    times: str = ""

    @property
    def found(self) -> list[str]:
        """The names of the checks that speak up: order, labels, features, last, repeats."""
        names = ("order", "labels", "features", "last", "repeats")
        return [name for name in names if speaks_up(getattr(self, f"p_{name}"))]

    def sentence(self) -> str:
        """Return the finding in words: each check has its level beside it, and the times how they were read."""
        read = f" The rows are ordered by their times, read as {self.times}." if self.times else ""
        return self._finding() + read + ("" if self.monitor is None else f" {self.monitor}")

    def _finding(self) -> str:
        tests = f"{in_p(self.p_order)} along the order, {_short(self.p_labels)} for the labels"
        tests += "" if self.p_features is None else f", {_short(self.p_features)} for the features"
        tests += "" if self.p_last is None else f", {_short(self.p_last)} for the last rows"
        tests += f"; a check warns at p <= {LEVEL:g}"
        repeats = f" {self.repeated:,} rows occur more than once." if self.repeated else ""
        if not self.warning:
            return f"No sign of drift ({tests}).{repeats}"
        along = self._along_the_order(tests) if self.found != ["repeats"] else f"No sign of drift ({tests})."
        return along + (f" {self._about_repeats()}" if "repeats" in self.found else repeats)

    def _along_the_order(self, tests: str) -> str:
        words = {"labels": "the shares of the labels change", "features": "the features change"}
        changes = [words[name] for name in self.found if name in words]
        what = f"; {' and '.join(changes)} along the order" if changes else ""
        return (
            f"The rows do not look exchangeable ({tests}){what}. Trained and calibrated on the earlier rows, "
            f"sets cover {self.coverage_of_last:.4g} of the last rows. The guarantee is about exchangeable "
            "rows: calibrate on recent rows, and again when the data change."
        )

    def _about_repeats(self) -> str:
        return (
            f"{self.repeated:,} rows occur more than once, more often than in independent draws ("
            f"{in_p(self.p_repeats)}). Copies of one row may train and test at once, so new rows may be covered less "
            "than these: keep one of each. (If the table was designed to hold every combination a fixed number of "
            "times, they need not be copies.)"
        )


def speaks_up(p_value: float | None) -> bool:
    """Tell whether one check alone speaks against the rows."""
    return p_value is not None and p_value <= LEVEL


def look_for_drift(
    tested: list[TestedRows],
    last: SplitResult,
    pool: Pool,
    alpha: Fraction,
    generator: np.random.Generator,
    is_by_label: bool = False,
) -> Drift:
    """Return what all checks say; ``last`` is the split whose test rows are the last ones."""
    values, hits, times = _by_content(tested, pool.content)
    # Rows of one cluster are no evidence each for itself: clusters stand for them, by the means of their rows.
    order = np.argsort(pool.places(generator))
    values, hits, times = (pool.means(one[:, None], times > 0)[:, 0] for one in (values, hits, times))
    tested_order = order[times[order] > 0]
    p_order = path_test(values[tested_order, None], generator)
    p_labels = path_test(pool.means(columns_of_labels(pool.y))[order], generator)
    columns = columns_of_features(pool.X if pool.features is None else pool.features, generator)
    p_features = None if columns is None else path_test(pool.means(columns)[order], generator)
    p_last = None if last.laws is None else coverage_law(last.covered, last.laws, alpha).too_low
    if p_last is not None and is_by_label:
        p_last = min(1.0, 2 * min(p_last, new_labels_test(pool.y[order], last.rows, generator)))
    p_repeats = repeats_test(pool.content) if pool.clusters is None else 1.0  # rows of a cluster may well be alike
    warning = any(map(speaks_up, (p_order, p_labels, p_features, p_last, p_repeats)))
    means = np.array([piece.mean() if len(piece) else np.nan for piece in np.array_split(hits[tested_order], 10)])
    p_values = (p_order, p_labels, p_features, p_last, p_repeats, repeated_rows(pool.content))
    share = last.metrics["coverage"] if last.over_clusters else last.covered / last.rows
    return Drift(warning, *p_values, share, means, last.monitor, pool.times)


def _by_content(
    tested: list[TestedRows], content: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each row's mean p-value and coverage over the splits that tested it or a copy of it, and their number.

    Copies share one value: which of them was tested must not matter, or the order would come back in.
    """
    which = content[np.concatenate([np.asarray(one.rows) for one in tested])]
    # Test rows of one split share its luck: take it out.
    values = np.concatenate([np.asarray(one.values) - np.mean(one.values) for one in tested])
    of_rows = (values, np.concatenate([one.hits for one in tested]), np.ones(len(which)))
    total, hits, times = (np.bincount(which, weights, content.max() + 1).astype(np.float64) for weights in of_rows)
    with np.errstate(invalid="ignore"):
        return (total / times)[content], (hits / times)[content], times[content]


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


def _short(p_value: float) -> str:
    return in_p(p_value).removeprefix("p = ").removeprefix("p ")
