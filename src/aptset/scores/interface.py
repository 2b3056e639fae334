"""The interface of scores: anything with ``of(places)`` is one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aptset.core import validate
from aptset.core.validate import is_number
from aptset.kernels.formula import POWER_STEP, Floats, Places


class Score(Protocol):
    """A function of where labels stand in their rows.

    No order is assumed: a set holds every label whose score is at most the threshold, and p-values come from the same
    scores. A score may also have ``weights`` (:class:`aptset.kernels.formula.Weights`), the same function in the form
    that the compiled loops know; they are refused if they break the rule of those loops or differ from ``of``.
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


def check_penalty(penalty: Any) -> None:
    """Refuse what cannot be added for a rank."""
    validate.number(penalty, "penalty", "a number of at least 0 (and at most 1e9)", lambda added: 0 <= added <= 1e9)


def check_power(power: Any) -> None:
    """Refuse powers that do not come out of square roots and products alone."""
    fits = is_number(power)
    if not fits or not POWER_STEP <= float(power) <= 8 or float(power) % POWER_STEP:
        nearest = min(max(round(float(power) / POWER_STEP), 1) * POWER_STEP, 8.0) if fits else 1.0
        raise ValueError(f"power must be a multiple of 1/64 in [1/64, 8]; got {power!r}. The nearest is {nearest}.")


_FINEST = 40  # a score of 2^13 is then still a whole number of steps that a float64 holds


def check_resolution(resolution: Any) -> None:
    """Refuse grids on which scores could not be put without rounding twice."""
    if not is_number(resolution) or float(resolution) not in {2.0**-step for step in range(_FINEST + 1)}:
        raise ValueError(
            f"resolution must be a power of two from 2**-{_FINEST} to 1; got {resolution!r}. 2**-20 is about 1e-6."
        )
