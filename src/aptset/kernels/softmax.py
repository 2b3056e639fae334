"""A softmax with the same bits everywhere: products and sums alone, each rounded once.

Libraries, and machines, round the exponential differently, and a label at the threshold would be in on one of them and
not on another. This one is within a unit in the last place, of arrays and of tensors, eager or compiled.
"""

from math import factorial

import numpy as np

from aptset.kernels.formula import NUMPY, Floats, Operations, sum_of_row

_LOWEST = -708.0  # below this the exponential is no normal number any more: no mass at all
_PER_LOG = 1.4426950408889634  # 1 / ln 2
_LOG, _LOG_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2; the first times 2^20 is exact
_SERIES = tuple(1.0 / factorial(n) for n in range(14))  # up to ln 2 / 2 what is left out is below half a unit
CONSTANTS = np.array([_LOWEST, _PER_LOG, _LOG, _LOG_REST, *_SERIES])  # in the order of Exponential in c/softmax.h


def softmax(logits: Floats, xp: Operations = NUMPY) -> Floats:
    """Return the probabilities of logits in float64; rows that have none come out as NaN."""
    weights = exponential(logits - xp.highest(logits, 1, keepdims=True), xp)
    return weights / sum_of_row(weights)


def exponential(values: Floats, xp: Operations = NUMPY) -> Floats:
    """Return e to the power of values that are at most 0."""
    kept = xp.where(values < _LOWEST, _LOWEST, values)
    twos = xp.nearest(kept * _PER_LOG)
    rest = (kept - xp.product(twos, _LOG)) - xp.product(twos, _LOG_REST)
    power = xp.product(rest, _SERIES[-1])
    for term in reversed(_SERIES[1:-1]):
        power = xp.step(power, term, rest)
    scaled: Floats = xp.where(values < _LOWEST, 0.0, (power + 1.0) * xp.power_of_two(twos))
    return scaled
