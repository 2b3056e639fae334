"""Any score, rounded up to a grid."""

from dataclasses import dataclass

from aptset.kernels.formula import Floats, Formula, Places
from aptset.scores.interface import Score, check_resolution


@dataclass(frozen=True)
class Gridded:
    """A score rounded up to a multiple of ``resolution``, at calibration and at prediction.

    It is a score like any other, so the promise is exact. Calibration then only needs to know how many scores stand on
    each point of the grid, whatever n is: :func:`calibrate_batches` takes ``resolution=`` for that. Scores that tie on
    the grid make sets a little larger: by less than ``resolution`` of the score.

    Parameters
    ----------
    score : score
        What is rounded.
    resolution : float
        A power of two, from 2**-40 to 1.

    Examples
    --------
    >>> import aptset
    >>> score = aptset.Gridded(aptset.Adaptive(), resolution=0.25)
    >>> aptset.calibrate([[0.8, 0.2]], [1], conformity=score, randomized=False).scores
    array([1.])
    """

    score: Score
    resolution: float

    def __post_init__(self) -> None:
        check_resolution(self.resolution)

    def of(self, places: Places) -> Floats:
        """Return the score of every label, rounded up."""
        return Formula(None, grid=float(self.resolution)).on_grid(self.score.of(places))
