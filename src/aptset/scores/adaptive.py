"""The score of the paper (APS).

Romano, Sesia and Candès 2020, "Classification with valid and adaptive coverage": adaptive prediction sets.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aptset.kernels.formula import Floats, Places, Weights


@dataclass(frozen=True)
class Adaptive:
    """The generalised inverse quantile score of the paper (APS): the mass above the label plus (1 - u) of its own.

    Labels without mass share (1, 2]. TorchCP's APS is the same but for a u of its own for every label of a new row;
    MAPIE's always has a u at calibration, at prediction only with ``include_last_label="randomized"``.

    Examples
    --------
    >>> from aptset import adaptive_scores
    >>> adaptive_scores([[0.25, 0.5, 0.25]], [1], u=[0.5])
    array([0.25])
    """

    weights: ClassVar[Weights] = Weights(above=1.0, own=1.0, own_u=-1.0)  # the fast form

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = (places.above + places.own - places.u * places.own) / places.total
        return np.where(places.own > 0.0, share, places.behind)
