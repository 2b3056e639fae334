"""Conformity scores: each is a few weights on where a label stands in its row. Small scores mean "conforms".

To add one, write a frozen dataclass with a ``weights`` property and put it into :data:`SCORES`; the contract tests
pick it up from there.
"""

from dataclasses import dataclass
from typing import Protocol

from aptset.kernels.formula import Weights

__all__ = ["SCORES", "Adaptive", "Homogeneous", "Regularized", "Score"]

# Spread over equal probabilities by Homogeneous: small enough to leave different ones in their order, large enough
# that two million values still fit between 1/2 and 1/2 + TIE_NOISE in float64.
TIE_NOISE = 2.0**-32


class Score(Protocol):
    """Anything with weights is a score; see :class:`aptset.kernels.formula.Weights` for what they may be."""

    @property
    def weights(self) -> Weights:
        """The coefficients of the score."""
        ...


@dataclass(frozen=True)
class Adaptive:
    """The generalised inverse quantile score of the paper: the mass above the label plus (1 - u) of its own.

    Examples
    --------
    >>> from aptset import adaptive_scores
    >>> adaptive_scores([[0.25, 0.5, 0.25]], [1], u=[0.5])
    array([0.25])
    """

    @property
    def weights(self) -> Weights:
        """The coefficients of the score."""
        return Weights(above=1.0, own=1.0, own_u=-1.0)


@dataclass(frozen=True)
class Homogeneous:
    """One minus the probability of the label (HCC): the same cut for every row, equal ones in random order.

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25]], [0], conformity="homogeneous", randomized=False).scores
    array([0.25])
    """

    @property
    def weights(self) -> Weights:
        """The coefficients of the score."""
        return Weights(own=-1.0, constant=1.0 - TIE_NOISE, u=TIE_NOISE)


@dataclass(frozen=True)
class Regularized:
    """The adaptive score plus a penalty for every rank behind the first few: shorter long sets, for many classes.

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

    @property
    def weights(self) -> Weights:
        """The coefficients of the score."""
        return Weights(above=1.0, own=1.0, own_u=-1.0, rank=self.penalty, free_ranks=self.free_ranks)


SCORES: dict[str, type[Score]] = {"adaptive": Adaptive, "homogeneous": Homogeneous, "regularized": Regularized}
