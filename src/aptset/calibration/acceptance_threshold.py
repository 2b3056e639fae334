"""Thresholds of confidence: the rules by which rows are acted on, and one threshold for rows that come one by one.

Errors among rows that are acted on are bounded, on average over batches or for this very threshold. A batch:
Benjamini-Hochberg on conformal p-values, Jin and Candès 2023, "Selection by prediction with conformal p-values". A
stream: a threshold at a rank of the calibration rows, which a band over ranks, a fixed sequence of ranks (Angelopoulos
et al. 2021, "Learn then test"), both together or Bonferroni allow; docs/design/0024 has the proofs. Probabilities are
rounded against the user: what floats add up to is raised by more than their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf, log, log1p
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.acceptance_rows import Reading, check_numbers, look_at_new
from aptset.calibration.request import take_ids
from aptset.core.randomization import NewU
from aptset.kernels.formula import Floats

Counts = NDArray[np.int64]

_ROUNDING = 1e-9  # more than the relative error of any sum here: 400 steps of 2^12 terms at 2^-52 each
_LARGEST = 2**62


def batch_bound(wrong: Floats, n: int, new: Floats, error: Fraction) -> float:
    """Return b such that Benjamini-Hochberg at ``error`` acts on the new rows with confidence above b.

    ``wrong`` has the confidences of the wrong ones among n calibration rows, largest first. With w of them at or above
    t and r new rows there, t is allowed if (1 + w) m <= error (n + 1) r. Of all t with the same w the lowest is best,
    so one count for each w is enough; w is less than error (n + 1).
    """
    numerator, denominator = error.as_integer_ratio()
    most = min(len(wrong), numerator * (n + 1) // denominator - 1)
    if most < 0 or not len(new):
        return inf
    bounds = np.append(wrong, -inf)[: most + 1]
    above = len(new) - np.searchsorted(np.sort(new), bounds, side="right")
    is_small = max((most + 1) * denominator, numerator * (n + 1)) * len(new) < _LARGEST
    kind = np.int64 if is_small else object
    left = np.arange(1, most + 2).astype(kind) * (len(new) * denominator)
    allowed = np.flatnonzero(left <= above.astype(kind) * (numerator * (n + 1)))
    return float(bounds[allowed[-1]]) if len(allowed) else inf


def _binomial(trials: int, odds: float, negligible: float) -> tuple[int, Floats]:
    """Return the law of a binomial count: the first count that matters, and the probabilities from there on.

    Each follows from the next by a ratio, from the likeliest count on, so that relative errors stay below their number
    times 2^-51. Counts less likely than ``negligible`` times that one are left out.
    """
    mode = min(trials, floor((trials + 1) * odds / (1.0 + odds)))
    width = 64 + int(2 * (-log(negligible) * (mode + 1)) ** 0.5 - 2 * log(negligible))
    up = np.arange(mode, min(trials, mode + width), dtype=np.float64)
    down = np.arange(mode, max(0, mode - width), -1, dtype=np.float64)
    above = np.cumprod((trials - up) / (up + 1.0) * odds)
    below = np.cumprod(down / (trials - down + 1.0) / odds)
    law = np.concatenate([below[::-1], [1.0], above])
    kept = np.flatnonzero(law >= negligible)
    return mode - len(below) + int(kept[0]), law[kept[0] : kept[-1] + 1] / law[kept[0] : kept[-1] + 1].sum()


def _odds(error: Fraction) -> float:
    return float(error / (1 - error))


def ranks_of(n: int, steps: int, start: Fraction) -> Counts:
    """Return the ranks ceil(n j / steps) from the share ``start`` of the rows on: fixed before any label is seen."""
    multiples = np.arange(ceil(start * steps), steps + 1, dtype=np.int64)
    return np.unique(-(-n * multiples // steps))


class Tails:
    """P(Bin(k, error) <= a) for each of some ranks k, down to what matters at a level."""

    def __init__(self, ranks: Counts, error: Fraction, level: Fraction) -> None:
        laws = [_binomial(rank, _odds(error), float(level) * 1e-20) for rank in ranks.tolist()]
        self.firsts = [first for first, _ in laws]
        self.sums = [np.cumsum(law) for _, law in laws]

    def allowed(self, level: float) -> Counts:
        """Return for each rank the largest a whose tail is at most the level; -1 for none."""
        numbers = [int(np.searchsorted(sums, level, side="right")) for sums in self.sums]
        pairs = zip(self.firsts, numbers, strict=True)
        return np.array([first + number - 1 if number else -1 for first, number in pairs], dtype=np.int64)

    def between(self, least: float, most: float) -> Floats:
        """Return the levels at which a count changes, ``least`` and those above it up to ``most``."""
        several = [sums[(sums > least) & (sums <= most)] for sums in self.sums]
        return np.unique(np.concatenate([*several, np.array([least])]))


def counts_allowed(ranks: Counts, error: Fraction, level: Fraction) -> Counts:
    """Return for each rank k the largest a with P(Bin(k, error) <= a) <= level, rounded downwards; -1 for none."""
    return Tails(ranks, error, level).allowed(float(level) / (1.0 + _ROUNDING))


_NONE = np.empty(0, dtype=np.int64)


class Boundary(NamedTuple):
    """How many of the first k rows may be wrong, at ranks k that are tried all at once, and at those tried in turn."""

    ranks: Counts
    allowed: Counts
    in_turn: Counts = _NONE
    allowed_in_turn: Counts = _NONE

    def rank(self, wrong: NDArray[np.bool_]) -> int:
        """Return how many of the most confident rows may be acted on, given which are wrong, most confident first.

        It is the largest rank that passes at once or that is passed in turn, before the first failure.
        """
        so_far = np.cumsum(wrong, dtype=np.int64)
        at_once = self.ranks[so_far[self.ranks - 1] <= self.allowed]
        in_turn = self.in_turn[np.logical_and.accumulate(so_far[self.in_turn - 1] <= self.allowed_in_turn)]
        return int(max(at_once.max(initial=0), in_turn.max(initial=0)))


def crossing(boundary: Boundary, error: Fraction, negligible: float = 1e-14) -> float:
    """Return a bound, rounded upwards, of the probability of a bad calibration under any law.

    With B_k a sum of k independent Bernoulli(error) it is P(B_k <= allowed_k for some k), and in addition, for the one
    rank j in turn where it is largest, P(B_j <= allowed_j in turn, and no crossing up to j). The law of B_k that did
    not cross goes from rank to rank by binomial increments; what is less likely than ``negligible``, far above every
    bound, counts as crossed.
    """
    bounds = {rank: [-1, -1] for rank in np.union1d(boundary.ranks, boundary.in_turn).tolist()}
    for which, (ranks, allowed) in enumerate((boundary[:2], boundary[2:])):
        for rank, bound in zip(ranks.tolist(), allowed.tolist(), strict=True):
            bounds[rank][which] = bound
    steps = np.diff([0, *bounds]).tolist()
    laws = {step: _binomial(step, _odds(error), negligible * 1e-8) for step in set(steps)}
    first, alive, crossed, worst = 0, np.ones(1), 0.0, 0.0
    for step, (bound, bound_in_turn) in zip(steps, bounds.values(), strict=True):
        first, alive = first + laws[step][0], np.convolve(alive, laws[step][1])
        below, tail = max(0, bound + 1 - first), np.cumsum(alive[::-1])
        above = int(np.searchsorted(tail, negligible, side="right"))
        if below + above >= len(alive):
            return 1.0
        crossed += float(alive[:below].sum()) + (float(tail[above - 1]) if above else 0.0)
        worst = max(worst, float(alive[below : max(below, bound_in_turn + 1 - first)].sum()))
        first, alive = first + below, alive[below : len(alive) - above]
    return (crossed + worst) * (1.0 + _ROUNDING)


_EVERY, _FIRST = 100, Fraction(1, 10)  # ranks of the band
_EVERY_IN_TURN, _FIRST_IN_TURN = 400, Fraction(1, 5)  # ranks of a sequence
_IN_TURN = Fraction(19, 20)  # of delta, where the sequence goes beside a band
_MANY = 40  # error times n from which on a sequence pays


@lru_cache(maxsize=64)
def band(n: int, error: Fraction, delta: Fraction) -> Boundary:
    """Return the band over ranks: one level for all, the largest that crosses with probability delta at most."""
    return _beside(n, error, delta, _NONE, _NONE, Fraction(0))


@lru_cache(maxsize=64)
def both(n: int, error: Fraction, delta: Fraction) -> Boundary:
    """Return a fixed sequence at nearly all of delta, and a band beside it: the top may be wrong, or few decided."""
    ranks, spent = ranks_of(n, _EVERY_IN_TURN, _FIRST_IN_TURN), delta * _IN_TURN
    return _beside(n, error, delta, ranks, counts_allowed(ranks, error, spent), spent)


def _beside(
    n: int, error: Fraction, delta: Fraction, in_turn: Counts, allowed_in_turn: Counts, spent: Fraction
) -> Boundary:
    """Return the largest band that leaves the whole within delta.

    Only levels that some tail attains matter. At an equal share of what was not spent Bonferroni holds, and at a level
    above delta one rank alone would cross too often, so the search is between the two.
    """
    ranks = ranks_of(n, _EVERY, _FIRST)
    tails = Tails(ranks, error, delta)
    levels = tails.between(float((delta - spent) / len(ranks)) / (1.0 + _ROUNDING), float(delta))
    low, high = 0, len(levels)  # the level at low holds
    while high - low > 1:
        middle = (low + high) // 2
        tried = Boundary(ranks, tails.allowed(levels[middle]), in_turn, allowed_in_turn)
        holds = Fraction(crossing(tried, error, float(delta) * 1e-12)) <= delta
        low, high = (middle, high) if holds else (low, middle)
    return Boundary(ranks, tails.allowed(levels[low]), in_turn, allowed_in_turn)


@lru_cache(maxsize=64)
def sequence(n: int, error: Fraction, delta: Fraction, start: Fraction = _FIRST_IN_TURN) -> Boundary:
    """Return a fixed sequence of ranks from a share of the rows on, each at the full delta, up to the first failure."""
    ranks = ranks_of(n, _EVERY_IN_TURN, start)
    return Boundary(_NONE, _NONE, ranks, counts_allowed(ranks, error, delta))


@lru_cache(maxsize=64)
def bonferroni(n: int, error: Fraction, delta: Fraction) -> Boundary:
    """Return the ranks of the band, each at delta over their number."""
    ranks = ranks_of(n, _EVERY, _FIRST)
    return Boundary(ranks, counts_allowed(ranks, error, delta / len(ranks)))


def automatic(n: int, error: Fraction, delta: Fraction) -> Boundary:
    """Return the band where few wrong rows are allowed, and else a sequence and a band: n and the error decide."""
    return both(n, error, delta) if n * error >= _MANY else band(n, error, delta)


def rows_needed(error: Fraction, delta: Fraction) -> int:
    """Return the fewest rows of which, if none is wrong, any new row is let through: (1 - error)^n <= delta."""
    return max(1, ceil(Fraction(log(float(delta) / (1.0 + _ROUNDING))) / Fraction(log1p(-float(error)))))


Value = TypeVar("Value")
ALL = ("all rows",)  # the key of a threshold that is for all: no group has it, since names are plain values


class Level(NamedTuple):
    """A threshold of one group: rows above (value, u) are acted on, so many of n calibration rows, so many wrong."""

    value: float
    u: float
    rows: int
    n: int
    n_wrong: int
    error: Fraction
    reason: str
    is_short: bool = False

    @classmethod
    def of(
        cls,
        confidences: Floats,
        u: Floats,
        is_wrong: NDArray[np.bool_],
        error: Fraction,
        make: Callable[..., Boundary],
        options: tuple[Fraction, ...],
    ) -> Level:
        """Return the threshold of the rows of one group, most confident first; the first option is delta."""
        n, needed = len(confidences), rows_needed(error, options[0])
        if n < needed:
            reason = f"no row can be decided: {n} rows, at least {needed} are needed even if none is wrong"
            return cls(inf, 1.0, 0, n, 0, error, reason, True)
        rank = make(n, error, *options).rank(is_wrong)
        n_wrong = int(np.count_nonzero(is_wrong[:rank]))
        if rank == 0:
            reason = f"no row can be decided: too many of the most confident of {n} rows are wrong"
            return cls(inf, 1.0, 0, n, 0, error, reason)
        if rank == n:
            return cls(-inf, 0.0, n, n, n_wrong, error, "every row can be decided")
        reason = f"the {rank} most confident of {n} rows can be decided"
        return cls(float(confidences[rank]), float(u[rank]), rank, n, n_wrong, error, reason)


@dataclass(frozen=True, eq=False, repr=False)
class AcceptanceThreshold:
    """One threshold: new rows above it are acted on, whenever they come. Made by :meth:`Acceptance.threshold`.

    With a number of errors for each guess or group, ``value``, ``u``, ``rows``, ``share`` and ``reason`` are
    dictionaries.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> confidence = np.linspace(0, 1, 400)
    >>> rule = aptset.learn_acceptance(confidence=confidence, wrong=confidence < 0.25, random_state=0)
    >>> threshold = rule.threshold(error=0.05, assurance=0.9)
    >>> threshold
    AcceptanceThreshold(above 0.22807017543859648: 308 of 400 rows, error=0.05, assurance=0.9)
    >>> threshold.accept(confidence=[0.9, 0.1])
    array([ True, False])
    """

    reading: Reading
    assurance: float
    all_at_once: bool
    levels: Mapping[Any, Level]

    def _each(self, look: Callable[[Level], Value]) -> Value | dict[Any, Value]:
        several = {group: look(level) for group, level in self.levels.items()}
        return several[ALL] if self.is_one else several

    @property
    def is_one(self) -> bool:
        """Whether one threshold is for all rows."""
        return self.levels.keys() == {ALL}

    @property
    def value(self) -> float | dict[Any, float]:
        """The confidence above which rows are acted on: minus infinity for all of them, infinity for none."""
        return self._each(lambda level: level.value)

    @property
    def u(self) -> float | dict[Any, float]:
        """Rows at the threshold itself are acted on if their u is above this one."""
        return self._each(lambda level: level.u)

    @property
    def rows(self) -> int | dict[Any, int]:
        """How many of the calibration rows are above the threshold."""
        return self._each(lambda level: level.rows)

    @property
    def share(self) -> float | dict[Any, float]:
        """The share of the calibration rows that are above the threshold: an estimate of what will be decided."""
        return self._each(lambda level: level.rows / max(1, level.n))

    @property
    def error(self) -> float | dict[Any, float]:
        """The share of wrong rows that is allowed among those that are acted on."""
        return self._each(lambda level: float(level.error))

    @property
    def reason(self) -> str | dict[Any, str]:
        """What can be decided, or why nothing can."""
        return self._each(lambda level: level.reason)

    def accept(
        self,
        probabilities: Any = None,
        *,
        confidence: Any = None,
        guesses: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        logits: bool = False,
        u: NewU = None,
        ids: Any = None,
    ) -> NDArray[np.bool_]:
        """Return which rows are acted on; one row or many, each by itself.

        The parameters are those of :meth:`Acceptance.accept`; u and ids are those of :meth:`Calibration.predict_set`,
        and decide rows whose confidence is the threshold itself.
        """
        reading = self.reading
        if ids is not None:
            probabilities, ids = take_ids(probabilities, ids)
        matrix = reading.matrix(probabilities)
        own = reading.own_confidence(confidence, probabilities)
        n_rows = len(matrix) if matrix is not None else len(check_numbers(own, None))
        reading.check_of_rows(guesses, groups, n_rows)
        draw = reading.chance.predicts(u, ids, n_rows, reading.key)
        looked = look_at_new(reading, probabilities, confidence, draw, logits)
        cells = None if self.is_one else reading.cells(looked, guesses, groups)
        return self.above(looked.confidence, looked.u, cells)

    def above(self, confidence: Floats, u: Floats, cells: NDArray[np.integer[Any]] | None) -> NDArray[np.bool_]:
        """Return which rows are above the threshold, that of their group or guess if each has its own."""
        if self.is_one or cells is None:
            return _above(confidence, u, self.levels[ALL])
        act = np.zeros(len(confidence), dtype=np.bool_)
        for name, level in self.levels.items():
            rows = np.flatnonzero(cells == self.reading.groups.names.index(name))
            act[rows] = _above(confidence[rows], u[rows], level)
        return act

    def merge(self, other: Any) -> AcceptanceThreshold:
        """Refuse: thresholds of two calibrations have no common one."""
        raise ValueError("thresholds cannot be merged: merge the Acceptance of each shard, and take its threshold.")

    def sentence(self) -> str:
        """Return what is decided and what is promised, in words."""
        words = []
        for group, level in self.levels.items():
            of_whom = "" if self.is_one else f" of {group!r}"
            if level.rows == 0:
                words.append(f"No row{of_whom} is decided: {level.reason.partition(': ')[2]}.")
                continue
            each = f"with {self.assurance:.4g} confidence{' for all at once' if self.all_at_once else ''}"
            words.append(
                f"About {level.rows / level.n:.0%} of rows{of_whom} are decided; at most {float(level.error):.4g} of "
                f"these are wrong ({each})."
            )
        return " ".join(words)

    def __repr__(self) -> str:
        if not self.is_one:
            return f"AcceptanceThreshold({len(self.levels)} groups, assurance={self.assurance:g})"
        (level,) = self.levels.values()
        what = f"above {level.value!r}: {level.rows} of {level.n} rows"
        return f"AcceptanceThreshold({what}, error={float(level.error):g}, assurance={self.assurance:g})"

    def save(self, path: str | Path) -> None:
        """Write the threshold to one file that :func:`load` reads; a confidence of your own must be passed again."""
        from aptset.calibration.stored_acceptance import write_threshold

        write_threshold(path, self)


def _above(confidence: Floats, u: Floats, level: Level) -> NDArray[np.bool_]:
    act: NDArray[np.bool_] = (confidence > level.value) | ((confidence == level.value) & (u > level.u))
    return act
