"""The largest probability and the rank alone (SAPS).

Huang, Xi, Zhang, Yao, Qiu and Wei 2024, "Conformal prediction for deep classifier via label ranking".
"""

from dataclasses import dataclass

import numpy as np

from aptset.kernels.formula import First, Floats, Places, Weights
from aptset.scores.interface import check_penalty


@dataclass(frozen=True)
class SAPS:
    """Sorted adaptive prediction sets: of the probabilities only the largest counts, the others count by their rank.

    The most likely label scores (1 - u) of its probability, a label of rank r the largest probability plus
    (r - 1 - u) times the penalty: the paper of SAPS with u turned round, since large u is a small score here. Ranks go
    on through labels without mass. TorchCP draws a u for every label where the paper has one for the row, and without
    randomisation scores the most likely label 0 at calibration and its probability at prediction.

    Parameters
    ----------
    penalty : float, default=0.2
        What a rank counts; at least 0. At 0 all labels but the first tie, and coverage is more than promised.

    Examples
    --------
    >>> import aptset
    >>> score = aptset.SAPS(penalty=0.25)
    >>> aptset.calibrate([[0.5, 0.375, 0.125]] * 3, [0, 1, 2], conformity=score, u=[0.5] * 3).scores
    array([0.25 , 0.625, 0.875])
    """

    penalty: float = 0.2

    def __post_init__(self) -> None:
        check_penalty(self.penalty)

    @property
    def weights(self) -> Weights:
        """The fast form."""
        first = First(own=1.0, own_u=-1.0)
        return Weights(top=1.0, rank=self.penalty, free_ranks=1.0, rank_u=1.0, behind=False, first=first)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        first = (places.own - places.u * places.own) / places.total
        others = places.top / places.total + self.penalty * ((places.rank - 1.0) - places.u)
        return np.where(places.rank == 1.0, first, others)
