"""Capital that is bet on more misses, a little of it anew every 32 rows: long quiet costs little, and deafens nobody.

What is not bet yet is released ever more slowly: before block b of 32 rows one part in 2 b + 32 of it goes to the
bettors, in equal shares. After t rows about sqrt(512 / t) of it is left, so that the bets that start in any block begin
with about 1 / t^1.5 of the capital: the logarithm of t is what long quiet costs, where releasing at a constant rate
would cost t itself. Every part of this is fair at the odds of the urn, so the whole is a martingale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import exp, inf, ldexp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.levels import rank_at
from aptset.core.store import Tensors
from aptset.kernels.formula import Floats

Counts = NDArray[np.int64]


_URNS_AT_ONCE = 1024  # rows of no known group


class Expected(NamedTuple):
    """The least and the largest chance of a miss that rows can have; one array where all earlier rows are known."""

    least: Floats
    most: Floats

    def of_rows(self, start: int, stop: int) -> Expected:
        """Return those of some rows."""
        least = self.least[start:stop]
        return Expected(least, least if self.most is self.least else self.most[start:stop])


class Urns:
    """Rows and misses of each group since its calibration on n rows.

    ``first`` is n + 1 - k, how many of n + 1 equally likely places of a new row are misses; 0 if every label is in.
    ``unknown`` counts rows of a group whose labels did not come, ``nowhere`` those of which not even the group is
    known. Each may have been a hit or a miss: the chance of the next miss is known up to that.
    """

    def __init__(self, sizes: Mapping[Any, int], level: Fraction) -> None:
        self.number_of = {name: number for number, name in enumerate(sizes)}
        self.n: Counts = np.array(list(sizes.values()), dtype=np.int64)
        ranks = [rank_at(size, level) for size in sizes.values()]
        places = [n + 1 - rank if rank <= n else 0 for n, rank in zip(sizes.values(), ranks, strict=True)]
        self.first: Counts = np.array(places, dtype=np.int64)
        self.rows, self.misses, self.unknown = (np.zeros_like(self.n) for _ in range(3))
        self.nowhere, self.n_unknown = 0, 0

    def counts(self) -> Counts:
        """Return what a file keeps of each group: n, rows, misses and rows without labels."""
        return np.column_stack([self.n, self.rows, self.misses, self.unknown])

    def restore(self, counts: Counts, nowhere: int) -> None:
        """Go on from counts that were kept."""
        for own, kept in zip((self.rows, self.misses, self.unknown), counts.T[1:], strict=True):
            own[:] = kept
        self.nowhere, self.n_unknown = nowhere, nowhere + sum(self.unknown.tolist())

    @property
    def expected(self) -> dict[Any, float]:
        """The chance that the next row of each group is missed; rows without labels are left out."""
        share = (self.first + self.misses) / (self.n + 1 + self.rows)
        chances = np.where(self.first > 0, share, 0.0).tolist()
        return dict(zip(self.number_of, chances, strict=True))

    def steady(self, alarm: float) -> Floats:
        """Return a rate of misses for each group; calibrations exceed any of them in 1 of 4 ``alarm`` cases at most.

        The rate of a calibration follows the law Beta(first, n + 1 - first).
        """
        from scipy.special import betaincinv  # only monitors that give rows up need it

        first = np.maximum(self.first, 1)
        share = max(1 / (4 * alarm * len(first)), 1e-300)
        return np.where(self.first > 0, 1.0 - betaincinv(self.n + 1 - first, first, share), 0.0)

    def draw_once(self, number: int, is_miss: bool) -> float:
        """Take in one row where all are known: what :meth:`draw` does, and faster for one."""
        first, misses, rows = int(self.first[number]), int(self.misses[number]), int(self.rows[number])
        self.rows[number], self.misses[number] = rows + 1, misses + is_miss
        return (first + misses) / (int(self.n[number]) + 1 + rows) if first else 0.0

    def draw(self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> Expected:
        """Take in rows of these groups; return the chance of a miss just before each, 0 where none can be.

        A row of no known group has the number -1.
        """
        changes = np.flatnonzero(np.diff(numbers < 0)) + 1
        of_parts = []
        for start, stop in pairwise([0, *changes.tolist(), len(numbers)]):
            if numbers[start] < 0:
                of_parts.append(self._draw_of_nobody(stop - start))
            else:
                part = slice(start, stop)
                of_parts.append(self._draw_of_groups(numbers[part], is_miss[part], is_known[part]))
        return of_parts[0] if len(of_parts) == 1 else Expected(*map(np.concatenate, zip(*of_parts, strict=True)))

    def _draw_of_groups(
        self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_], is_known: NDArray[np.bool_]
    ) -> Expected:
        order = np.argsort(numbers, kind="stable") if len(self.n) > 1 else np.arange(len(numbers))
        group = numbers[order]
        of_groups = np.bincount(numbers, minlength=len(self.n))
        starts = np.cumsum(of_groups) - of_groups
        stops = starts + of_groups
        misses, unknown = (np.concatenate([[0], np.cumsum(flags[order])]) for flags in (is_miss, ~is_known))
        before = np.arange(len(numbers)) - starts[group]
        missed = self.first[group] + self.misses[group] + misses[:-1] - misses[starts][group]
        doubted = self.nowhere + self.unknown[group] + unknown[:-1] - unknown[starts][group]
        total = self.n[group] + 1 + self.nowhere + self.unknown[group] + self.rows[group] + before
        can_miss, least = self.first[group] > 0, np.empty(len(numbers))
        least[order] = np.where(can_miss, missed / total, 0.0)
        most = least if not doubted.any() else np.empty(len(numbers))
        if most is not least:
            most[order] = np.where(can_miss, (missed + doubted) / total, 0.0)
        new_unknown = unknown[stops] - unknown[starts]
        self.rows += of_groups - new_unknown
        self.unknown += new_unknown
        self.n_unknown += int(unknown[-1])
        self.misses += misses[stops] - misses[starts]
        return Expected(least, most)

    def _draw_of_nobody(self, n_rows: int) -> Expected:
        """Take in rows that may be of any group: what they can have lies within what any group can."""
        can_miss = self.first > 0
        missed = (self.first + self.misses)[can_miss, None]
        total, unknown = (self.n + 1 + self.rows + self.unknown)[can_miss, None], self.unknown[can_miss, None]
        least, most = np.empty(n_rows), np.empty(n_rows)
        for start in range(0, n_rows, _URNS_AT_ONCE):
            nowhere = self.nowhere + np.arange(start, min(start + _URNS_AT_ONCE, n_rows))
            part = slice(start, start + _URNS_AT_ONCE)
            least[part] = (missed / (total + nowhere)).min(axis=0)
            most[part] = ((missed + unknown + nowhere) / (total + nowhere)).max(axis=0)
        self.nowhere, self.n_unknown = self.nowhere + n_rows, self.n_unknown + n_rows
        return Expected(least, most)


class Rate(Urns):
    """Rows that are wrong with one known probability at most, whatever came before: there is no calibration to know."""

    def __init__(self, level: Fraction) -> None:
        super().__init__({None: 0}, level)
        self.first[:], self.rate = 1, float(level)

    @property
    def expected(self) -> dict[Any, float]:
        """The probability that is allowed."""
        return {None: self.rate}

    def draw_once(self, number: int, is_miss: bool) -> float:
        """Take in one row."""
        super().draw_once(number, is_miss)
        return self.rate

    def draw(self, numbers: NDArray[np.intp], is_miss: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> Expected:
        """Take in rows."""
        super().draw(np.zeros_like(numbers), is_miss, is_known)
        rates = np.full(len(numbers), self.rate)
        return Expected(rates, rates)


def at_rates(rates: Floats, numbers: NDArray[np.intp]) -> Expected:
    """Return rates of the groups of rows; of a row of no known group the least and the largest that one has."""
    can_miss = rates[rates > 0]
    least, most = np.append(rates, can_miss.min()), np.append(rates, can_miss.max())  # -1 is the last
    return Expected(least[numbers], most[numbers])


TIMES = (1.25, 1.5, 2.0, 3.0, 5.0)  # alpha: the rates of misses that are bet on
BLOCK = 32  # rows between two releases
_HIGHEST_RATE = 0.95
_HIGHEST_ODDS = 2.0**10  # a block of wins stays a number
_FAR = 300  # stakes beyond 2 to this power are scaled
_AT_ONCE = 128  # blocks: what fits into a cache
_MOST_POINTS = 4096  # of the path that are kept


class Evidence(NamedTuple):
    """The capital after each row, as numbers that stand for these times 2 to the power 300 times the exponents."""

    numbers: Floats
    exponents: NDArray[np.int64]


@dataclass
class Capital:
    """What is kept, what each bettor had when the block began, and by how much each has multiplied it since."""

    kept: float = 1.0
    stakes: list[float] = field(default_factory=lambda: [0.0] * len(TIMES))
    won: list[float] = field(default_factory=lambda: [1.0] * len(TIMES))
    exponent: int = 0  # stakes stand for these times 2^300 to this power; what is kept stands for itself

    def numbers(self) -> list[float]:
        """Return what a file keeps beside the exponent."""
        return [self.kept, *self.stakes, *self.won]

    @classmethod
    def of_numbers(cls, numbers: list[float], exponent: int) -> Capital:
        """Return capital that was kept."""
        kept, *bets = numbers
        return cls(kept, bets[: len(TIMES)], bets[len(TIMES) :], exponent)

    @property
    def evidence(self) -> Evidence:
        """All capital that there is now."""
        return Evidence(np.array([self.number]), np.array([self.exponent]))

    @property
    def number(self) -> float:
        """All capital, as a number that stands for itself times 2 to the power 300 times the exponent."""
        number = ldexp(self.kept, -_FAR * self.exponent)
        for stake, won in zip(self.stakes, self.won, strict=True):
            number += stake * won
        return number

    def bet_once(self, row: int, expected: float, is_miss: bool, alpha: float) -> Evidence:
        """Bet on one row: what :meth:`bet` does, in the same operations, and faster for one."""
        if row % BLOCK == 0:
            self._release(row // BLOCK)
            self.won = [1.0] * len(TIMES)
        if expected:
            highest = (min(times * alpha, _HIGHEST_RATE) for times in TIMES)
            rates = [max(expected, min(rate, _HIGHEST_ODDS * expected)) for rate in highest]
            odds = [rate / expected if is_miss else (1.0 - rate) / (1.0 - expected) for rate in rates]
            self.won = [won * factor for won, factor in zip(self.won, odds, strict=True)]
        return self.evidence

    def bet(self, row: int, expected: Expected, is_miss: NDArray[np.bool_], alpha: float) -> Evidence:
        """Bet on the rows from ``row`` on, whose misses have these chances; return the capital after each.

        Rows that are given one by one and rows that are given at once go through the same operations.
        """
        capitals = []
        start = 0
        while start < len(is_miss):
            stop = min(len(is_miss), start + _AT_ONCE * BLOCK - (row + start) % BLOCK)
            odds = _odds(expected.of_rows(start, stop), is_miss[start:stop], alpha)
            capitals.append(self._bet_blocks(row + start, odds))
            start = stop
        return Evidence(*(np.concatenate(parts) for parts in zip(*capitals, strict=True)))

    def _bet_blocks(self, row: int, odds: Floats) -> Evidence:
        """Go on with the block that is open, if one is, and with those behind it."""
        before = row % BLOCK
        n_blocks = -(-(before + odds.shape[1]) // BLOCK)
        grown = np.ones((len(TIMES), n_blocks * BLOCK))
        grown[:, before : before + odds.shape[1]] = odds
        if before:
            grown[:, before - 1] = self.won
        of_blocks = grown.reshape(len(TIMES), n_blocks, BLOCK)
        np.multiply.accumulate(of_blocks, axis=2, out=of_blocks)
        stakes, kept, exponents = [], [], []
        for block, won in enumerate(of_blocks[:, :, -1].T.tolist()):
            if block or not before:
                self._release(row // BLOCK + block)
            self.won = won
            stakes.append(self.stakes)
            kept.append(ldexp(self.kept, -_FAR * self.exponent))
            exponents.append(self.exponent)
        numbers = np.repeat(np.array(kept)[:, None], BLOCK, axis=1)
        for stake, of_bettor in zip(np.array(stakes).T, of_blocks, strict=True):
            numbers += stake[:, None] * of_bettor
        columns = slice(before, before + odds.shape[1])
        return Evidence(numbers.ravel()[columns], np.repeat(np.array(exponents), BLOCK)[columns])

    def _release(self, block: int) -> None:
        """Close a block, and give the bettors of the next one their share of what was kept."""
        stakes = [stake * won for stake, won in zip(self.stakes, self.won, strict=True)]
        while max(stakes) > 2.0**_FAR:  # powers of two: nothing is rounded
            stakes, self.exponent = [stake * 2.0**-_FAR for stake in stakes], self.exponent + 1
        while self.exponent and max(stakes) < 1.0:
            stakes, self.exponent = [stake * 2.0**_FAR for stake in stakes], self.exponent - 1
        released = self.kept / (2 * block + BLOCK)
        share = ldexp(released / len(TIMES), -_FAR * self.exponent)
        self.stakes = [stake + share for stake in stakes]
        self.kept -= released


@dataclass
class Trail:
    """Evidence at no more than so many rows, every other point goes when there are too many; and its peak of all."""

    every: int = 1
    points: list[tuple[int, float, int]] = field(default_factory=list)
    log_peak: float = 0.0

    def tensors(self) -> Tensors:
        """Return what a file keeps beside the step."""
        return {"peak": np.array([self.log_peak]), "path": np.array(self.points, dtype=np.float64).reshape(-1, 3)}

    @classmethod
    def of_tensors(cls, every: int, tensors: Tensors) -> Trail:
        """Return a trail that was kept."""
        points = [(int(row), evidence, int(misses)) for row, evidence, misses in tensors["path"].tolist()]
        return cls(every, points, float(tensors["peak"][0]))

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows, the evidence after each, and the misses up to it."""
        rows, logs, misses = (
            (list(column) for column in zip(*self.points, strict=True)) if self.points else ([], [], [])
        )
        return {"row": rows, "evidence": [exp(min(log, 700.0)) for log in logs], "misses": misses}

    def add(self, row: int, evidence: Evidence, misses: Counts) -> None:
        """Keep the points that are kept among rows from ``row`` on, counted from 1; misses are those up to each."""
        at = -row % self.every
        while at < len(misses):
            number, exponent = float(evidence.numbers[at]), int(evidence.exponents[at])
            self._keep(row + at, log_of(number, exponent), int(misses[at]))
            at += self.every - (row + at) % self.every  # which may have grown
        last = 0
        for stop in [*(np.flatnonzero(np.diff(evidence.exponents)) + 1).tolist(), len(misses)]:  # of one exponent each
            highest, exponent = float(evidence.numbers[last:stop].max()), int(evidence.exponents[last])
            self.log_peak, last = max(self.log_peak, log_of(highest, exponent)), stop

    def _keep(self, row: int, log_evidence: float, misses: int) -> None:
        self.points.append((row, log_evidence, misses))
        if len(self.points) > _MOST_POINTS:
            self.every *= 2
            self.points = [point for point in self.points if point[0] % self.every == 0]


