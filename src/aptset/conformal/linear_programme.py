"""Thresholds for groups that overlap: one small linear programme for each combination of groups, solved exactly.

Gibbs, Cherian and Candès (2023). A row has phi = (1, its indicators of groups). With c = 1 - alpha, V(c) is the largest
sum of eta_i E_i over -alpha <= eta_i <= 1 - alpha with sum eta_i phi_i = -c phi(x). A label whose score is S is in the
set iff S <= -V'(c-), the slope of V to the left: phi(x)'b for the multipliers b of c a little below 1 - alpha. Then the
coverage is at least 1 - alpha in every group. Where no eta exists every label is in.

b passes through as many scores as it has entries (a basis), so the threshold is a combination of calibration scores
with few digits. HiGHS says where to begin, and a dual simplex in floats finds about the right basis from there; one in
whole numbers (bounds by the sign of E - phi'b, the smallest index first, "a little below" as a second number that is
compared last) goes on until no score is on a wrong side, mostly at once. So rounding, ties and the solver decide
nothing, and rows that only differ in their groups go on from one start.

Equal scores are one variable within a combination. Between combinations they are set apart, or the simplex would walk
for hours among bases that all pass through the same ones: by a number of their own times an amount that is finite in
floats, and in whole numbers less than any difference of what is compared there. An optimal basis of the scores that are
set apart is one of the scores themselves (whether eta keeps its bounds does not depend on them, and E - phi'b changes
no sign, at most it becomes 0), and V'(c-) is the same at every optimal basis.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.formula import Floats

Signs = NDArray[np.int64]  # 0 or 1
Whole = NDArray[Any]  # whole numbers of Python, of any size
Relation = tuple[int, Whole, int]  # a column, its factors in the kept ones as whole numbers, and what divides them

_PRIME = 2**31 - 1
_ROWS_AT_ONCE = 256
_GOLDEN_RATIO = 0.6180339887498949
_FINE = 2**32  # numbers that set equal scores apart are below
# Determinants of 65 rows of 0 and 1 are below 2^135. What is compared is at most a product of two of them and a score:
# numbers below 2^32, times 66 and times both, stay below one unit of the scores.
_FAR = 512
_MOST_STEPS = 100  # for each entry of b, in floats, which may go round in circles where they are misled
_SAME = 2.0**-44  # how far is as far, where scores are about 1
_LITTLE = 2.0**-20  # by how much c is below 1 - alpha there
_LEAST_SLOPE = 2.0**-30
_LARGEST_SCORE = 2.0**500

_MOST_SCORES = 2**14  # that HiGHS looks at: it only says where to begin


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
        whole = np.eye(size, dtype=np.int64).astype(object)
        return cls([Place(-1, -1)] * size, whole, 1, np.empty(0, dtype=np.int64))

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
    """The different phi of calibration rows (cells), a one and their indicators, and the scores of each.

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
        whole, edges = np.insert(indicators[filled], 0, True, axis=1).astype(np.int64), offsets[filled]
        is_new = np.append(True, np.diff(scores) != 0)
        is_new[edges] = True
        first = np.flatnonzero(is_new)
        starts, before = np.append(np.searchsorted(first, edges), len(first)), np.append(first, len(scores))
        kept, relations = _independent(whole)
        return cls(whole[:, kept], scores[first], starts, before, tuple(kept), tuple(relations))

    def column(self, indicators: NDArray[np.bool_]) -> Signs | None:
        """Return the phi of a row in the kept columns; None if it breaks a relation that all calibration rows keep."""
        whole, kept = np.insert(indicators, 0, True).astype(np.int64)[None, :], list(self.kept)
        breaks = any(len(_broken(whole, kept, relation)) for relation in self.relations)
        return None if breaks else whole[0, kept]


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


def _broken(rows: Signs, kept: list[int], relation: Relation) -> NDArray[np.intp]:
    """Return the rows in which a column does not follow from the kept ones."""
    column, factors, divisor = relation
    is_short = (len(kept) + 1) * max(abs(int(factor)) for factor in (*factors, divisor)) < 2**63
    factors = factors.astype(np.int64) if is_short else factors
    return np.flatnonzero(rows[:, kept] @ factors != rows[:, column].astype(factors.dtype) * divisor)


