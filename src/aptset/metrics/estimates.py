"""Numbers that know how sure they are: a float with its confidence interval and the counts behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from aptset.core import validate
from aptset.kernels.blocks import over_blocks
from aptset.kernels.formula import Floats

Counts = NDArray[np.int64]


def check_confidence(confidence: Any) -> float:
    """Return the confidence of an interval."""
    if type(confidence) is float and 0.0 < confidence < 1.0:  # one evaluation asks many times
        return confidence
    return validate.share(confidence, "confidence", way_out="For 95 % intervals pass 0.95.")


class Estimate(float):
    """A float with a confidence interval.

    Attributes
    ----------
    low, high : float
        The ends of the interval.
    n : int
        The number of rows behind the estimate; with none, the value is NaN.
    count : int or None
        For a share, how many of them have the property.
    standard_error : float or None
        Over clusters, where rows belong together: ``n`` is then the number of clusters.
    over : str
        What n counts, such as "rows" or "patients".

    Examples
    --------
    >>> import aptset
    >>> covered = aptset.coverage([["a"], ["a", "b"], ["b"]], ["a", "b", "a"])
    >>> covered
    0.6667 [0.0943, 0.9916] (2 of 3)
    >>> covered > 0.5
    True
    """

    low: float
    high: float
    n: int
    count: int | None
    standard_error: float | None
    over: str

    def __new__(
        cls,
        value: float,
        low: float,
        high: float,
        n: int,
        count: int | None = None,
        standard_error: float | None = None,
        over: str = "rows",
    ) -> Self:
        """Make the float and hang the rest on it."""
        self = super().__new__(cls, value)
        self.low, self.high, self.n, self.count = float(low), float(high), int(n), count
        self.standard_error, self.over = standard_error, over
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.low, self.high, self.n, self.count, self.standard_error, self.over)

    def __repr__(self) -> str:
        behind = f"n={self.n}" if self.count is None else f"{self.count} of {self.n}"
        behind = behind if self.standard_error is None else f"{self.n} {self.over}, s.e. {self.standard_error:.2g}"
        if math.isnan(self):
            return f"none ({behind})"
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}] ({behind})"

    __str__ = __repr__


def share(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """Return the share of rows with a property, with the exact (Clopper-Pearson) interval."""
    return share_of_count(int(np.count_nonzero(hits)), len(hits), confidence)


def share_of_count(count: int, n: int, confidence: float) -> Estimate:
    """Return count / n with the Clopper-Pearson interval; NaN in [0, 1] if n is 0."""
    from scipy.special import betaincinv

    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0, 0)
    tail = (1 - confidence) / 2
    low = betaincinv(count, n - count + 1, tail) if count > 0 else 0.0
    high = betaincinv(count + 1, n - count, 1 - tail) if count < n else 1.0
    return Estimate(count / n, low, high, n, count)


class ManyIntervals(NamedTuple):
    """Many shares at once: their values, the ends of their intervals, and the numbers of rows behind them."""

    value: Floats
    low: Floats
    high: Floats
    n: Counts


_AT_ONCE = 512  # ends that a thread works out at a time; of up to 500 numpy does not let other threads run meanwhile


def intervals_of_counts(counts: Counts, n: Counts, confidence: float) -> ManyIntervals:
    """Return such a share for each of many counts at once."""
    from scipy.special import betaincinv

    tail, n_shares = (1 - confidence) / 2, len(n)
    first = np.concatenate([np.maximum(counts, 1), counts + 1])
    second = np.concatenate([n - counts + 1, np.maximum(n - counts, 1)])
    tails, ends = np.repeat([tail, 1 - tail], n_shares), np.empty(2 * n_shares)

    def work(start: int, stop: int) -> None:
        betaincinv(first[start:stop], second[start:stop], tails[start:stop], out=ends[start:stop])

    over_blocks(len(ends), _AT_ONCE, work)
    low, high = np.where(counts > 0, ends[:n_shares], 0.0), np.where(counts < n, ends[n_shares:], 1.0)
    return ManyIntervals(np.where(n > 0, counts / np.maximum(n, 1), math.nan), low, high, n)


def shares_of_counts(counts: Counts, n: Counts, confidence: float) -> list[Estimate]:
    """Return them as estimates."""
    return _estimates(intervals_of_counts(counts, n, confidence), counts.tolist())


def _estimates(intervals: ManyIntervals, counts: Sequence[int | None]) -> list[Estimate]:
    """Return estimates over rows. An evaluation makes thousands of them, so each has all its attributes set at once."""
    value, low, high, n = (column.tolist() for column in intervals)
    made = list(map(float.__new__, repeat(Estimate), value))
    for one, least, most, rows, count in zip(made, low, high, n, counts, strict=True):
        one.__dict__ = {"low": least, "high": most, "n": rows, "count": count, "standard_error": None, "over": "rows"}
    return made


def mean(values: NDArray[Any], confidence: float) -> Estimate:
    """Return a mean with the interval of Student's t; NaN without values, and no finite interval for one value."""
    from scipy.special import stdtrit

    n = len(values)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(np.mean(values))
    if n == 1:
        return Estimate(value, -math.inf, math.inf, 1)
    spread = float(np.std(values, ddof=1)) / n**0.5 * float(stdtrit(n - 1, (1 + confidence) / 2))
    return Estimate(value, value - spread, value + spread, n)