def _odds(expected: Expected, is_miss: NDArray[np.bool_], alpha: float) -> Floats:
    """Return by how much each row multiplies what each bettor has; 1 where no miss is expected, as nothing is bet.

    Where the chance of a miss is only known to lie between two, the one is taken that gives least. A miss gives less
    the more it was expected. A hit gives least at the chance from which on odds are no longer capped, or at the end of
    the range that is nearest to it.
    """
    highest = np.minimum(np.array(TIMES) * alpha, _HIGHEST_RATE)[:, None]
    chances = expected.most
    if expected.least is not expected.most:
        chances = np.where(is_miss, chances, np.clip(highest / _HIGHEST_ODDS, expected.least, expected.most))
    rates = np.maximum(chances, np.minimum(highest, _HIGHEST_ODDS * chances))
    with np.errstate(invalid="ignore"):
        return np.where(chances == 0.0, 1.0, np.where(is_miss, rates / chances, (1.0 - rates) / (1.0 - chances)))


def joined(evidence: Evidence, steady: Evidence, alarm: float) -> Evidence:
    """Return the mean of the evidence against the urn and of that against a steady rate of misses.

    The steady rate is one that a calibration exceeds with probability 1 / (4 alarm). Half of the capital bets against
    it, and the other half is lent to the calibrations that do exceed it: they can cost no more than 2 alarm.
    """
    with np.errstate(over="ignore"):
        lent = np.minimum(0.5 * np.ldexp(steady.numbers, _FAR * steady.exponents), 2.0 * alarm)
    return Evidence(0.5 * evidence.numbers + np.ldexp(0.5 * lent, -_FAR * evidence.exponents), evidence.exponents)


def log_of(number: float, exponent: int) -> float:
    """Return the logarithm of what a number and its exponent stand for."""
    return log(number) + exponent * (_FAR * log(2.0))


def reaches(evidence: Evidence, alarm: float) -> NDArray[np.bool_]:
    """Tell after which rows the capital is at least so much."""
    return np.asarray(evidence.numbers >= np.ldexp(alarm, -_FAR * evidence.exponents))


def exp_of(log_evidence: float) -> float:
    """Return what a logarithm stands for, infinity where no float does."""
    return exp(log_evidence) if log_evidence < 700 else inf


def in_words(log_evidence: float) -> str:
    """Return evidence in three digits, or as a power of e."""
    return f"{exp(log_evidence):.3g}" if log_evidence < 200 else f"e^{log_evidence:.0f}"
