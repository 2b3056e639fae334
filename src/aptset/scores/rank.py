"""The rank of the label (top-k).

The baseline "top-k" of Angelopoulos, Bates, Malik and Jordan 2021, "Uncertainty sets for image classifiers using
conformal prediction".
"""

from dataclasses import dataclass

from aptset.kernels.formula import Floats, Places, Weights


@dataclass(frozen=True)
class Rank:
    """The rank of the label less u (top-k): sets of nearly equal size for every row, whatever the probabilities say.

    From rank - 1 to rank; ranks go on through the labels without mass, and equal probabilities are ranked at random.
    TorchCP's TOPK is the same but for a u of its own for every label of a new row. MAPIE's top-k has no u and ranks
    ties by position, so it covers more than promised.

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25, 0.0]] * 3, [0, 1, 2], conformity="topk", u=[0.5] * 3).scores
    array([0.5, 1.5, 2.5])
    """

    @property
    def weights(self) -> Weights:
        """The fast form."""
        return Weights(rank=1.0, rank_u=1.0, behind=False)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        return places.rank - places.u
