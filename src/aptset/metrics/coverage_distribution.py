"""The law of coverage: after a split the number of covered rows is Beta-binomial, and all else follows from that.

If scores are distinct and rows exchangeable, the number of m new rows whose score is at most the k-th smallest of n,
k = ceil((1 - alpha)(n + 1)), is Beta-binomial with parameters (m, k, n + 1 - k), and the coverage of one calibration is
Beta(k, n + 1 - k). Independent groups, splits and folds add up.

Vovk 2012, "Conditional validity of inductive conformal predictors".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.levels import rank_at
from aptset.kernels.formula import Floats

# Chances below this are left away, so that the laws of many groups are quickly joined; the page's script does the same.
NEGLIGIBLE = 1e-60
CENTRE = (0.025, 0.975)  # between these quantiles lie 95 of 100 valid calibrations
CURVES = 9999  # drawn for a band: the share of curves that it holds is then known to 0.2 percent points


class FoldCounts(NamedTuple):
    """A group of a fold of n scores; ``below[c]``: the test rows with c of them below their own, under its model."""

    rows: int
    n: int
    below: NDArray[np.int64]


FALSE_ALARMS = 0.01  # a verdict contradicts a valid calibration in at most this share of cases
FEW_POINTS = 0.05  # rows that cannot show a shortfall of this size are too few to agree with anything

State = Literal["agrees", "few", "less", "more"]


class CoverageLaw(NamedTuple):
    """Where the central 95 % of the measured coverages of valid calibrations lie, and the tails of a count.

    ``least`` is the smallest measured coverage that does not contradict the promise, at the level of the lower tail.
    """

    low: float
    high: float
    too_low: float
    too_high: float
    is_certain: bool
    least: float


def state_of(is_low: bool, is_high: bool, promise: float, least: float) -> State:
    """Return what a measurement says of a promise; it agrees only where a shortfall of a few points would have shown.

    Parameters
    ----------
    is_low, is_high : bool
        Whether the measured coverage contradicts the promise from below, or is higher than chance explains.
    promise, least : float
        The promised coverage, and the smallest measured coverage that would not have contradicted it.
    """
    if is_low or is_high:
        return "less" if is_low else "more"
    return "few" if promise - least > FEW_POINTS + 1e-9 else "agrees"


def beta_binomial(rows: int, n: int, k: int) -> Floats:
    """Return the chance of each number of covered rows, 0 to ``rows``, when the k-th smallest of n scores decides."""
    from scipy.special import betaln, gammaln

    if k > n:  # every set holds every label
        return np.append(np.zeros(rows), 1.0)
    count = np.arange(rows + 1.0)
    ways = gammaln(rows + 1.0) - gammaln(count + 1) - gammaln(rows - count + 1)
    return np.asarray(np.exp(ways + betaln(count + k, rows - count + n + 1 - k) - betaln(k, n + 1 - k)))


def simultaneous_band(rows: int, n: int, levels: Sequence[Fraction], is_upper_open: bool = False) -> Floats:
    """Return the lower and upper ends, (2, levels), of a band that holds the whole curve of 95 of 100 calibrations.

    At each level the band cuts off the same share of the Beta-binomial law. Which share, curves of valid calibrations
    say, drawn from the joint law of the order statistics: in at most 5 of 100 the most extreme level lies further out.
    Where coverage may exceed the law the band has a lower end only, above which 39 of 40 curves lie.
    """
    ranks = [rank_at(n, level) for level in levels]
    counts, ends = _curves(rows, n, ranks), []
    extreme = np.ones(CURVES)
    for which, rank in enumerate(ranks):
        first, chances = _trimmed(beta_binomial(rows, n, rank))
        tails = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]  # each summed by itself
        for tail in tails[: 1 if is_upper_open else 2]:
            extreme = np.minimum(extreme, tail[np.clip(counts[:, which] - first, 0, len(tail) - 1)])
        ends.append((first, *tails))
    outside = CENTRE[0] if is_upper_open else 2 * CENTRE[0]
    cut = np.sort(extreme)[int(outside * (CURVES + 1)) - 1]
    low = np.array([first + np.argmax(below >= cut) for first, below, _ in ends])
    high = np.array([first + np.flatnonzero(above >= cut)[-1] for first, _, above in ends])
    return np.stack([low, np.full(len(levels), rows) if is_upper_open else high]) / rows


def _curves(rows: int, n: int, ranks: list[int]) -> NDArray[np.int64]:
    """Draw covered counts at each of some ranks, (curves, ranks), as valid calibrations on n rows give them.

    The k-th smallest of n uniform scores is a sum of k of n + 1 exponential gaps over their total, and the test rows
    fall between such scores independently.
    """
    generator = np.random.default_rng(0)  # fixed: the band of a report is the same every time
    known = np.minimum(ranks, n + 1)
    order = np.argsort(known, kind="stable")
    gaps = np.diff(np.append(known[order], n + 1), prepend=0)
    total = np.cumsum(generator.standard_gamma(gaps, size=(CURVES, len(gaps))), axis=1)
    until, counts, seen = np.zeros(CURVES), np.zeros((CURVES, len(ranks)), dtype=np.int64), np.zeros(CURVES, np.int64)
    for place, which in enumerate(order.tolist()):
        reached = total[:, place] / total[:, -1]
        share = np.clip((reached - until) / np.maximum(1 - until, 1e-300), 0.0, 1.0)
        seen = seen + generator.binomial(rows - seen, share)
        until, counts[:, which] = reached, seen
    return counts


def coverage_law(
    count: int, laws: Sequence[tuple[int, int]], alpha: Fraction, tail: float = FALSE_ALARMS / 2
) -> CoverageLaw:
    """Judge a count of covered rows; ``laws`` has (rows, calibration rows) of each independent group.

    A count contradicts the promise if one as low or lower has a probability below ``tail``.
    """
    first, chances, total = 0, np.ones(1), 0
    for rows, n in laws:
        start, one = _trimmed(beta_binomial(rows, n, rank_at(n, alpha)))
        further, chances = _trimmed(np.convolve(chances, one))
        first, total = first + start + further, total + rows
    ends = np.searchsorted(np.cumsum(chances), (*CENTRE, tail)) + first
    low, high, least = (np.minimum(ends, total) / max(1, total)).tolist()
    # Each tail is summed by itself: one minus the other would lose everything below 1e-16.
    too_low = min(1.0, chances[: max(0, count - first + 1)].sum())
    too_high = min(1.0, chances[max(0, count - first) :].sum())
    is_certain = all(rank_at(n, alpha) > n for _, n in laws)
    return CoverageLaw(low, high, float(too_low), float(too_high), is_certain, least)


def chances_of_sum(laws: Sequence[tuple[int, int]], alpha: Fraction) -> Floats:
    """Return the chance of each total of very many independent counts, (rows, calibration rows) each.

    Given the rows, random splits are independent of each other, and each covers a Beta-binomial number of its test rows
    whatever the rows are, if scores do not tie: the total is the convolution of these laws, worked out by Fourier
    transforms, to about 1e-15 in every chance (:func:`coverage_law` is exact in the tails too, and slow for many).
    """
    total = sum(rows for rows, _ in laws)
    length = 1 << (total + 1).bit_length()
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for (rows, n), times in Counter(laws).items():
        transform *= np.fft.rfft(beta_binomial(rows, n, rank_at(n, alpha)), length) ** times
    chances = np.clip(np.fft.irfft(transform, length)[: total + 1], 0.0, None)
    return np.asarray(chances / chances.sum())


def folds_chance(folds: Sequence[Sequence[FoldCounts]], alpha: Fraction) -> float | None:
    """Return the chance that some fold by itself covers as few test rows as the one that is furthest off.

    A fold is a split: its model never saw the rows that it holds out, so its own threshold covers a Beta-binomial
    number of test rows. Folds depend on each other in ways that nobody knows; as many times the smallest chance as
    there are folds is a valid p-value all the same. None if no fold holds out enough rows for this level.
    """
    chances = [law.too_low for law in _laws_of_folds(folds, alpha)]
    return min(1.0, len(chances) * min(chances)) if chances else None


def least_of_folds(folds: Sequence[Sequence[FoldCounts]], alpha: Fraction) -> float:
    """Return the coverage of a fold by itself below which :func:`folds_chance` contradicts a valid calibration."""
    able = max(1, len(_laws_of_folds(folds, alpha)))
    return max((law.least for law in _laws_of_folds(folds, alpha, FALSE_ALARMS / able)), default=0.0)


def _laws_of_folds(
    folds: Sequence[Sequence[FoldCounts]], alpha: Fraction, tail: float = FALSE_ALARMS
) -> list[CoverageLaw]:
    """Return the law of each fold that holds out enough rows for this level."""
    laws = []
    for fold in folds:
        ranks = [rank_at(group.n, alpha) for group in fold]
        covered = sum(int(group.below[:rank].sum()) for group, rank in zip(fold, ranks, strict=True))
        laws.append(coverage_law(covered, [(group.rows, group.n) for group in fold], alpha, tail))
    return [law for law in laws if not law.is_certain]


def chance_of_so_few(covered: int, rows: int, share: float) -> float:
    """Return the chance of so few covered rows if each is covered with a known chance (a binomial law)."""
    from scipy.special import bdtr

    return float(bdtr(covered, rows, share))


def chance_within(sizes: NDArray[np.int64], alpha: Fraction, within: float) -> Floats:
    """Return for each n, rising, the chance that a calibration covers 1 - alpha up to a margin; 0 where n is too small.

    Given the calibration rows, coverage is Beta(k, n + 1 - k).
    """
    from scipy.special import betainc

    low, high = max(0.0, float(1 - alpha) - within), min(1.0, float(1 - alpha) + within)
    above = _allowed_above(sizes, alpha)
    can = np.flatnonzero(above > 0)
    b = above[can].astype(np.float64)
    k = (sizes[can] + 1 - above[can]).astype(np.float64)
    chances = np.zeros(len(sizes))
    chances[can] = betainc(k, b, high) - betainc(k, b, low)
    return chances


def chance_at_most(n: int, alpha: Fraction, risk: Fraction, within: float) -> float:
    """Return the chance that an assured calibration on n rows covers at most 1 - alpha plus a margin."""
    from scipy.special import betainc

    k, high = rank_at(n, alpha, risk), float(1 - alpha) + within
    return 1.0 if high >= 1 else 0.0 if k > n else float(betainc(k, n + 1 - k, high))


def _allowed_above(sizes: NDArray[np.int64], alpha: Fraction) -> NDArray[np.int64]:
    """Return n + 1 - k, the whole part of alpha (n + 1), for each n, rising: counted on from the first, in integers."""
    first, share, whole = int(sizes[0]), alpha.numerator, alpha.denominator
    full, rest = divmod(share * (first + 1), whole)
    if rest + share * (int(sizes[-1]) - first) < 2**63:
        return np.asarray(full + (rest + share * (sizes - first)) // whole)
    return np.array([n + 1 - rank_at(n, alpha) for n in sizes.tolist()], dtype=np.int64)


def realised_coverage(
    n: int, alpha: Fraction, risk: Fraction | None = None, points: int = 201
) -> tuple[Floats, Floats]:
    """Return coverages that a calibration on n rows may realise, and their density, Beta(k, n + 1 - k)."""
    from scipy.stats import beta

    k = rank_at(n, alpha, risk)
    law = beta(k, n + 1 - k)
    grid = np.linspace(float(law.ppf(1e-4)), float(law.ppf(1 - 1e-4)), points)
    return grid, np.asarray(law.pdf(grid))


def _trimmed(chances: Floats) -> tuple[int, Floats]:
    """Return the first place that counts, and the chances from there to the last that does."""
    kept = np.flatnonzero(chances >= NEGLIGIBLE)
    return int(kept[0]), chances[kept[0] : kept[-1] + 1]