def mean_of_sizes(sizes: NDArray[np.integer], least: int, most: int, confidence: float) -> Estimate:
    """Return the mean of sizes that lie in [least, most]."""
    total, squares = int(np.sum(sizes, dtype=np.int64)), int(np.sum(np.square(sizes, dtype=np.int64)))
    return mean_of_sums(len(sizes), total, squares, least, most, confidence)


def mean_of_sums(n: int, total: int, squares: int, least: int, most: int, confidence: float) -> Estimate:
    """Return the mean of n sizes in [least, most] from their sums, with an interval that holds where few are huge.

    Student's interval knows nothing of sizes that did not come. Each end is therefore worked out as if one more set had
    come, of the extreme size on that side, and moved further out by the most that skewness can ask for between these
    bounds (the third term of Cornish and Fisher). Where sizes are ``least`` or ``most`` only, that is close to Clopper
    and Pearson.
    """
    if n == 0:
        return Estimate(math.nan, least, most, 0)
    low, high = _ends_of_mean(n, total, squares, least, most, confidence)
    return Estimate(total / n, low, high, n)


def mean_over_clusters(
    values: NDArray[np.float64], least: float, most: float, confidence: float, over: str
) -> Estimate:
    """Return the mean of the means of clusters, which lie in [least, most], with its standard error over clusters."""
    n = len(values)
    if n == 0:
        return Estimate(math.nan, least, most, 0, standard_error=math.nan, over=over)
    total = math.fsum(values.tolist())
    low, high = _ends_of_mean(n, total, math.fsum(np.square(values).tolist()), least, most, confidence)
    error = float(np.std(values, ddof=1)) / n**0.5 if n > 1 else math.nan
    return Estimate(total / n, low, high, n, standard_error=error, over=over)


def means_of_sums(
    n: Counts, total: Counts, squares: Counts, least: int, most: int, confidence: float
) -> list[Estimate]:
    """Return such a mean for each of many sums at once."""
    rows, is_there = np.maximum(n, 1), n > 0
    low, high = _ends_of_mean(rows, total, squares, least, most, confidence)
    ends = (np.where(is_there, low, least), np.where(is_there, high, most))
    return _estimates(ManyIntervals(np.where(is_there, total / rows, math.nan), *ends, n), [None] * len(n))


