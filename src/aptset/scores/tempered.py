"""Any score, on probabilities that were made flatter or sharper first.

Temperature scaling: Guo, Pleiss, Sun and Weinberger 2017, "On calibration of modern neural networks".
"""

from dataclasses import dataclass

from aptset.kernels.formula import Floats, Places
from aptset.scores.interface import Score, check_power


@dataclass(frozen=True)
class Tempered:
    """A score of the row p^power / sum(p^power), at calibration and at prediction: temperature scaling, T = 1 / power.

    A power below 1 makes rows flatter, which helps with overconfident models; one above 1 sharper. The order of the
    labels stays. Powers are multiples of 1/64: such a power is made of square roots and products, which every machine
    rounds alike, so sets do not depend on where they are computed.

    Parameters
    ----------
    score : score
        What is computed of the new rows.
    power : float
        A multiple of 1/64 in [1/64, 8].

    Examples
    --------
    >>> import aptset
    >>> score = aptset.Tempered(aptset.Adaptive(), power=0.5)
    >>> aptset.calibrate([[0.8, 0.2]], [1], conformity=score, randomized=False).scores.round(3)
    array([0.667])
    """

    score: Score
    power: float

    def __post_init__(self) -> None:
        check_power(self.power)

    def of(self, places: Places) -> Floats:
        """Return the score of every label, from places in the new rows."""
        return self.score.of(places)
