"""The largest other probability minus the label's own.

Johansson, Linusson, Löfström and Boström 2017, "Model-agnostic nonconformity functions for conformal classification".
"""

from dataclasses import dataclass

import numpy as np

from aptset.kernels.formula import First, Floats, Places, Weights
from aptset.scores.homogeneous import TIE_NOISE


@dataclass(frozen=True)
class Margin:
    """The largest probability of another label minus the label's own: how far the label is from winning.

    From -1 (alone) to 1; equal margins in random order, labels without mass share (1, 2]. crepes and TorchCP have the
    same margin without the order of ties.

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25]] * 2, [0, 1], conformity="margin", randomized=False).scores
    array([-0.5,  0.5])
    """

    @property
    def weights(self) -> Weights:
        """The fast form."""
        first = First(own=-1.0, second=1.0, constant=-TIE_NOISE, u=TIE_NOISE)
        return Weights(own=-1.0, top=1.0, constant=-TIE_NOISE, u=TIE_NOISE, first=first)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        other = np.where(places.rank == 1.0, places.second, places.top)
        share = (other - places.own) / places.total + (TIE_NOISE * places.u - TIE_NOISE)
        return np.where(places.own > 0.0, share, places.behind)
