"""The score of a label from where it stands in its row. Twin of ``mass_score`` and ``zero_score`` in ``c/row.h``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Weights(NamedTuple):
    """What a score is made of. The order is the one of the enumeration in ``c/row.h``.

    A label that carries mass scores ``(above*A + own*p + own_u*u*p) / total + constant + u_weight*u``, where A is the
    mass above it in its row. That part must not exceed 1 nor fall along the order of the row. A label without mass
    scores ``1 + (position + 1 - u) / count`` instead. Both add ``rank * max(0, rank of the label - free_ranks)``.
    """

    above: float = 0.0
    own: float = 0.0
    own_u: float = 0.0
    constant: float = 0.0
    u: float = 0.0
    rank: float = 0.0
    free_ranks: float = 0.0


def _late(weights: Weights, rank: Floats) -> Floats:
    penalty: Floats = weights.rank * np.maximum(rank - weights.free_ranks, 0.0)
    return penalty


def mass_score(w: Weights, above: Floats, own: Floats, total: Floats, rank: Floats, u: Floats) -> Floats:
    """Score of labels that carry mass."""
    share = (w.above * above + w.own * own + w.own_u * (u * own)) / total
    return (share + (w.constant + w.u * u)) + _late(w, rank)


def zero_score(w: Weights, position: Floats, count: Floats, rank: Floats, u: Floats) -> Floats:
    """Score of labels without mass: they share (1, 2] behind every label that has some."""
    return (1.0 + ((position + 1.0) - u) / count) + _late(w, rank)
