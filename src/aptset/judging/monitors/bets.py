"""Capital that is bet on more misses, a little of it anew every 32 rows: long quiet costs little, and deafens nobody.

What is not bet yet is released ever more slowly: before block b of 32 rows one part in 2 b + 32 of it goes to the
bettors, in equal shares. After t rows about sqrt(512 / t) of it is left, so that the bets that start in any block begin
with about 1 / t^1.5 of the capital: the logarithm of t is what long quiet costs, where releasing at a constant rate
would cost t itself. Every part of this is fair at the odds of the urn, so the whole is a martingale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ldexp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.judging.monitors.urns import Expected
from aptset.kernels.formula import Floats

TIMES = (1.25, 1.5, 2.0, 3.0, 5.0)  # alpha: the rates of misses that are bet on
BLOCK = 32  # rows between two releases
_HIGHEST_RATE = 0.95
_HIGHEST_ODDS = 2.0**10  # a block of wins stays a number
_FAR = 300  # stakes beyond 2 to this power are scaled
_AT_ONCE = 128  # blocks: what fits into a cache


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

    @property
    def evidence(self) -> Evidence:
        """All capital that there is now."""
        return Evidence(np.array([self.number]), np.array([self.exponent]))

    def stored(self) -> dict[str, Any]:
        """Return what a file keeps."""
        hexed = {name: [number.hex() for number in getattr(self, name)] for name in ("stakes", "won")}
        return {"kept": self.kept.hex(), **hexed, "exponent": self.exponent}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> Capital:
        """Return the capital that a file keeps."""
        stakes, won = ([float.fromhex(text) for text in stored[name]] for name in ("stakes", "won"))
        return cls(float.fromhex(stored["kept"]), stakes, won, stored["exponent"])

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
        found = []
        start = 0
        while start < len(is_miss):
            stop = min(len(is_miss), start + _AT_ONCE * BLOCK - (row + start) % BLOCK)
            odds = _odds(expected.of_rows(start, stop), is_miss[start:stop], alpha)
            found.append(self._bet_blocks(row + start, odds))
            start = stop
        return Evidence(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

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
        mine = slice(before, before + odds.shape[1])
        return Evidence(numbers.ravel()[mine], np.repeat(np.array(exponents), BLOCK)[mine])

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
