"""Levels: one alpha, or one for each cell; on average over calibrations, or with assurance for the one at hand.

The rank of the threshold at a level, and the number of rows that a level needs, are exact.

A level goes the way of an alpha through every face and every maker of thresholds. A plain alpha is a ``Fraction``;
whatever says more is a :class:`CellLevel`, whose ranks are worked out cell by cell.

Assurance: Vovk 2012, "Conditional validity of inductive conformal predictors". Levels of labels and groups: Mondrian
conformal prediction, Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random world".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from aptset.core import validate
from aptset.core.groups import Groups
from aptset.core.labels import hashable, plain_value
from aptset.core.validate import warn_caller


def rank_at(n: int, alpha: Fraction, risk: Fraction | None = None) -> int:
    """Return ceil((1 - alpha)(n + 1)): which smallest score of n is the threshold; above n, every label is in.

    With a ``risk`` it is the least k with P(Bin(n, 1 - alpha) >= k) <= risk: of independent calibrations a share of at
    most ``risk`` covers less than 1 - alpha of new rows (Vovk 2012, "Conditional validity of inductive conformal
    predictors").
    """
    return ceil((1 - alpha) * (n + 1)) if risk is None else n + 1 - _misses_within(n, alpha, risk)


@lru_cache(maxsize=1024)
def size_needed(alpha: Fraction, risk: Fraction | None = None) -> int:
    """Return the smallest n whose rank at ``alpha`` is at most n; with a ``risk``, with (1 - alpha)^n <= it."""
    if risk is None:
        return ceil((1 - alpha) / alpha)
    with localcontext(prec=60 + alpha.denominator.bit_length()):
        steps = _decimal(risk).ln() / _decimal(1 - alpha).ln()
        nearest = int(steps.to_integral_value())
        if abs(steps - nearest) > Decimal(10) ** -30 or nearest > risk.denominator.bit_length():
            return ceil(steps)
    return nearest if (1 - alpha) ** nearest <= risk else nearest + 1  # a power that is the risk itself, perhaps


_EXACT_ROWS = 500  # up to here all terms are whole numbers; beyond, their first bits decide wherever rounding cannot


@lru_cache(maxsize=2**14)
def _misses_within(n: int, alpha: Fraction, risk: Fraction) -> int:
    """Return how many m from 0 upward have P(Bin(n, alpha) <= m) <= risk; the rank is n + 1 minus that."""
    if n > _EXACT_ROWS:
        decided = _misses_by_first_bits(n, alpha, risk)
        if decided is not None:
            return decided
    missed, covered = alpha.numerator, alpha.denominator - alpha.numerator
    term, most, below = covered**n, risk.numerator * alpha.denominator**n, 0
    for misses in range(n + 1):
        below += term * risk.denominator
        if below > most:
            return misses
        term = term * (n - misses) * missed // ((misses + 1) * covered)  # which leaves no remainder
    raise AssertionError("all probabilities together are 1, and no risk is as large")


def _misses_by_first_bits(n: int, alpha: Fraction, risk: Fraction) -> int | None:
    """Return the same from terms that are rounded down; None where their rounding might decide.

    Terms count in units of the largest one times 2^-bits. A step away from it multiplies by at most 1 and rounds once,
    so that all terms together are too small by less than the square of their number; those that were rounded to 0, and
    left out, are smaller still.
    """
    missed, covered = alpha.numerator, alpha.denominator - alpha.numerator
    bits = 200 + risk.denominator.bit_length() + n.bit_length()
    mode = min(n, (n + 1) * missed // (missed + covered))
    downward, upward = [1 << bits], list[int]()
    for misses in range(mode, 0, -1):
        downward.append(downward[-1] * misses * covered // ((n - misses + 1) * missed))
        if not downward[-1]:
            break
    term = downward[0]
    for misses in range(mode, n):
        term = term * (n - misses) * missed // ((misses + 1) * covered)
        upward.append(term)
        if not term:
            break
    first, terms = mode + 1 - len(downward), [*reversed(downward), *upward]
    total, error = sum(terms), 4 * len(terms) ** 2
    below, (part, whole) = 0, risk.as_integer_ratio()
    for misses, term in enumerate(terms, start=first):
        below += term
        if below * whole > part * (total + error):
            return misses
        if (below + error) * whole > part * total:
            return None
    return None


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@dataclass(frozen=True)
class Assurance:
    """How sure one can be that this calibration, and not the average one, covers at least 1 - alpha of new rows.

    Pass a number, ``assurance=0.95``, or this where groups shall be kept all at once.

    Parameters
    ----------
    confidence : float
        The share of calibrations, in (0, 1), that cover at least 1 - alpha.
    simultaneous : bool, default=False
        With groups: True if the coverages of all groups are at least 1 - alpha at once with this confidence, False if
        each by itself is. Groups are disjoint and hence independent, so that each of G groups is kept with confidence
        ``confidence ** (1 / G)``.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([1, 1, 1], size=600)
    >>> y = probabilities.argmax(axis=1)
    >>> calibration = aptset.calibrate(probabilities, y, groups="label", random_state=0)
    >>> each = calibration.ranks(0.1, assurance=0.95)
    >>> at_once = calibration.ranks(0.1, assurance=aptset.Assurance(0.95, simultaneous=True))
    >>> [at_once[label] - each[label] for label in (0, 1, 2)]
    [2, 2, 2]
    """

    confidence: float
    simultaneous: bool = False

    def __post_init__(self) -> None:
        check_confidence_of(self.confidence)
        validate.flag(self.simultaneous, "simultaneous")

    def risk(self, n_groups: int) -> Fraction:
        """Return the share of calibrations that may cover less, in each of so many groups that have rows."""
        return _risk(check_confidence_of(self.confidence), n_groups if self.simultaneous else 1)

    def __str__(self) -> str:
        return f"assurance={self.confidence:g}" + (" for all groups at once" if self.simultaneous else "")


@lru_cache(maxsize=1024)
def _risk(confidence: Fraction, n_groups: int) -> Fraction:
    """Return 1 - confidence^(1 / G), rounded down where it is no fraction: then no sum of probabilities equals it."""
    if n_groups <= 1:
        return 1 - confidence
    with localcontext(prec=80):
        root = (_decimal(confidence).ln() / n_groups).exp()
        above = Fraction(root * (1 + Decimal(10) ** -60))
    exact = Fraction(root).limit_denominator(confidence.denominator)
    is_exact = n_groups <= confidence.denominator.bit_length() and exact**n_groups == confidence
    return 1 - (exact if is_exact else above)


def check_confidence_of(assurance: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    try:
        return validate.alpha(assurance)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"assurance must be a number in (0, 1), the share of calibrations that cover 1 - alpha; got {assurance!r}. "
            "Pass assurance=0.95, for instance."
        ) from None


def check_assurance(assurance: Any) -> Assurance | None:
    """Return what was asked for, if anything."""
    if assurance is None or isinstance(assurance, Assurance):
        return assurance
    check_confidence_of(assurance)
    return Assurance(float(assurance) if isinstance(assurance, float | np.floating) else assurance)


@dataclass(frozen=True)
class CellLevel:
    """A level that is more than one alpha on average: pairs of the name of a cell and its alpha, an assurance, or both.

    It can be passed wherever alpha can.
    """

    alpha: Fraction | tuple[tuple[Any, Fraction], ...]
    assurance: Assurance | None = None

    @property
    def strictest(self) -> Fraction:
        """The smallest alpha of all cells."""
        return self.alpha if isinstance(self.alpha, Fraction) else min(alpha for _, alpha in self.alpha)

    def alphas(self, groups: Groups) -> list[Fraction]:
        """Return the alpha of each cell, and last, for a cell never seen, the strictest one."""
        if isinstance(self.alpha, Fraction):
            return [self.alpha] * (len(groups.names) + 1)
        return [*groups.by_key(dict(self.alpha), "alpha"), self.strictest]

    def ranks(self, groups: Groups, sizes: Sequence[int]) -> list[int]:
        """Return the rank of the threshold of each cell, and last of one never seen."""
        risk = None if self.assurance is None else self.assurance.risk(sum(n > 0 for n in sizes))
        pairs = zip([*sizes, 0], self.alphas(groups), strict=True)
        return [rank_at(n, alpha, risk) for n, alpha in pairs]

    def mapped(self, change: Any) -> CellLevel:
        """Return the same with every alpha changed."""
        if isinstance(self.alpha, Fraction):
            return CellLevel(change(self.alpha), self.assurance)
        return CellLevel(tuple((name, change(alpha)) for name, alpha in self.alpha), self.assurance)

    def __str__(self) -> str:
        alpha = alpha_of(self)
        in_words = f"alpha={alpha:g}" if isinstance(alpha, float) else f"alpha={alpha!r}"
        return in_words if self.assurance is None else f"{in_words}, {self.assurance}"


Level: TypeAlias = Fraction | CellLevel


def strictest(levels: Sequence[Level]) -> Fraction:
    """Return the smallest alpha of all levels."""
    return min(level if isinstance(level, Fraction) else level.strictest for level in levels)


def ranks_of(level: Level, groups: Groups, sizes: Sequence[int]) -> list[int]:
    """Return the rank of the threshold of each cell, and last of one never seen: above n, every label is in."""
    if isinstance(level, Fraction):
        return [*(rank_at(n, level) for n in sizes), 1]
    return level.ranks(groups, sizes)


def alpha_of(level: Level) -> float | dict[Any, float]:
    """Return alpha as people write it: a number, or a dictionary."""
    alpha = level if isinstance(level, Fraction) else level.alpha
    return float(alpha) if isinstance(alpha, Fraction) else {name: float(part) for name, part in alpha}


def levels_of_mapping(alpha: Mapping[Any, Any]) -> dict[Any, float]:
    """Return the level of each name, checked."""
    return {name: float(part) for name, part in _check_mapping(alpha)}


def shown_alpha(level: Level) -> str:
    """Return alpha in short: 0.1, or malignant=0.01,benign=0.1."""
    alpha = alpha_of(level)
    return f"{alpha:g}" if isinstance(alpha, float) else ",".join(f"{name}={part:g}" for name, part in alpha.items())


def check_level(alpha: Any, assurance: Any = None) -> Level:
    """Return one level: an alpha, or one for each cell, and the assurance of both."""
    if type(alpha) in (float, Fraction) and assurance is None:
        return _plain_level(alpha)
    sure = check_assurance(assurance)
    if isinstance(alpha, CellLevel):
        return alpha if sure is None else CellLevel(alpha.alpha, sure)
    if isinstance(alpha, Mapping):
        return CellLevel(_check_mapping(alpha), sure)
    level = validate.alpha(alpha)
    return level if sure is None else CellLevel(level, sure)


def _check_mapping(alpha: Mapping[Any, Any]) -> tuple[tuple[Any, Fraction], ...]:
    """Return the alpha of each name, exactly."""
    if not alpha:
        raise ValueError(
            "alpha must name the level of every label or group; got an empty mapping. Pass {'a': 0.1, ...}"
        )
    pairs = []
    for name, part in alpha.items():
        try:
            pairs.append((hashable(plain_value(name)), validate.alpha(part)))
        except (TypeError, ValueError) as error:
            raise type(error)(f"alpha of {name!r} must be a number in (0, 1); got {part!r}.") from None
    return tuple(pairs)


@lru_cache(maxsize=256, typed=True)
def _plain_level(alpha: float | Fraction) -> Fraction:
    """Return the decimal of a level that comes again and again."""
    return validate.alpha(alpha)


def check_alphas(alpha: Any, assurance: Any = None) -> tuple[list[Level], bool]:
    """Return the levels, and whether there was a sequence of them."""
    if type(alpha) is float and assurance is None:
        return [_plain_level(alpha)], False
    if isinstance(alpha, Sequence | np.ndarray) and not isinstance(alpha, str) and np.ndim(alpha) == 1:
        if len(alpha) == 0:
            raise ValueError("alpha must be a number or a non-empty sequence of numbers; got an empty sequence.")
        return [check_level(a, assurance) for a in alpha], True
    return [check_level(alpha, assurance)], False


NO_CELLS: Mapping[Any, int] = MappingProxyType({})


def warn_if_too_few(
    sizes: Mapping[Any, int],
    alphas: Sequence[Level],
    groups: Groups,
    every: Mapping[Any, int] = NO_CELLS,
    levels: Sequence[Level] | None = None,
    counted: str = "samples",
) -> None:
    """Say once that sets hold every label because their calibration samples, or those of some groups, are too few.

    ``sizes`` are those of the cells that the new rows can be in, and ``every`` those of all cells. ``levels`` are the
    input levels at which calibration runs, where they are not the levels that were asked for; ``counted`` is what sizes
    count.
    """
    plain = [level for level in alphas if type(level) is Fraction]
    if levels is None and len(plain) == len(alphas) and min(sizes.values(), default=0) >= size_needed(min(plain)):
        return  # the short way of small calls
    needed = _needed(sizes, levels or alphas, groups, every)
    short = {name: n for name, n in sizes.items() if n < needed[name]}
    if not short:
        return
    what, kind = _in_words(alphas, levels or alphas), groups.words
    wanted = {needed[name] for name in short}
    enough = f": at least {_readable(max(wanted))} are needed" if len(wanted) == 1 else ""
    if groups.is_one:
        few = f"{next(iter(short.values()))} calibration samples are too few for {what}"
    else:
        shown = [
            f"{name!r} ({n or 'never seen'})" if enough else f"{name!r} ({n} of {_readable(needed[name])})"
            for name, n in list(short.items())[:8]
        ]
        more = f" and {len(short) - 8} more" if len(short) > 8 else ""
        few = f"{kind.several} with too few calibration samples for {what}: {', '.join(shown)}{more}"
    few, effect = (text.replace(" samples", f" {counted}", 1) for text in (few, kind.effect))
    warn_caller(f"{few}{enough}, {effect}")


def _readable(n: int) -> str:
    """Return a number of rows; 300 digits help nobody."""
    return str(n) if n < 10**15 else f"{Decimal(n):.3g}"


def _needed(
    sizes: Mapping[Any, int], levels: Sequence[Level], groups: Groups, every: Mapping[Any, int]
) -> dict[Any, int]:
    """Return how many rows each cell needs for the strictest of the levels."""
    plain = [level for level in levels if isinstance(level, Fraction)]
    needed = dict.fromkeys(sizes, size_needed(min(plain)) if plain else 0)
    for level in levels:
        if isinstance(level, Fraction):
            continue
        risk = None if level.assurance is None else level.assurance.risk(sum(n > 0 for n in every.values()))
        of_cells = dict(zip(groups.names, level.alphas(groups), strict=False))
        for name, n in needed.items():
            needed[name] = max(n, size_needed(of_cells.get(name, level.strictest), risk))
    return needed


def _in_words(alphas: Sequence[Level], levels: Sequence[Level]) -> str:
    """Return the strictest level that was asked for, and the one at which calibration runs."""
    level, inner, first = strictest(alphas), strictest(levels), alphas[0]
    text = str(first) if len(alphas) == 1 and isinstance(first, CellLevel) else f"alpha={float(level):g}"
    return text + (f" (level='guaranteed' runs at {float(inner):.4g})" if inner != level else "")
