"""The score of the paper (APS)."""

from dataclasses import dataclass

import numpy as np

from aptset.kernels.formula import Floats, Places, Weights


@dataclass(frozen=True)
class Adaptive:
    """The generalised inverse quantile score of the paper (APS): the mass above the label plus (1 - u) of its own.

    Labels without mass share (1, 2]. TorchCP's APS is the same; MAPIE's takes the mass up to the label, its own
    included, at calibration, and treats the last label of a set by an option of its own.

    Examples
    --------
    >>> from aptset import adaptive_scores
    >>> adaptive_scores([[0.25, 0.5, 0.25]], [1], u=[0.5])
    array([0.25])
    """

    @property
    def weights(self) -> Weights:
        """The fast form."""
        return Weights(above=1.0, own=1.0, own_u=-1.0)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = (places.above + places.own - places.u * places.own) / places.total
        return np.where(places.own > 0.0, share, places.behind)
