"""The design of overlapping groups: which indicators follow from others, and bases of its rows, in whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats

Signs = NDArray[np.int64]  # 0 or 1
Whole = NDArray[Any]  # whole numbers of Python, of any size
Relation = tuple[int, Whole, int]  # a column, its factors in the kept ones as whole numbers, and what divides them


class Place(NamedTuple):
    """A score that b passes through: its cell, and its number among all different scores."""

    cell: int
    score: int


@dataclass
class Basis:
    """The scores that b passes through, the inverse of their phi, and the first score of each cell that is not below.

    The scores of the basis itself are neither below nor above: their eta are what the equations say. The inverse is
    ``whole / scale``, in whole numbers of Python: no step needs a common divisor, and none is rounded.
    """

    places: list[Place]
    whole: Whole
    scale: int
    edges: NDArray[np.int64]

    @classmethod
    def empty(cls, size: int) -> Basis:
        """Return a basis that passes through no score yet."""
        edges = np.empty(0, dtype=np.int64)
        return cls([Place(-1, -1)] * size, np.eye(size, dtype=np.int64).astype(object), 1, edges)

    def copy(self) -> Basis:
        """Return a basis that may be changed."""
        return Basis(self.places.copy(), self.whole, self.scale, self.edges.copy())

    def join(self, place: Place, phi: Signs, held: set[int]) -> None:
        """Let b pass through one more score, for one that is not held, unless its phi follows from those held."""
        slot = next((slot for slot in np.flatnonzero(phi @ self.whole).tolist() if slot not in held), None)
        if slot is not None:
            self.swap(slot, place, phi)
            held.add(slot)

    def swap(self, slot: int, place: Place, phi: Signs) -> None:
        """Let b pass through another score instead; divisions are exact, as in elimination without fractions."""
        factors = phi @ self.whole
        column = self.whole[:, slot].copy()
        whole = (factors[slot] * self.whole - np.outer(column, factors)) // self.scale
        whole[:, slot] = column
        sign = 1 if factors[slot] > 0 else -1
        self.whole, self.scale = sign * whole, sign * factors[slot]
        self.places[slot] = place


@dataclass(frozen=True)
class Design:
    """The different phi of calibration rows (cells), and the scores of each.

    ``phi`` has columns that do not follow from each other; ``relations`` say how the others do. The different scores of
    cell g are ``values[starts[g]:starts[g + 1]]``, upward; ``before`` counts scores, over all cells.
    """

    phi: Signs
    values: Floats
    starts: NDArray[np.int64]
    before: NDArray[np.int64]
    kept: tuple[int, ...]
    relations: tuple[Relation, ...]

    @classmethod
    def of(cls, indicators: NDArray[np.bool_], scores: Floats, offsets: NDArray[np.int64]) -> Design:
        """Take in the indicators of cells, (cells, groups), and the sorted scores of each, from its offset on."""
        filled = np.flatnonzero(np.diff(offsets))
        whole, edges = with_one(indicators[filled]), offsets[filled]
        is_new = np.append(True, np.diff(scores) != 0)
        is_new[edges] = True
        first = np.flatnonzero(is_new)
        starts, before = np.append(np.searchsorted(first, edges), len(first)), np.append(first, len(scores))
        kept, relations = _independent(whole)
        return cls(whole[:, kept], scores[first], starts, before, tuple(kept), tuple(relations))

    def column(self, indicators: NDArray[np.bool_]) -> Signs | None:
        """Return the phi of a row in the kept columns; None if it breaks a relation that all calibration rows keep."""
        whole, kept = with_one(indicators[None, :]), list(self.kept)
        keeps = not any(_broken(whole, kept, relation) for relation in self.relations)
        return whole[0, kept] if keeps else None


def with_one(indicators: NDArray[np.bool_]) -> Signs:
    """Return phi: a one, and the indicators."""
    return np.column_stack([np.ones(len(indicators), dtype=np.int64), indicators.astype(np.int64)])


_PRIME = 2**31 - 1
_ROWS_AT_ONCE = 256


def _independent(whole: Signs) -> tuple[list[int], list[Relation]]:
    """Return the columns that do not follow from those before them, and how the others follow from them, exactly.

    Some rows say which columns those are, modulo a prime: columns that are independent there are so in truth. Rows that
    break a relation join them, until none does.
    """
    rows = np.unique(whole, axis=0)
    block, prime = rows[:_ROWS_AT_ONCE], _PRIME
    while True:
        lines, kept = _pivots(block, prime)
        others = [column for column in range(whole.shape[1]) if column not in kept]
        inverse, held = Basis.empty(len(kept)), set[int]()
        for number, line in enumerate(lines):
            inverse.join(Place(number, number), block[line, kept], held)
        in_order = [lines[place.cell] for place in inverse.places]
        relations = [(column, inverse.whole @ block[in_order, column], inverse.scale) for column in others]
        broken = [row for relation in relations for row in _broken(rows, kept, relation)]
        if not broken:
            return kept, relations
        joined = np.unique(np.concatenate([block, rows[broken[:_ROWS_AT_ONCE]]]), axis=0)
        prime = prime if len(joined) > len(block) else _next_prime(prime)  # else these rows look dependent by bad luck
        block = joined


def _pivots(rows: Signs, prime: int) -> tuple[list[int], list[int]]:
    """Return rows and columns of full rank modulo a prime; the columns do not follow from earlier ones."""
    left, lines, kept = rows.copy(), list[int](), list[int]()
    for column in range(rows.shape[1]):
        line = next((line for line in np.flatnonzero(left[:, column]).tolist() if line not in lines), None)
        if line is None:
            continue
        left[line] = left[line] * pow(int(left[line, column]), -1, prime) % prime
        factors = left[:, column].copy()
        factors[[*lines, line]] = 0
        left = (left - factors[:, None] * left[line]) % prime
        lines.append(line)
        kept.append(column)
    return lines, kept


def _next_prime(number: int) -> int:
    """Return the next smaller prime."""
    while any((number := number - 1) % factor == 0 for factor in range(2, int(number**0.5) + 1)):
        pass
    return number


def _broken(rows: Signs, kept: list[int], relation: Relation) -> list[int]:
    """Return the rows in which a column does not follow from the kept ones."""
    column, factors, divisor = relation
    is_short = (len(kept) + 1) * max(abs(int(factor)) for factor in (*factors, divisor)) < 2**63
    factors = factors.astype(np.int64) if is_short else factors
    broken: list[int] = np.flatnonzero(
        rows[:, kept] @ factors != rows[:, column].astype(factors.dtype) * divisor
    ).tolist()
    return broken
