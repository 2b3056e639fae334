"""The adaptive level of one group, and the scores that it is held against: both move with every label.

Adaptive conformal inference: Gibbs and Candès 2021, "Adaptive conformal inference under distribution shift".

The level after t rows with m misses is alpha + step (t alpha - m), whatever their order. It is kept as a whole number
of the smallest unit that both numbers are made of, so nothing is ever rounded, and the rank is exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import inf
from numbers import Real
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from aptset.calibration.calibration import Calibration
from aptset.core import validate
from aptset.kernels.formula import Floats


class LevelSettings(NamedTuple):
    """The settings of an adaptive level, which all groups share: target alpha, step size, window of scores."""

    alpha: Fraction
    step: Fraction
    window: int | None


class Past(NamedTuple):
    """What was in force in a group from some moment on: a threshold, when so many labels of the group were known."""

    moment: int
    threshold: float
    rows: int


class AdaptiveLevel:
    """The adaptive level of one group, with its counts of rows and misses and its scores.

    Parameters
    ----------
    scores : iterable of float
        In the order of arrival. Without a window they stay as they are, and new ones are not kept.
    """

    def __init__(
        self, settings: LevelSettings, scores: Iterable[float], rows: int = 0, misses: int = 0, delay: int = 0
    ) -> None:
        self.settings, self.rows, self.misses, self.delay = settings, rows, misses, delay
        self.recent = deque(scores, maxlen=settings.window)
        self._ordered: list[float] = sorted(self.recent)
        self._unit = settings.alpha.denominator * settings.step.denominator
        self._up = settings.alpha.numerator * settings.step.numerator
        self._down = settings.alpha.denominator * settings.step.numerator
        self._level = settings.alpha.numerator * settings.step.denominator + rows * self._up - misses * self._down

    @property
    def level(self) -> Fraction:
        """The level that is in force."""
        return Fraction(self._level, self._unit)

    @property
    def threshold(self) -> float:
        """The score up to which labels are in the set now: infinite for every label, minus infinity for none."""
        n = len(self._ordered)
        rank = n + 1 - self._level * (n + 1) // self._unit  # ceil((1 - level)(n + 1))
        return inf if rank > n else -inf if rank < 1 else self._ordered[rank - 1]

    @property
    def bound(self) -> float:
        """How far the share of misses can be from alpha, whatever came; infinite before the first row."""
        alpha, step, _ = self.settings
        if not step or not self.rows:
            return inf
        return float((max(alpha, 1 - alpha) + step * (1 + self.delay)) / (step * self.rows))

    def learn(self, scores: Sequence[float], issued: Sequence[Past | None]) -> None:
        """Take in the scores of true labels in the order in which they became known.

        A row without a set that was given counts as asked about just before its label came.
        """
        for score, threshold_then in zip(scores, issued, strict=True):
            if threshold_then is None:
                is_miss = score > self.threshold
            else:
                is_miss = score > threshold_then.threshold
                self.delay = max(self.delay, self.rows - threshold_then.rows)
            self.rows += 1
            self._level += self._up
            if is_miss:
                self.misses += 1
                self._level -= self._down
            if self.settings.window is not None:
                self._push(score)

    def learn_batch(self, scores: Floats, issued: Past) -> None:
        """Take in rows whose sets were given at once, by one threshold: the same as one by one, and faster."""
        n, misses = len(scores), int((scores > issued.threshold).sum())
        self.delay = max(self.delay, self.rows + n - 1 - issued.rows)
        self.rows, self.misses = self.rows + n, self.misses + misses
        self._level += n * self._up - misses * self._down
        if self.settings.window is None:
            return
        if n < len(self.recent) / 16:
            for score in scores.tolist():
                self._push(score)
        else:
            self.recent.extend(scores.tolist())
            self._ordered = np.sort(np.array(self.recent)).tolist()

    def _push(self, score: float) -> None:
        """Keep a score, and let the oldest go."""
        if len(self.recent) == self.settings.window:
            del self._ordered[bisect_left(self._ordered, self.recent[0])]
        self.recent.append(score)
        insort(self._ordered, score)


class ThresholdHistory:
    """The thresholds in force, and those of earlier moments by which sets were issued whose labels are still to come.

    A moment is the time between two updates. What a group had is noted when it changes, so that many groups and many
    sets that wait take the room of the labels between them, not of every group for every set.
    """

    def __init__(self, levels: Sequence[AdaptiveLevel], moment: int = 0) -> None:
        self.moment = moment
        self.thresholds: Floats = np.array([adaptive.threshold for adaptive in levels])
        self.past = [[Past(moment, adaptive.threshold, adaptive.rows)] for adaptive in levels]
        self._n_new, self._n_kept = 0, len(levels)

    def go_on(self, levels: Sequence[AdaptiveLevel], changed: Sequence[int]) -> None:
        """Begin a moment after some of the groups have learned."""
        self.moment += 1
        for number in changed:
            adaptive = levels[number]
            self.thresholds[number] = adaptive.threshold
            self.past[number].append(Past(self.moment, adaptive.threshold, adaptive.rows))
        self._n_new += len(changed)

    def to(self, number: int, moment: int) -> Past:
        """Return what rows of one group were given at a moment."""
        past = self.past[number]
        return past[bisect_right(past, moment, key=itemgetter(0)) - 1]

    def is_long(self, n_waiting: int) -> bool:
        """Tell whether as much was noted as there was to note before: then it is worth looking what can go."""
        return self._n_new > max(1024, self._n_kept, n_waiting)

    def forget(self, moments: Iterable[int]) -> None:
        """Keep what was in force at these moments, and now."""
        needed = np.unique(np.fromiter(moments, dtype=np.int64))
        for number, past in enumerate(self.past):
            starts = np.searchsorted(needed, [at.moment for at in past])
            is_needed = np.append(starts[1:] > starts[:-1], True).tolist()
            self.past[number] = [at for at, keep in zip(past, is_needed, strict=True) if keep]
        self._n_new, self._n_kept = 0, sum(map(len, self.past))


MOST = 2**53


def check_streamable(calibration: Any) -> Calibration:
    """Return a calibration whose scores are all there, under one model."""
    if not isinstance(calibration, Calibration):
        raise TypeError(
            f"calibration must be what aptset.calibrate returns, or calibration_ of a classifier with "
            f"calibration='split'; got {type(calibration).__name__}. Sets of several folds have no single threshold "
            "that could move."
        )
    held_out = calibration.held_out
    has_masses = held_out.is_weighted or held_out.clusters is not None
    if not held_out.folds or has_masses or held_out.groups.overlaps or held_out.groups.by_both:
        raise ValueError(
            "calibration must have stored its scores, one threshold for each group, and rows of equal "
            "weight; this one has not. Calibrate with aptset.calibrate, without weights, clusters, votes, "
            "overlapping groups, or groups of rows and labels at once."
        )
    return calibration


def check_step(step: Any) -> Fraction:
    """Return the exact decimal that the user wrote."""
    is_number = isinstance(step, Real | Decimal) and not isinstance(step, bool | np.bool_)
    is_signal = isinstance(step, Decimal) and step.is_snan()  # every use of it would raise
    if not is_number or is_signal or not 0 <= step < MOST:
        raise ValueError(
            f"step must be a number from 0 to 2^53: how far one miss moves the level; got {step!r}. 0.01 is usual."
        )
    return Fraction(step) if isinstance(step, Fraction | Decimal) else Fraction(str(step))


def check_window(window: Any) -> int | None:
    """Return how many scores are kept; None if those of the calibration stay."""
    if window is None:
        return None
    return check_count(window, "window", "500 is usual; None keeps those of the calibration")


def check_count(value: Any, name: str, way_out: str) -> int:
    """Return a whole number from 1 on."""
    return validate.whole(value, name, 1, "a whole number of rows, from 1 to 2^53", MOST - 1, f"{way_out}.")
