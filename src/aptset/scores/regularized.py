"""The score of the paper with a penalty on ranks (RAPS).

Angelopoulos, Bates, Malik and Jordan 2021, "Uncertainty sets for image classifiers using conformal prediction".
"""

from dataclasses import dataclass

import numpy as np

from aptset.core import validate
from aptset.kernels.formula import Floats, Places, Weights
from aptset.scores.interface import check_penalty


@dataclass(frozen=True)
class Regularized:
    """The adaptive score plus a penalty for every rank behind the first few (RAPS): shorter sets with many classes.

    As in the paper of RAPS, in MAPIE and in TorchCP, which differ in u as they do for the adaptive score.

    Parameters
    ----------
    penalty : float, default=0.01
        Added for each rank behind the free ones; at least 0.
    free_ranks : int, default=5
        How many of the most likely labels go without penalty.

    Examples
    --------
    >>> import aptset
    >>> score = aptset.Regularized(penalty=0.5, free_ranks=1)
    >>> aptset.calibrate([[0.75, 0.25]], [1], conformity=score, u=[1.0]).scores
    array([1.25])
    """

    penalty: float = 0.01
    free_ranks: int = 5

    def __post_init__(self) -> None:
        check_penalty(self.penalty)
        validate.whole(self.free_ranks, "free_ranks", 0, most=1e9)

    @property
    def weights(self) -> Weights:
        """The fast form."""
        return Weights(above=1.0, own=1.0, own_u=-1.0, rank=self.penalty, free_ranks=self.free_ranks)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = (places.above + places.own - places.u * places.own) / places.total
        penalized = np.maximum(places.rank - self.free_ranks, 0.0)
        return np.where(places.own > 0.0, share, places.behind) + self.penalty * penalized
