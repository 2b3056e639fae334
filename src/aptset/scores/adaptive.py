"""Scores along the order of a row: the mass above a label, penalties on ranks, or ranks alone (APS, RAPS, SAPS, top-k).

- APS: Romano, Sesia and Candès 2020, "Classification with valid and adaptive coverage": adaptive prediction sets.
- RAPS and the baseline "top-k": Angelopoulos, Bates, Malik and Jordan 2021, "Uncertainty sets for image classifiers
  using conformal prediction".
- SAPS: Huang, Xi, Zhang, Yao, Qiu and Wei 2024, "Conformal prediction for deep classifier via label ranking".
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aptset.core import validate
from aptset.kernels.formula import First, Floats, LinearScore, Places


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

    weights: ClassVar[LinearScore] = LinearScore(above=1.0, own=1.0, own_u=-1.0)  # the fast form

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = (places.above + places.own - places.u * places.own) / places.total
        return np.where(places.own > 0.0, share, places.behind)


def check_penalty(penalty: Any) -> None:
    """Refuse what cannot be added for a rank."""
    validate.number(penalty, "penalty", "a number of at least 0 (and at most 1e9)", lambda added: 0 <= added <= 1e9)


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
    def weights(self) -> LinearScore:
        """The fast form."""
        return LinearScore(above=1.0, own=1.0, own_u=-1.0, rank=self.penalty, free_ranks=self.free_ranks)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = (places.above + places.own - places.u * places.own) / places.total
        penalized = np.maximum(places.rank - self.free_ranks, 0.0)
        return np.where(places.own > 0.0, share, places.behind) + self.penalty * penalized


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
    def weights(self) -> LinearScore:
        """The fast form."""
        first = First(own=1.0, own_u=-1.0)
        return LinearScore(top=1.0, rank=self.penalty, free_ranks=1.0, rank_u=1.0, behind=False, first=first)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        first = (places.own - places.u * places.own) / places.total
        others = places.top / places.total + self.penalty * ((places.rank - 1.0) - places.u)
        return np.where(places.rank == 1.0, first, others)


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
    def weights(self) -> LinearScore:
        """The fast form."""
        return LinearScore(rank=1.0, rank_u=1.0, behind=False)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        return places.rank - places.u
