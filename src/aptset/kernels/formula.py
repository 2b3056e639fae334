"""The score of a label from where it stands in its row. Twin of ``mass_score`` and ``zero_score`` in ``c/row.h``."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import cached_property, reduce
from itertools import product
from math import isfinite
from numbers import Real
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Operations(NamedTuple):
    """What arrays and tensors do under other names; every operation rounds once, and alike everywhere."""

    where: Any
    sqrt: Any
    product: Any  # never fused with the addition behind it
    highest: Any
    nearest: Any  # whole number
    power_of_two: Any
    step: Any  # of a polynomial: (value, term, x) to (value + term) * x; the value may be overwritten


def _power_of_two(twos: Floats) -> Floats:
    return ((twos.astype(np.int64) + 1023) << 52).view(np.float64)


def _step(value: Floats, term: float, x: Floats) -> Floats:
    value += term
    value *= x
    return value


NUMPY = Operations(np.where, np.sqrt, np.multiply, np.amax, np.rint, _power_of_two, _step)


@dataclass(frozen=True)
class First:
    """What the most likely label scores instead, where it does not score like the others.

    ``(own*p + own_u*u*p + second*S) / total + constant + u_weight*u``, where S is the second largest mass of the row.
    """

    own: float = 0.0
    own_u: float = 0.0
    second: float = 0.0
    constant: float = 0.0
    u: float = 0.0


@dataclass(frozen=True)
class LinearScore:
    """A score that is linear in masses, u and ranks: what the compiled loops know, unless it breaks their rule.

    A label scores ``(above*A + own*p + own_u*u*p + top*T) / total + constant + u_weight*u``, where A is the mass above
    it in its row and T the largest mass; the most likely label may have a form of its own (``first``). A label without
    mass scores ``1 + (position + 1 - u) / count`` if ``behind``, else like the others with p = 0. All add
    ``rank * (their rank - free_ranks - rank_u*u)`` where their rank exceeds the free ones.
    """

    above: float = 0.0
    own: float = 0.0
    own_u: float = 0.0
    constant: float = 0.0
    u: float = 0.0
    rank: float = 0.0
    free_ranks: float = 0.0
    rank_u: float = 0.0
    top: float = 0.0
    behind: bool = True
    first: First | None = None

    @cached_property
    def flat(self) -> Floats:
        """The numbers in the order of the enumeration in ``c/row.h``."""
        *numbers, first = (getattr(self, field.name) for field in fields(self))
        of_first = [getattr(first or First(), field.name) for field in fields(First)]
        return np.array([*numbers, first is not None, *of_first], dtype=np.float64)

    @cached_property
    def bits(self) -> bytes:
        """The same as the bytes that kernels on a device take."""
        return self.flat.tobytes()

    @classmethod
    def of_flat(cls, flat: Sequence[float]) -> "LinearScore":
        """Return the linear score that has these numbers."""
        *names, behind, first = (field.name for field in fields(cls))
        n, values = len(names), dict(zip(names, flat, strict=False))
        of_first = First(*flat[n + 2 :]) if flat[n + 1] else None
        return replace(cls(**values), **{behind: bool(flat[n]), first: of_first})  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class OwnMass:
    """The fast form of a score that only looks at the mass p of a label: ``-(p * factor) / total + constant + u * U``.

    Each column has a factor. Labels without mass stand behind (:attr:`Places.behind`). No order of the scores follows.
    """

    factors: Floats
    constant: float
    u: float


@dataclass(frozen=True, eq=False)
class Ordering:
    """The fast form of a score of ordered labels: the column of each label from low to high, and how intervals grow."""

    columns: NDArray[np.int64]
    is_central: bool


@dataclass(frozen=True)
class Places:
    """Where the labels of some rows stand: all that a score may look at.

    ``own``, ``above`` and ``rank`` are (rows, labels); the others are (rows, 1) and spread over the labels by
    themselves. Masses are the probabilities as exact multiples of 2^-51, so their sums are exact; divide them by
    ``total`` to have shares of 1.

    Attributes
    ----------
    own : array
        Mass of the label. Columns are in the order of the classes, so a score may look at neighbours.
    above : array
        Mass of the labels that stand before it in its row: those more likely, and equal ones that chance put first.
    rank : array
        1 for the most likely label of the row, up to the number of classes.
    top, second : array
        Largest and second largest mass of the row.
    total : array
        Sum of the row: 1 up to rounding.
    with_mass : array
        How many labels of the row have mass. The others have rank ``with_mass + 1`` and on.
    u : array
        The uniform of the row, in [0, 1]; 1 everywhere without randomisation.
    classes : int
        Number of labels.

    Examples
    --------
    A score is a function of places. Small scores conform; here the squared probability counts:

    >>> import aptset
    >>> def squared(places):
    ...     return 1 - (places.own / places.total) ** 2
    >>> aptset.calibrate([[0.5, 0.25, 0.25]] * 2, [0, 1], conformity=squared).scores
    array([0.75  , 0.9375])
    """

    own: Floats
    above: Floats
    rank: Floats
    top: Floats
    second: Floats
    total: Floats
    with_mass: Floats
    u: Floats
    classes: int

    def first_row(self) -> "Places":
        """Return the places of the first row alone."""
        of_labels = (self.own[:1], self.above[:1], self.rank[:1])
        of_row = (self.top[:1], self.second[:1], self.total[:1], self.with_mass[:1], self.u[:1])
        return Places(*of_labels, *of_row, self.classes)

    @property
    def behind(self) -> Floats:
        """What labels without mass score if they stand behind all others: they share (1, 2], almost surely distinct."""
        return 1.0 + ((self.rank - self.with_mass) - self.u) / np.maximum(self.classes - self.with_mass, 1.0)


@dataclass(frozen=True)
class Formula:
    """A score as the loops take it: linear, or any function of places; and the power that probabilities are raised to.

    A function may come with a fast form of its own (``fast``), which means the same to the last bit.

    The power is a multiple of ``POWER_STEP``: products and square roots then give it, with the same bits everywhere.
    With a ``grid``, a power of two, the score is rounded up to a multiple of it. Calibration scores are; those of new
    rows need not be, since g < s and g < (s rounded up) are the same for every multiple g of the grid.
    """

    linear: LinearScore | None
    of: Callable[[Places], Floats] | None = None
    power: float = 1.0
    grid: float | None = None
    fast: OwnMass | Ordering | None = None

    def on_grid(self, scores: Floats) -> Floats:
        """Return calibration scores as they are compared: rounded up, if there is a grid."""
        return scores if self.grid is None else np.ceil(scores / self.grid) * self.grid + 0.0  # -0 becomes 0


POWER_STEP = 2.0**-6


def raised(values: Floats, power: float, xp: Operations = NUMPY) -> Floats:
    """Return values to a power that is a multiple of POWER_STEP."""
    whole, steps = divmod(round(power / POWER_STEP), round(1 / POWER_STEP))
    factors, root, bit = [values] * whole, values, round(1 / POWER_STEP)
    while steps:
        root, bit = xp.sqrt(root), bit // 2
        if steps >= bit:
            factors.append(root)
            steps -= bit
    return reduce(mul, factors[1:], factors[0])


def sum_of_row(values: Floats) -> Floats:
    """Return the sum of each row, (rows, 1), in an order that arrays and tensors share: halves upon halves."""
    rest: Any = 0.0
    while (width := values.shape[1]) > 1:
        half = width // 2
        rest = rest + values[:, -1:] if width % 2 else rest
        values = values[:, :half] + values[:, half : 2 * half]
    total: Floats = values + rest
    return total


def normalised(values: Floats, xp: Operations = NUMPY) -> Floats:
    """Divide each row by its sum; one that cannot be divided turns bad, and is reported as such."""
    total = sum_of_row(values)
    can_be = (values >= 0.0).all(1, keepdims=True) & (total > 0.0)
    divided: Floats = values / xp.where(can_be, total, np.nan)
    return divided


def tempered(values: Floats, power: float, tolerance: float, xp: Operations = NUMPY) -> Floats:
    """Raise rows to a power and divide them by their new sums; what is bad before it is raised stays bad."""
    total = ((values + 2.0) - 2.0).sum(1, keepdims=True)
    is_good = (abs(total - 1.0) <= tolerance) & (values >= 0.0).all(1, keepdims=True)
    return normalised(raised(xp.where(is_good, values, np.nan), power, xp), xp)


def rank_penalty(w: LinearScore, rank: Floats, u: Floats, xp: Operations = NUMPY) -> Floats:
    """By how much a rank counts, times its weight."""
    ranks: Floats = xp.product(w.rank, xp.where(rank > w.free_ranks, (rank - w.free_ranks) - w.rank_u * u, 0.0))
    return ranks


def mass_score(
    w: LinearScore,
    above: Floats,
    own: Floats,
    top: Floats,
    second: Floats,
    total: Floats,
    rank: Floats,
    u: Floats,
    xp: Operations = NUMPY,
) -> Floats:
    """Score of labels that carry mass (of all labels, where those without mass do not stand behind)."""
    shaved, by_rank = xp.product(u, own), rank_penalty(w, rank, u, xp)
    share = ((w.above * above + w.own * own + w.own_u * shaved) + w.top * top) / total
    scores: Floats = (share + (w.constant + xp.product(w.u, u))) + by_rank
    if w.first is None:
        return scores
    f = w.first
    share = ((f.own * own + f.own_u * shaved) + f.second * second) / total
    with_first: Floats = xp.where(rank == 1.0, (share + (f.constant + xp.product(f.u, u))) + by_rank, scores)
    return with_first


def zero_score(
    w: LinearScore, position: Floats, count: Floats, rank: Floats, u: Floats, xp: Operations = NUMPY
) -> Floats:
    """Score of labels without mass that stand behind: they share (1, 2]."""
    return (1.0 + ((position + 1.0) - u) / count) + rank_penalty(w, rank, u, xp)


_MOST = 1e9  # beyond this a rank times a penalty could become infinite


def broken_rule(w: LinearScore) -> str | None:
    """Return why the loops cannot take a linear score, or None if they can."""
    *numbers, _, _ = (getattr(w, field.name) for field in fields(w))
    numbers += astuple(w.first) if w.first else ()
    if not all(isinstance(x, Real) and isfinite(x) and abs(float(x)) <= _MOST for x in numbers):
        return f"weights must be finite numbers up to {_MOST:g}"
    units = [w.above, w.own, w.own_u, w.top, *((w.first.own, w.first.own_u, w.first.second) if w.first else ())]
    if any(x not in (-1, 0, 1) for x in units):
        return "above, own, own_u, top and second must be -1, 0 or 1, which keeps every sum exact"
    if w.rank < 0 or w.free_ranks < 0 or w.free_ranks != int(w.free_ranks) or w.rank_u not in (0, 1):
        return "rank must be at least 0, free_ranks a whole number of at least 0, rank_u 0 or 1"
    if not _holds_along_the_row(w):
        return "above must be at least 0, own and own + own_u, and 1 if own_u is: scores would fall along the row"
    if w.first is not None and not _holds_behind_the_first(w, w.first):
        return "first must not score more than the label behind it, for any row and u"
    if w.behind and not _holds_before_labels_without_mass(w):
        return "without the ranks no score may exceed 1, where labels without mass begin (or set behind=False)"
    return None


def _holds_along_the_row(w: LinearScore) -> bool:
    return w.above >= max(0, w.own, w.own + w.own_u) and (w.own_u <= 0 or w.above == 1)


def _holds_behind_the_first(w: LinearScore, f: First) -> bool:
    """Compare at the corners of all rows: the second mass is 0 or equals the top; u times a mass is 0 or all of it."""
    constants = (f.constant, f.u) == (w.constant, w.u) or f.constant + max(f.u, 0) <= w.constant + min(w.u, 0)
    return constants and all(
        f.own + f.own_u * u + f.second * second <= w.above + w.top + (w.own + w.own_u * v) * second
        for second, u, v in product((0, 1), repeat=3)
    )


def _holds_before_labels_without_mass(w: LinearScore) -> bool:
    share = max(0, w.above, w.own, w.own + w.own_u) + max(0, w.top)
    if share + (w.constant + max(w.u, 0)) > 1:
        return False
    if w.first is None:
        return True
    own = max(w.first.own, w.first.own + w.first.own_u)
    return max(own, (own + w.first.second) / 2) + (w.first.constant + max(w.first.u, 0)) <= 1
