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


def without_mass(p, order, label, u):
    """Labels without mass, where they stand behind the others: they share (1, 2]."""
    zeros = [y for y in order if p[y] == 0]
    return 1 + (zeros.index(label) + 1 - u) / len(zeros)


def homogeneous_score(p, order, label, u):
    """1 - p, equal ones spread over 2^-32."""
    return 1 - p[label] + Fraction(1, 2**32) * (u - 1) if p[label] > 0 else without_mass(p, order, label, u)


def regularized_score(p, order, label, u, penalty=Fraction(0.01), free_ranks=5):
    """RAPS: the adaptive score plus a penalty for every rank behind the free ones."""
    return adaptive_score(p, order, label, u) + penalty * max(0, order.index(label) + 1 - free_ranks)


def saps_score(p, order, label, u, penalty=Fraction(0.2)):
    """SAPS: v p_max for the first label, p_max + (rank - 2 + v) penalty for the others, where v = 1 - u."""
    top, rank, v = max(p), order.index(label) + 1, 1 - u
    return v * top if rank == 1 else top + (rank - 2 + v) * penalty


def margin_score(p, order, label, u):
    """The largest other probability minus the label's own, equal ones spread over 2^-32."""
    others = max(p[y] for y in order if y != label)
    return others - p[label] + Fraction(1, 2**32) * (u - 1) if p[label] > 0 else without_mass(p, order, label, u)


def rank_score(p, order, label, u):
    """The rank less u."""
    return order.index(label) + 1 - u


SCORES = {
    "adaptive": adaptive_score,
    "homogeneous": homogeneous_score,
    "margin": margin_score,
    "rank": rank_score,
    "regularized": regularized_score,
    "saps": saps_score,
}


def weighted_p_value(scores, weights, score, own):
    """The share of the weight, the label's own included, of scores not below its own; 1 where nothing has weight."""
    total = sum(weights) + own
    above = sum(w for s, w in zip(scores, weights, strict=True) if s >= score) + own
    return Fraction(above) / Fraction(total) if total else Fraction(1)


def weighted_threshold(scores, weights, own, alpha):
    """The smallest score whose cumulative weight reaches (1 - alpha)(W + v); None if there is none."""
    total = sum(weights)
    reached = 0
    for score, weight in sorted(zip(scores, weights, strict=True)):
        reached += weight
        if total > 0 and reached >= (1 - alpha) * (total + own):
            return score
    return None
