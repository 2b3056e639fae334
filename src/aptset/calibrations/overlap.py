"""Thresholds for groups that overlap: one small linear programme for each combination of groups, solved exactly.

Gibbs, Cherian and Candès (2023). A row has phi = (1, its indicators of groups). With c = 1 - alpha, V(c) is the largest
sum of eta_i E_i over -alpha <= eta_i <= 1 - alpha with sum eta_i phi_i = -c phi(x). A label whose score is S is in the
set iff S <= -V'(c-), the slope of V to the left: phi(x)'b for the multipliers b of c a little below 1 - alpha. Then the
coverage is at least 1 - alpha in every group. Where no eta exists every label is in.

b passes through as many scores as it has entries (a basis), so the threshold is a combination of calibration scores
with few digits. HiGHS only says where to begin: a dual simplex in fractions (bounds by the sign of E - phi'b, the
smallest index first, "a little below" as a second number that is compared last) goes on until no score is on a wrong
side. So rounding, ties and the solver decide nothing, and rows that only differ in their groups go on from one start.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, inf, lcm, nextafter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats

Numbers = list[Fraction]
Signs = NDArray[np.int64]  # 0 or 1
Whole = NDArray[Any]  # whole numbers of Python, of any size
Relation = tuple[int, tuple[Fraction, ...]]  # a column, and its factors in the kept ones


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction: scores are floats, and compare with it as with this."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else nextafter(nearest, -inf)


def common_unit(values: Floats) -> int:
    """Return the smallest power of two that all of some floats are whole numbers of, when they are multiplied by it."""
    share, exponents = np.frexp(values[values != 0.0])
    mantissas = np.abs(share * 2.0**53).astype(np.int64)
    _, zeros = np.frexp((mantissas & -mantissas).astype(np.float64))  # one more than the zeros at the end
    shifts = 53 - exponents - (zeros - 1)
    return 1 << max(0, int(shifts.max(initial=0)))


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
        keeps = not any(_broken(whole, kept, column, factors) for column, factors in self.relations)
        return whole[0, kept] if keeps else None


def with_one(indicators: NDArray[np.bool_]) -> Signs:
    """Return phi: a one, and the indicators."""
    return np.column_stack([np.ones(len(indicators), dtype=np.int64), indicators.astype(np.int64)])


def _independent(whole: Signs) -> tuple[list[int], list[Relation]]:
    """Return the columns that do not follow from those before them, and how the others follow from them, exactly.

    Rows that break the relations so far are put into a reduced echelon form, until none does.
    """
    rows, echelon = np.unique(whole, axis=0), dict[int, Numbers]()  # by the column where a line begins
    while True:
        kept = sorted(echelon)
        others = [column for column in range(whole.shape[1]) if column not in echelon]
        relations = [(column, tuple(echelon[place][column] for place in kept)) for column in others]
        broken = next((row for relation in relations for row in _broken(rows, kept, *relation)), None)
        if broken is None:
            return kept, relations
        left = [Fraction(x) for x in rows[broken].tolist()]
        for place, line in echelon.items():
            left = [a - left[place] * b for a, b in zip(left, line, strict=True)]
        first = next(column for column, value in enumerate(left) if value)
        left = [value / left[first] for value in left]
        for place, line in echelon.items():
            echelon[place] = [a - line[first] * b for a, b in zip(line, left, strict=True)]
        echelon[first] = left


def _broken(rows: Signs, kept: list[int], column: int, factors: tuple[Fraction, ...]) -> list[int]:
    """Return the first row in which a column does not follow from the kept ones, if there is one."""
    common = lcm(*(factor.denominator for factor in factors))
    expected = rows[:, kept] @ np.array([int(factor * common) for factor in factors], dtype=np.int64)
    broken: list[int] = np.flatnonzero(rows[:, column] * common != expected)[:1].tolist()
    return broken


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

    def copy(self) -> Basis:
        """Return a basis that may be changed."""
        return Basis(self.places.copy(), self.whole, self.scale, self.edges.copy())

    def swap(self, slot: int, place: Place, phi: Signs) -> None:
        """Let b pass through another score instead; divisions are exact, as in elimination without fractions."""
        factors = phi @ self.whole
        column = self.whole[:, slot].copy()
        whole = (factors[slot] * self.whole - np.outer(column, factors)) // self.scale
        whole[:, slot] = column
        sign = 1 if factors[slot] > 0 else -1
        self.whole, self.scale = sign * whole, sign * factors[slot]
        self.places[slot] = place


class Programme:
    """The linear programmes of one level: thresholds of rows by their phi."""

    def __init__(self, design: Design, alpha: Fraction) -> None:
        self.design = design
        self.lower, self.upper = -alpha.numerator, alpha.denominator - alpha.numerator  # bounds, times the denominator
        self._unit = common_unit(design.values)
        start = self._start(float(alpha))
        self._base = self._solved(start, np.zeros(len(design.kept), dtype=np.int64)) or start

    def threshold(self, indicators: NDArray[np.bool_]) -> float:
        """Return the score up to which labels are in the sets of rows in these groups; infinite for all of them."""
        phi = self.design.column(indicators)
        solved = None if phi is None else self._solved(self._base.copy(), phi)
        return inf if solved is None or phi is None else rounded_down(self._level(solved, phi))

    def _start(self, alpha: float) -> Basis:
        """Return a basis near the multipliers that HiGHS finds without a new row."""
        design, d = self.design, len(self.design.kept)
        levels = design.phi @ _multipliers(design, alpha)
        near = [_nearest(design, cell, level) for cell, level in enumerate(levels.tolist())]
        order = np.argsort(np.abs(design.values[near] - levels), kind="stable").tolist()
        basis = Basis([Place(-1, -1)] * d, np.eye(d, dtype=np.int64).astype(object), 1, design.starts[:-1].copy())
        for cell in order:
            factors = design.phi[cell] @ basis.whole
            free = [slot for slot in range(d) if basis.places[slot].cell < 0 and factors[slot]]
            if free:
                basis.swap(free[0], Place(cell, near[cell]), design.phi[cell])
            if all(place.cell >= 0 for place in basis.places):
                break
        for cell, (start, stop) in enumerate(pairwise(design.starts.tolist())):
            level = self._level(basis, design.phi[cell])
            side: Literal["left", "right"] = "left" if Fraction(rounded_down(level)) == level else "right"
            basis.edges[cell] = start + np.searchsorted(design.values[start:stop], rounded_down(level), side=side)
        return basis

    def _score(self, number: int) -> int:
        """Return a score as a whole number of the smallest unit that all of them have."""
        numerator, denominator = float(self.design.values[number]).as_integer_ratio()
        return numerator * (self._unit // denominator)

    def _b(self, basis: Basis) -> Whole:
        """Return b, times the scale of the basis and the unit."""
        b: Whole = basis.whole @ np.array([self._score(place.score) for place in basis.places], dtype=object)
        return b

    def _level(self, basis: Basis, phi: Signs) -> Fraction:
        return Fraction(int(phi @ self._b(basis)), basis.scale * self._unit)

    def _solved(self, basis: Basis, phi: Signs) -> Basis | None:
        """Go from basis to basis until every eta is within its bounds; None if no eta can be."""
        while True:
            leaving = self._outside(basis, phi)
            if leaving is None:
                return basis
            slot, sign = leaving
            cell, score = basis.places[slot]
            basis.edges[cell] = score + (sign > 0)
            entering = self._first_met(basis, sign * basis.whole[:, slot])
            if entering is None:
                return None
            basis.edges[entering.cell] = entering.score
            basis.swap(slot, entering, self.design.phi[entering.cell])

    def _outside(self, basis: Basis, phi: Signs) -> tuple[int, int] | None:
        """Return the first score of the basis whose eta is out of its bounds, and which way phi'b has to go there."""
        design, mine = self.design, [place.score for place in basis.places]
        times = design.before[np.array(mine) + 1] - design.before[mine]
        below = design.before[basis.edges] - design.before[design.starts[:-1]]
        above = design.before[design.starts[1:]] - design.before[basis.edges]
        above[[place.cell for place in basis.places]] -= times
        wanted = -self.lower * (below @ design.phi).astype(object) - self.upper * (above @ design.phi + phi)
        etas, growths = wanted @ basis.whole, phi @ basis.whole  # at c, and how they grow where c falls
        for slot in sorted(range(len(mine)), key=mine.__getitem__):
            eta, most = (etas[slot], growths[slot]), int(times[slot]) * basis.scale
            if eta < (self.lower * most, 0):
                return slot, 1
            if eta > (self.upper * most, 0):
                return slot, -1
        return None

    def _first_met(self, basis: Basis, direction: Whole) -> Place | None:
        """Return the score that b meets first on its way; of several the one with the smallest number."""
        design, b = self.design, self._b(basis)
        slopes = (design.phi @ (direction // gcd(*direction))).astype(object)
        scores = basis.edges - (slopes < 0)
        met = np.flatnonzero((slopes != 0) & (design.starts[:-1] <= scores) & (scores < design.starts[1:]))
        if not len(met):
            return None
        # About how far, in floats, says which of them are worth a look in whole numbers.
        about = np.array([float(Fraction(part, basis.scale * self._unit)) for part in b])
        far = (design.values[scores[met]] - design.phi[met] @ about) / slopes[met].astype(np.float64)
        slack = 2.0**-30 * (1 + np.abs(about).sum() + np.abs(far).min())
        exact = [
            (Fraction(self._score(scores[cell]) * basis.scale - design.phi[cell] @ b, slopes[cell]), cell)
            for cell in met[far <= far.min() + slack].tolist()
        ]
        cell = min(exact)[1]
        return Place(cell, int(scores[cell]))


def _nearest(design: Design, cell: int, level: float) -> int:
    """Return the number of the score of a cell that is nearest."""
    start, stop = design.starts[cell : cell + 2].tolist()
    return int(start + np.abs(design.values[start:stop] - level).argmin())


_MOST_ROWS = 2**14  # that HiGHS looks at: it only says where to begin


def _multipliers(design: Design, alpha: float) -> Floats:
    """Return about the b that is best for the calibration rows alone, or for every so many of them."""
    from scipy.optimize import linprog  # slow to import: only where groups overlap

    step = max(1, int(design.before[-1]) // _MOST_ROWS)
    rows = np.repeat(design.phi, np.diff(design.before[design.starts]), axis=0)[step // 2 :: step]
    scores = np.repeat(design.values, np.diff(design.before))[step // 2 :: step]
    found = linprog(-scores, A_eq=rows.T, b_eq=np.zeros(rows.shape[1]), bounds=(-alpha, 1 - alpha), method="highs")
    b: Floats = -found.eqlin.marginals if found.status == 0 else np.zeros(rows.shape[1])
    return b
