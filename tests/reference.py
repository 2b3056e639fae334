"""The paper's definitions, literally and slowly, in exact rational arithmetic.

Nothing here is shared with the library. Rows are lists of numbers that sum to one; `order` lists the labels of a row,
most likely first, so that the caller says how ties were broken.
"""

from fractions import Fraction
from math import ceil

GRID = Fraction(1, 2**51)


def on_grid(p):
    """A probability rounded to the nearest multiple of 2^-51, half to even (what (p + 2) - 2 does)."""
    return round(Fraction(p) / GRID) * GRID


def exact_row(row):
    """The row on the grid, divided by its sum: what every score refers to."""
    masses = [on_grid(float(p)) for p in row]
    return [mass / sum(masses) for mass in masses]


def L(p, order, t):
    """min { c : p(1) + ... + p(c) >= t }"""
    total = Fraction(0)
    for c, label in enumerate(order, start=1):
        total += p[label]
        if total >= t:
            return c
    raise AssertionError("the row sums to less than t")


def V(p, order, t):
    c = L(p, order, t)
    return (sum(p[label] for label in order[:c]) - t) / p[order[c - 1]]


def S(p, order, u, t):
    """The L - 1 most likely labels if u <= V, else the L most likely."""
    c = L(p, order, t)
    return set(order[: c - 1] if u <= V(p, order, t) else order[:c])


def adaptive_score(p, order, label, u):
    """Closed form of min { t : label in S(t) }, with labels without mass sharing (1, 2]."""
    rank = order.index(label)
    if p[label] > 0:
        return sum(p[y] for y in order[:rank]) + (1 - u) * p[label]
    zeros = [y for y in order if p[y] == 0]
    return 1 + (zeros.index(label) + 1 - u) / len(zeros)


def rank(n, alpha):
    return ceil((1 - alpha) * (n + 1))


def in_set(calibration_scores, score, alpha):
    """Counting form: fewer than (1 - alpha)(n + 1) calibration scores are below the score."""
    return sum(s < score for s in calibration_scores) < (1 - alpha) * (len(calibration_scores) + 1)
