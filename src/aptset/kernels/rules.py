"""Which weights the loops may take: those whose scores never fall along a row, whatever the row and u, as computed.

The loops cut a row instead of scoring every label, so a score that fell somewhere would give sets that disagree with
the p-values of the same labels. docs/design/0001 proves that the conditions here are enough, rounding included: masses
are whole numbers of grid steps, so with weights of -1, 0 and 1 every sum is exact but for the product with u, and every
operation after it keeps an order that holds before it.
"""

from dataclasses import astuple, fields
from itertools import product
from math import isfinite
from numbers import Real

from aptset.kernels.formula import First, Weights

_MOST = 1e9  # beyond this a rank times a penalty could become infinite


def broken_rule(w: Weights) -> str | None:
    """Return why the loops cannot take the weights, or None if they can."""
    *numbers, _, _ = (getattr(w, field.name) for field in fields(w))
    numbers += astuple(w.first) if w.first else ()
    if not all(isinstance(x, Real) and isfinite(x) and abs(float(x)) <= _MOST for x in numbers):
        return f"weights must be finite numbers up to {_MOST:g}"
    units = [w.above, w.own, w.own_u, w.top, *((w.first.own, w.first.own_u, w.first.second) if w.first else ())]
    if any(x not in (-1, 0, 1) for x in units):
        return "above, own, own_u, top and second must be -1, 0 or 1, which keeps every sum exact"
    if w.rank < 0 or w.free_ranks < 0 or w.free_ranks != int(w.free_ranks) or w.rank_u not in (0, 1):
        return "rank must be at least 0, free_ranks a whole number of at least 0, rank_u 0 or 1"
    if not _holds_along_the_row(w):
        return "above must be at least 0, own and own + own_u, and 1 if own_u is: scores would fall along the row"
    if w.first is not None and not _holds_behind_the_first(w, w.first):
        return "first must not score more than the label behind it, for any row and u"
    if w.behind and not _holds_before_labels_without_mass(w):
        return "without the ranks no score may exceed 1, where labels without mass begin (or set behind=False)"
    return None


def _holds_along_the_row(w: Weights) -> bool:
    return w.above >= max(0, w.own, w.own + w.own_u) and (w.own_u <= 0 or w.above == 1)


def _holds_behind_the_first(w: Weights, f: First) -> bool:
    """Compare at the corners of all rows: the second mass is 0 or equals the top; u times a mass is 0 or all of it."""
    constants = (f.constant, f.u) == (w.constant, w.u) or f.constant + max(f.u, 0) <= w.constant + min(w.u, 0)
    return constants and all(
        f.own + f.own_u * u + f.second * second <= w.above + w.top + (w.own + w.own_u * v) * second
        for second, u, v in product((0, 1), repeat=3)
    )


def _holds_before_labels_without_mass(w: Weights) -> bool:
    share = max(0, w.above, w.own, w.own + w.own_u) + max(0, w.top)
    if share + (w.constant + max(w.u, 0)) > 1:
        return False
    if w.first is None:
        return True
    own = max(w.first.own, w.first.own + w.first.own_u)
    return max(own, (own + w.first.second) / 2) + (w.first.constant + max(w.first.u, 0)) <= 1
