"""Rows that occur more than once: more regularly than any independent draw makes them?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
