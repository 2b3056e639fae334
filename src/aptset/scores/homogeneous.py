"""One minus the probability (HCC, LAC, THR, hinge).

Sadinle, Lei and Wasserman 2019, "Least ambiguous set-valued classifiers with bounded error levels".
"""

from dataclasses import dataclass

import numpy as np

from aptset.kernels.formula import Floats, Places, Weights

# Spread over equal probabilities: small enough to leave different ones in their order, large enough that two million
# values still fit between 1/2 and 1/2 + TIE_NOISE in float64.
TIE_NOISE = 2.0**-32


@dataclass(frozen=True)
class Homogeneous:
    """One minus the probability of the label: the same cut for every row, equal ones in random order.

    The paper's competitor HCC; LAC in MAPIE, THR or LAC in TorchCP, hinge in crepes. Those leave ties as they are,
    which covers more than promised where probabilities repeat. Labels without mass share (1, 2].

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25]], [0], conformity="lac", randomized=False).scores
    array([0.25])
    """

    @property
    def weights(self) -> Weights:
        """The fast form."""
        return Weights(own=-1.0, constant=1.0 - TIE_NOISE, u=TIE_NOISE)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = -places.own / places.total + ((1.0 - TIE_NOISE) + TIE_NOISE * places.u)
        return np.where(places.own > 0.0, share, places.behind)
