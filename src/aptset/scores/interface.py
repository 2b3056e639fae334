"""The interface of scores, and scores that are made of others.

Anything with ``of(places)`` is a score, and so is a function, or another score on tempered probabilities (temperature
scaling: Guo, Pleiss, Sun and Weinberger 2017, "On calibration of modern neural networks") or rounded up to a grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aptset.core.validate import is_number
from aptset.kernels.formula import POWER_STEP, Floats, Formula, Places


class Score(Protocol):
    """A function of where labels stand in their rows.

    No order is assumed: a set holds every label whose score is at most the threshold, and p-values come from the same
    scores. A score may also have ``weights``, the same function as a :class:`aptset.kernels.formula.LinearScore`, which
    the compiled loops know; it is refused if it breaks the rule of those loops or differs from ``of``. (They are the
    coefficients of the score, and have nothing to do with the importance weights of rows.)

    A score that knows something of each label, such as their order, has ``for_classes(classes)``: it gets the labels
    in the order of the columns, and returns the score that is computed for them (:class:`aptset.Ordered` does).
    """

    def of(self, places: Places) -> Floats:
        """Return the score of every label, (rows, labels); each row from its own places alone.

        Blocks of rows may come from several threads at once.
        """
        ...


Conformity: TypeAlias = str | Score | Callable[[Places], Any]  # what ``conformity=`` takes: a name, a score, a function


@dataclass(frozen=True)
class OfFunction:
    """A plain function of places as a score."""

    function: Callable[[Places], Any]

    def of(self, places: Places) -> Floats:
        """Return what the function returns."""
        scores: Floats = self.function(places)
        return scores

    def __repr__(self) -> str:
        return str(getattr(self.function, "__qualname__", repr(self.function)))


def check_power(power: Any) -> None:
    """Refuse powers that do not come out of square roots and products alone."""
    fits = is_number(power)
    if not fits or not POWER_STEP <= float(power) <= 8 or float(power) % POWER_STEP:
        nearest = min(max(round(float(power) / POWER_STEP), 1) * POWER_STEP, 8.0) if fits else 1.0
        raise ValueError(f"power must be a multiple of 1/64 in [1/64, 8]; got {power!r}. The nearest is {nearest}.")


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


_FINEST = 40  # a score of 2^13 is then still a whole number of steps that a float64 holds


def check_resolution(resolution: Any) -> None:
    """Refuse grids on which scores could not be put without rounding twice."""
    if not is_number(resolution) or float(resolution) not in {2.0**-step for step in range(_FINEST + 1)}:
        raise ValueError(
            f"resolution must be a power of two from 2**-{_FINEST} to 1; got {resolution!r}. 2**-20 is about 1e-6."
        )


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