def _ends_of_mean(n: Any, total: Any, squares: Any, least: float, most: float, confidence: float) -> tuple[Any, Any]:
    """Return the ends of the interval of a mean, or of many."""
    from scipy.special import stdtrit

    # Many parts have as many rows as others: a quantile for each number is enough.
    different, which = (n, ...) if np.ndim(n) == 0 else np.unique(n, return_inverse=True)
    t = stdtrit(different, (1 + confidence) / 2)[which]
    down, up = (_distance(total, squares, n, extreme, t) for extreme in (least, most))
    low, high = (total + least) / (n + 1) - down, (total + most) / (n + 1) + up
    return np.maximum(float(least), low), np.minimum(float(most), high)


def _distance(total: Any, squares: Any, n: Any, extreme: float, t: Any) -> Any:
    """Return how far an end lies from the mean of the sizes and one extreme size more."""
    mean = (total + extreme) / (n + 1)
    variance = np.maximum(0.0, (squares + extreme**2 - mean * (total + extreme)) / n)
    skewness = np.maximum(0.0, t**2 - 1) / 3 * np.abs(extreme - mean) / (n + 1)
    return t * np.sqrt(variance / (n + 1)) + skewness


def resampled_share(values: NDArray[Any], test_share: float, confidence: float) -> Estimate:
    """Return the mean of shares over random splits; its interval does not leave [0, 1]."""
    one = resampled_mean(values, test_share, confidence)
    return Estimate(float(one), max(0.0, one.low), min(1.0, one.high), one.n)


def resampled_mean(values: NDArray[Any], test_share: float, confidence: float) -> Estimate:
    """Return a mean over random splits of the same rows, with the corrected interval of Nadeau and Bengio.

    Splits share rows, so their results are dependent and Student's interval would be too short: the variance of the
    mean is taken as (1 / splits + test rows / other rows) times the variance between splits.
    """
    from scipy.special import stdtrit

    kept = np.asarray(values, dtype=np.float64)
    kept = kept[~np.isnan(kept)]
    n = len(kept)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    value = float(np.mean(kept))
    if n == 1:
        return Estimate(value, -math.inf, math.inf, 1)
    scale = (1 / n + test_share / (1 - test_share)) ** 0.5
    spread = scale * float(np.std(kept, ddof=1)) * float(stdtrit(n - 1, (1 + confidence) / 2))
    return Estimate(value, value - spread, value + spread, n)


def paired_mean(total: NDArray[np.float64], times: NDArray[np.float64], confidence: float) -> Estimate:
    """Return the mean of what random splits found about rows, with an interval from the spread between rows.

    ``total`` is the sum of a row's values over the splits that tested it, ``times`` their number. The interval is about
    new rows under the models of these splits: each row counts once, however often it was tested.
    """
    from scipy.special import stdtrit

    seen = times > 0
    n, weight = int(seen.sum()), times[seen] / times.sum()
    if n < 2:
        return Estimate(float(total.sum() / times.sum()) if n else math.nan, -math.inf, math.inf, n)
    values = total[seen] / times[seen]
    value = float(weight @ values)
    error = float(np.sqrt(n / (n - 1) * np.sum((weight * (values - value)) ** 2)))
    half = error * float(stdtrit(n - 1, (1 + confidence) / 2))
    return Estimate(value, value - half, value + half, n)


def percent(value: float, rows: int) -> str:
    """Return a share of so many rows in percent, with no more digits than one row can move: 63 of 69 are "91 %"."""
    digits = 0 if rows < 200 else 1 if rows < 2000 else 2
    rounded = math.floor(100 * float(value) * 10**digits + 0.5) / 10**digits  # halves go up, as in the page's script
    return f"{rounded:.{digits}f}".removesuffix(".00").removesuffix(".0") + " %"


def in_words(share: Estimate) -> str:
    """Return a share with its interval and its counts as people write them: "91 % [82 %, 97 %] (63 of 69)"."""
    ends = f"[{percent(share.low, share.n)}, {percent(share.high, share.n)}]"
    behind = f"{share.n:,} {share.over}" if share.count is None else f"{share.count:,} of {share.n:,}"
    return f"{percent(share, share.n)} {ends} ({behind})"


def in_p(p_value: float) -> str:
    """Return a p-value as people write it: "p = 0.03", "p < 0.0001", and never "p = 0"."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.3g}"
