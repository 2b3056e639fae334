"""The law of the coverage that a calibration realises: was the promise kept, and how much data does one need?

Vovk 2012, "Conditional validity of inductive conformal predictors".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core import validate
from aptset.core.levels import Assurance, check_assurance, rank_at, size_needed
from aptset.core.tables import Display
from aptset.kernels.formula import Floats
from aptset.metrics.coverage_distribution import (
    CENTRE,
    FALSE_ALARMS,
    State,
    beta_binomial,
    chance_at_most,
    chance_within,
    realised_coverage,
    state_of,
)
from aptset.metrics.estimates import check_confidence, in_p, percent


@dataclass(frozen=True)
class CoverageTest:
    """How well an observed coverage agrees with calibration on n samples. ``float(test)`` is the two-sided p-value.

    Attributes
    ----------
    p_value : float
        Two-sided: twice the smaller tail, at most 1.
    too_low, too_high : float
        The chance, under a valid calibration, of a count as low (as high) as the one observed.
    coverage : float
        The observed share.
    expected : float
        Its expectation, k / (n + 1).
    low, high : float
        The central 95 % of the law, as shares of m.
    least : float
        The smallest coverage that would not have contradicted 1 - alpha, at the 1 % level of the two-sided test.
    m, n, alpha
        Test rows, calibration rows and level.
    """

    p_value: float
    too_low: float
    too_high: float
    coverage: float
    expected: float
    low: float
    high: float
    least: float
    m: int
    n: int
    alpha: float

    def __float__(self) -> float:
        return self.p_value

    @property
    def state(self) -> State:
        """What the test rows say: "agrees", "few" (too few rows to tell), "less" or "more" than promised.

        They agree only if they could have shown a shortfall of 5 points.
        """
        tail = FALSE_ALARMS / 2
        return state_of(self.too_low < tail, self.too_high < tail, 1 - self.alpha, self.least)

    def sentence(self) -> str:
        """Return the verdict in words.

        Examples
        --------
        >>> import aptset
        >>> aptset.coverage_test(covered=63, m=69, n=100).sentence()
        'There are too few rows to contradict 90 %: only a coverage below 75 % would (p = 0.997, level 0.01).'
        """
        if rank_at(self.n, validate.alpha(self.alpha)) > self.n:
            return f"{self.n:,} calibration rows are too few for alpha = {self.alpha:g}: every set holds every label."
        promise, least = f"{100 * (1 - self.alpha):.4g} %", percent(self.least, self.m)
        test = f"({in_p(self.p_value)}, level {FALSE_ALARMS:g})"
        return {
            "agrees": f"The test rows agree with {promise}; a coverage below {least} would not have {test}.",
            "few": f"There are too few rows to contradict {promise}: only a coverage below {least} would {test}.",
            "less": f"The sets cover less than the promised {promise} {test}.",
            "more": (
                f"The sets cover more than the promised {promise} {test}: they are larger than needed, and "
                "the guarantee holds."
            ),
        }[self.state]


def check_counts(covered: Any, m: Any) -> tuple[int, int]:
    """Return how many rows are covered, and of how many."""
    if np.ndim(covered) == 1:
        flags = np.asarray(covered)
        if flags.dtype != np.bool_:
            raise TypeError(f"covered must be a count or a boolean per row; got dtype {flags.dtype}.")
        if m is not None and m != len(flags):
            raise ValueError(f"m must be the number of rows, {len(flags)}; got {m}. It may be left out here.")
        covered, m = int(flags.sum()), len(flags)
    for name, value in (("covered", covered), ("m", m)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be a whole number; got {value!r}.")
    if m < 1 or not 0 <= covered <= m:
        raise ValueError(f"covered must be between 0 and m, and m at least 1; got covered={covered}, m={m}.")
    return int(covered), int(m)


def check_size_exists(n: int, alpha: Any, within: Any) -> int:
    """Return a number of samples; refuse one that nobody will ever have, nor floats tell from its neighbour."""
    if n > 2**50:
        raise ValueError(
            "alpha must be in (0, 1) and within wide enough for fewer than 2^50 calibration samples; got "
            f"alpha={alpha}, within={within}. Pass larger ones."
        )
    return n


def coverage_test(covered: Any, m: int | None = None, n: int | None = None, alpha: float = 0.1) -> CoverageTest:
    """Test whether an observed coverage is compatible with split calibration on n samples.

    If scores are distinct and rows exchangeable, the number of covered rows among m follows the Beta-binomial law with
    parameters (m, k, n + 1 - k), k = ceil((1 - alpha)(n + 1)). With ties or without randomisation coverage may be
    higher: look at ``too_low`` then.

    Parameters
    ----------
    covered : int or boolean array
        How many test rows are covered, or which.
    m : int
        Number of test rows (may be left out with an array).
    n : int
        Number of calibration rows.
    alpha : float, default=0.1
        Miscoverage level of the sets.

    Examples
    --------
    >>> import aptset
    >>> test = aptset.coverage_test(covered=884, m=1000, n=500, alpha=0.1)
    >>> round(test.p_value, 3), round(test.too_low, 3)
    (0.336, 0.168)
    """
    count, rows = check_counts(covered, m)
    size, level = validate.sample_size(n), validate.alpha(alpha)
    k = rank_at(size, level)
    chances = beta_binomial(rows, size, k)
    # Each tail is summed by itself: one minus the other would lose everything below 1e-16.
    too_low, too_high = (min(1.0, float(tail.sum())) for tail in (chances[: count + 1], chances[count:]))
    places = np.searchsorted(np.cumsum(chances), (*CENTRE, FALSE_ALARMS / 2))
    low, high, least = (np.minimum(places, rows) / rows).tolist()
    # Where every set holds every label nothing can be too high, and the count is certain.
    p_value = too_low if k > size else min(1.0, 2 * min(too_low, too_high))
    expected = min(1.0, k / (size + 1))
    asked = (rows, size, float(level))
    return CoverageTest(p_value, too_low, too_high, count / rows, expected, low, high, least, *asked)


class CalibrationSize(int):
    """A number of calibration samples that knows the law it comes from.

    Attributes
    ----------
    alpha, within, confidence : float
        What was asked for.
    assurance : Assurance or None
        What was asked for.
    achieved : float
        The chance, with this many samples, that the realised coverage is within the margin.
    """

    alpha: Fraction
    within: float
    confidence: float
    achieved: float
    assurance: Assurance | None = None

    def frame(self) -> dict[str, Floats]:
        """Return the density of the realised coverage as columns ``coverage`` and ``density``."""
        coverage, density = realised_coverage(
            int(self), self.alpha, None if self.assurance is None else self.assurance.risk(1)
        )
        return {"coverage": coverage, "density": density}

    def plot(self) -> Display:
        """Draw the law of the realised coverage, with the margin."""
        target = float(1 - self.alpha)
        low = target - self.within if self.assurance is None else target
        marks = sorted({low, target, target + self.within})
        title = f"Realised coverage after calibration on {int(self)} samples"
        return Display(self.frame(), "line", title, "coverage", "density", marks)


def calibration_size(
    alpha: float,
    within: float | None = None,
    confidence: float = 0.95,
    *,
    assurance: float | Assurance | None = None,
) -> CalibrationSize:
    """Return how many calibration samples make the realised coverage stay within a margin of 1 - alpha.

    Given the calibration sample, the coverage of split calibration follows Beta(k, n + 1 - k), where
    k = ceil((1 - alpha)(n + 1)). The answer is the smallest n from which on the chance of a coverage in
    [1 - alpha - within, 1 - alpha + within] is at least ``confidence``. With ``assurance`` k is the assured rank: the
    coverage is at least 1 - alpha with that probability, and the answer is the smallest n from which on it is at most
    1 - alpha + within with probability ``confidence``, or without a margin the smallest n at which any label can be
    left out.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    within : float, optional
        The margin; by default 0.01, and none with ``assurance``.
    confidence : float, default=0.95
        The chance to stay within it.
    assurance : float or Assurance, optional
        That of the sets, as in :func:`conformal_rank`.

    Returns
    -------
    CalibrationSize
        An int with ``achieved`` and ``plot()``.

    Examples
    --------
    >>> import aptset
    >>> size = aptset.calibration_size(0.1, within=0.02)
    >>> int(size), round(size.achieved, 3)
    (854, 0.95)
    >>> int(aptset.calibration_size(0.1, assurance=0.95))
    29
    """
    sure = check_assurance(assurance)
    within = 0.01 if within is None and sure is None else within
    level, chance, risk = validate.alpha(alpha), check_confidence(confidence), None if sure is None else sure.risk(1)
    side = "around" if sure is None else "above"
    margin = 0.0 if within is None else validate.share(within, "within", f"the margin {side} 1 - alpha")
    least = check_size_exists(max(1, size_needed(level, risk)), alpha, within)

    def chances(sizes: NDArray[np.int64]) -> Floats:
        if risk is None:
            return chance_within(sizes, level, margin)
        return np.array([chance_at_most(n, level, risk, margin) for n in sizes.tolist()])

    n = least
    if margin:
        high = _first_enough(lambda n: bool(chances(np.array([n]))[0] >= chance), least, alpha, within)
        # Ranks are whole: the chance wobbles with n, by some tens of steps of 1 / alpha. Look around the crossing.
        around = min(max(2000, int(20 / level)), 1_000_000) if risk is None else min(max(50, int(3 / level)), 1000)
        sizes = np.arange(max(least, high - around), high + around)
        short = np.flatnonzero(chances(sizes) < chance)
        n = int(sizes[short[-1]]) + 1 if len(short) else least
    size = CalibrationSize(n)
    size.alpha, size.within, size.confidence, size.assurance = level, margin, chance, sure
    size.achieved = float(chances(np.array([n]))[0])
    return size


def _first_enough(is_enough: Callable[[int], bool], least: int, alpha: Any, within: Any) -> int:
    """Return a size that is enough, right above one that is not, or the least: by doubling, and then by halving."""
    low = high = least
    while not is_enough(high):
        low, high = high, check_size_exists(2 * high, alpha, within)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