def are_addable(scores: NDArray[np.float64]) -> bool:
    """Tell whether thresholds, which are sums of scores times factors below 2^200, cannot leave the range of floats."""
    return bool((np.abs(scores) <= _LARGEST_SCORE).all())


class Programme:
    """The linear programmes of one level: thresholds of rows by their phi."""

    def __init__(self, design: Design, alpha: Fraction) -> None:
        self.design = design
        self.lower, self.upper = -alpha.numerator, alpha.denominator - alpha.numerator  # bounds, times the denominator
        # All scores are whole numbers of the largest of their denominators, which are powers of two.
        self._unit = max((value.as_integer_ratio()[1] for value in design.values.tolist()), default=1) << _FAR
        self._order = (np.arange(len(design.values)) * _GOLDEN_RATIO % 1.0 * _FINE).astype(np.int64)
        largest, gap = np.abs(design.values).max(initial=0.0), np.diff(np.unique(design.values)).min(initial=1.0)
        self._apart = design.values + max(2.0**-10 * gap, 2.0**-36 * largest) / _FINE * self._order
        start = self._start(float(alpha))
        self._base = self._solved(start, np.zeros(len(design.kept), dtype=np.int64)) or start

    def threshold(self, indicators: NDArray[np.bool_]) -> float:
        """Return the score up to which labels are in the sets of rows in these groups; infinite for all of them."""
        phi = self.design.column(indicators)
        if phi is None or (solved := self._solved(self._base.copy(), phi)) is None:
            return inf
        level = self._level(solved, phi)
        nearest = float(level)  # scores are floats: they compare with the level as with the next float below
        return nearest if Fraction(nearest) <= level else nextafter(nearest, -inf)

    def _start(self, alpha: float) -> Basis:
        """Return a basis near the multipliers that HiGHS finds without a new row."""
        design, apart = self.design, self._apart
        levels = design.phi @ _multipliers(design, apart, alpha)
        nearest = [
            start + int(np.abs(apart[start:stop] - level).argmin())
            for (start, stop), level in zip(pairwise(design.starts.tolist()), levels.tolist(), strict=True)
        ]
        order = np.argsort(np.abs(apart[nearest] - levels), kind="stable").tolist()
        basis = Basis.empty(len(design.kept))
        self._move(basis, [Place(cell, nearest[cell]) for cell in order])
        return basis

    def _move(self, basis: Basis, places: list[Place]) -> None:
        """Let b pass through these scores instead, the first ones that are independent."""
        wanted, held = {place.cell: place for place in places}, set[int]()
        for slot, old in enumerate(basis.places):
            if old.cell in wanted:  # another score of the same phi
                basis.places[slot] = wanted.pop(old.cell)
                held.add(slot)
        for place in wanted.values():
            if len(held) == len(basis.places):
                break
            basis.join(place, self.design.phi[place.cell], held)
        basis.edges = self._edges(basis)

    def _edges(self, basis: Basis) -> NDArray[np.int64]:
        """Return the first score of each cell that is not below b, exactly."""
        design, (b, about) = self.design, self._b(basis)
        levels, slack = design.phi @ about, 2.0**-40 * (1 + np.abs(about).sum())
        edges = np.empty(len(levels), dtype=np.int64)
        for cell, (start, stop) in enumerate(pairwise(design.starts.tolist())):
            scores, level = design.values[start:stop], levels[cell]
            low, high = (start + np.searchsorted(scores, [level - slack, level + slack])).tolist()
            if low < high:  # some are too close to tell in floats
                exact = int(design.phi[cell] @ b)
                low += bisect_left(range(low, high), exact, key=lambda number: self._score(number) * basis.scale)
            edges[cell] = low
        return edges

    def _score(self, number: int) -> int:
        """Return a score as a whole number of the smallest unit that all of them have, apart from equal ones."""
        numerator, denominator = float(self.design.values[number]).as_integer_ratio()
        return numerator * (self._unit // denominator) + int(self._order[number])

    def _b(self, basis: Basis) -> tuple[Whole, Floats]:
        """Return b, times the scale of the basis and the unit, and about b itself, in floats."""
        b = basis.whole @ np.array([self._score(place.score) for place in basis.places], dtype=object)
        return b, np.array([float(Fraction(int(entry), basis.scale * self._unit)) for entry in b])

    def _level(self, basis: Basis, phi: Signs) -> Fraction:
        """Return phi'b as it is without what sets equal scores apart."""
        places = zip(phi @ basis.whole, basis.places, strict=True)
        level = sum(factor * (self._score(score) >> _FAR) for factor, (_, score) in places)
        return Fraction(int(level), basis.scale * (self._unit >> _FAR))

    def _solved(self, basis: Basis, phi: Signs) -> Basis | None:
        """Go from basis to basis until every eta is within its bounds; None if no eta can be."""
        with np.errstate(all="ignore"):  # floats that are misled cost time, nothing else
            stuck = self._guide(basis, phi)
        while True:
            leaving = self._outside(basis, phi, stuck)
            if leaving is None:
                return basis
            stuck, (slot, sign) = None, leaving
            cell, score = basis.places[slot]
            basis.edges[cell] = score + (sign > 0)
            entering = self._first_met(basis, sign * basis.whole[:, slot])
            if entering is None:
                return None
            basis.edges[entering.cell] = entering.score
            basis.swap(slot, entering, self.design.phi[entering.cell])

    def _guide(self, basis: Basis, phi: Signs) -> int | None:
        """Go in floats, with c a little below, and then to where that ends; return a slot that nothing can leave."""
        design, values = self.design, self._apart
        cells, scores = (np.array(part) for part in zip(*basis.places, strict=True))
        edges, slot, is_stuck = basis.edges.copy(), 0, False
        inverse = (basis.whole / basis.scale).astype(np.float64)
        self._set_right(edges, cells, design.phi @ (inverse @ values[scores]))
        for _ in range(_MOST_STEPS * len(cells)):
            times, wanted = self._wanted(cells, scores, edges, phi)
            etas = wanted.astype(np.float64) @ inverse + _LITTLE * (phi @ inverse)
            excess = np.maximum(self.lower * times - etas, etas - self.upper * times)
            slot = int(excess.argmax())
            if not excess[slot] > _LITTLE * 1e-3 * (1 + np.abs(etas).max()):  # or no number, where floats were misled
                break
            sign = 1 if etas[slot] < 0 else -1
            edges[cells[slot]] = scores[slot] + (sign > 0)
            slopes = design.phi @ (sign * inverse[:, slot])
            after = edges - (slopes < 0)
            ahead = np.flatnonzero(
                (np.abs(slopes) > _LEAST_SLOPE) & (design.starts[:-1] <= after) & (after < design.starts[1:])
            )
            if not len(ahead):
                edges[cells[slot]], is_stuck = scores[slot], True
                break
            far = (values[after[ahead]] - design.phi[ahead] @ (inverse @ values[scores])) / slopes[ahead]
            cell = int(ahead[np.where(far <= far.min() + _SAME, np.abs(slopes[ahead]), 0.0).argmax()])
            factors = design.phi[cell] @ inverse
            column = inverse[:, slot] / factors[slot]
            inverse -= np.outer(column, factors)
            inverse[:, slot] = column
            cells[slot], scores[slot], edges[cell] = cell, after[cell], after[cell]
        places = [Place(cell, score) for cell, score in zip(cells.tolist(), scores.tolist(), strict=True)]
        self._move(basis, places)
        return next((place for place, known in enumerate(basis.places) if is_stuck and known == places[slot]), None)

    def _set_right(self, edges: NDArray[np.int64], cells: NDArray[np.int64], levels: Floats) -> None:
        """Correct the edges of cells that are not of the basis, for scores that were set apart."""
        values, starts, ends = self._apart, self.design.starts[:-1], self.design.starts[1:]
        is_wrong = (edges > starts) & (values[np.maximum(edges - 1, 0)] > levels)
        is_wrong |= (edges < ends) & (values[np.minimum(edges, len(values) - 1)] < levels)
        is_wrong[cells] = False
        for cell in np.flatnonzero(is_wrong).tolist():
            edges[cell] = starts[cell] + np.searchsorted(values[starts[cell] : ends[cell]], levels[cell])

    def _wanted(
        self, cells: NDArray[np.int64], scores: NDArray[np.int64], edges: NDArray[np.int64], phi: Signs
    ) -> tuple[NDArray[np.int64], Whole]:
        """Return how often each score of the basis comes, and what their etas have to sum up to, times their phi."""
        design = self.design
        times = design.before[scores + 1] - design.before[scores]
        below = design.before[edges] - design.before[design.starts[:-1]]
        above = design.before[design.starts[1:]] - design.before[edges]
        above[cells] -= times
        return times, -self.lower * (below @ design.phi).astype(object) - self.upper * (above @ design.phi + phi)

    def _outside(self, basis: Basis, phi: Signs, first: int | None) -> tuple[int, int] | None:
        """Return a score of the basis whose eta is out of its bounds, and which way phi'b has to go there.

        That is the one with the smallest number, or one that is looked at first.
        """
        cells, scores = (np.array(part) for part in zip(*basis.places, strict=True))
        times, wanted = self._wanted(cells, scores, basis.edges, phi)
        etas, growths = wanted @ basis.whole, phi @ basis.whole  # at c, and how they grow where c falls
        for slot in [*([] if first is None else [first]), *np.argsort(scores).tolist()]:
            eta, most = (etas[slot], growths[slot]), int(times[slot]) * basis.scale
            if eta < (self.lower * most, 0):
                return slot, 1
            if eta > (self.upper * most, 0):
                return slot, -1
        return None

    def _first_met(self, basis: Basis, direction: Whole) -> Place | None:
        """Return the score that b meets first on its way; of several the one with the smallest number."""
        design, (b, about), slopes = self.design, self._b(basis), self._slopes(direction)
        scores = basis.edges - (slopes < 0)
        tied = np.flatnonzero((slopes != 0) & (design.starts[:-1] <= scores) & (scores < design.starts[1:]))
        if not len(tied):
            return None
        # About how far, in floats, says which of them are worth a look in whole numbers.
        far = (design.values[scores[tied]] - design.phi[tied] @ about) / slopes[tied]
        slack = 2.0**-30 * (1 + np.abs(about).sum() + np.abs(far).min())

        def distance(cell: int) -> tuple[Fraction, int]:
            way = int(self._score(scores[cell]) * basis.scale - design.phi[cell] @ b)
            return Fraction(way, int(design.phi[cell] @ direction)), cell

        cell = min(map(distance, tied[far <= far.min() + slack].tolist()))[1]
        return Place(cell, int(scores[cell]))

    def _slopes(self, direction: Whole) -> Floats:
        """Return about how phi'b grows in each cell, 0.0 exactly where it does not; in units of the largest entry."""
        largest = max(abs(int(entry)) for entry in direction)
        slopes: Floats = self.design.phi.astype(np.float64) @ (direction / largest).astype(np.float64)
        for cell in np.flatnonzero(np.abs(slopes) < 2.0**-30).tolist():  # too close to tell in floats
            slopes[cell] = int(self.design.phi[cell] @ direction) / largest
        return slopes


def _multipliers(design: Design, scores: Floats, alpha: float) -> Floats:
    """Return about the b that is best for the calibration rows alone, or for every so many of their scores."""
    from scipy.optimize import linprog  # slow to import: only where groups overlap

    sampled = slice((step := max(1, len(design.values) // _MOST_SCORES)) // 2, None, step)
    phi = np.repeat(design.phi, np.diff(design.starts), axis=0)[sampled]
    times = np.diff(design.before)[sampled]
    bounds = np.column_stack([-alpha * times, (1 - alpha) * times])
    solution = linprog(-scores[sampled], A_eq=phi.T, b_eq=np.zeros(phi.shape[1]), bounds=bounds, method="highs")
    return np.asarray(-solution.eqlin.marginals) if solution.status == 0 else np.zeros(phi.shape[1])
