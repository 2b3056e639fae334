"""The seam: anything with ``of(places)`` is a score."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aptset.kernels.formula import Floats, Places


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
