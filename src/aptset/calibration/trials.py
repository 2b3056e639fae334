"""Choose a score on rows that then calibrate nothing: the promise stays exact, whatever was chosen.

The rows that choose are drawn without a look at them, and are used for nothing else. Given the choice, the rows that
calibrate and the new ones are as exchangeable as they were before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.matrix import check_rows
from aptset.core.row_groups import Membership, plural
from aptset.kernels.counting import rank_at, size_needed
from aptset.kernels.formula import Formula
from aptset.kernels.membership import masks
from aptset.kernels.rows import Rows, label_scores
from aptset.scores import SAPS, Adaptive, Homogeneous, Margin, Rank, Regularized, Score, Tempered
from aptset.scores.conformity import formula_of

MOST_ROWS = 4000  # more choose no better, and cost time and calibration rows


POWERS = (0.5, 0.75, 1.0, 1.5, 2.0)


def usual_candidates() -> tuple[Score, ...]:
    """Return what is tried by default; the first is the reference, which the others must not fall behind."""
    scores: list[Score] = [Adaptive(), Homogeneous(), Margin()]
    scores += [SAPS(penalty) for penalty in (0.02, 0.1, 0.5)]
    scores += [Regularized(penalty, free) for penalty in (0.001, 0.01, 0.1, 0.5) for free in (1, 5)]
    tempered = [Tempered(score, power) for power in POWERS if power != 1.0 for score in scores]
    return (*scores, Rank(), *tempered)


@dataclass(frozen=True)
class Tuning:
    """How to choose: at which level, on which share of the rows, among which scores, with how much slack."""

    alpha: Fraction = Fraction(1, 10)
    share: float = 0.2
    slack: float = 0.01
    candidates: tuple[Score, ...] = ()

    def reserve(
        self, n_rows: int, generator: np.random.Generator, clusters: Membership | None = None
    ) -> NDArray[np.bool_]:
        """Draw the rows that choose, by their positions alone; with clusters, all rows of those that are drawn."""
        if clusters is not None:
            numbers = clusters.numbers()
            return self._drawn(int(numbers.max()) + 1, generator, plural(clusters.noun))[numbers]
        return self._drawn(n_rows, generator, "rows")

    def _drawn(self, n_rows: int, generator: np.random.Generator, what: str) -> NDArray[np.bool_]:
        """Draw some of so many rows, or clusters."""
        size = min(round(self.share * n_rows), MOST_ROWS)
        needed = 2 * size_needed(self.alpha)
        if size < needed:
            raise ValueError(
                f"share must reserve at least {needed} {what} to choose a score at alpha={float(self.alpha):g}; "
                f"{self.share:g} of {n_rows} {what} is {size}. Pass more rows, or name a score as conformity."
            )
        reserved = np.zeros(n_rows, dtype=np.bool_)
        reserved[generator.choice(n_rows, size, replace=False)] = True
        return reserved


@dataclass(frozen=True)
class Trial:
    """A score that was tried on the reserved rows.

    Attributes
    ----------
    conformity : score
        The score.
    mean_size : float
        Mean size of its sets.
    class_shortfall : float
        By how much the coverage of a class falls short of 1 - alpha, on average over the classes (0 where it does not).
    is_allowed : bool
        Whether its classes fall short by no more than those of the reference, up to the slack.
    """

    conformity: Score
    mean_size: float
    class_shortfall: float
    is_allowed: bool = True


def choose(rows: Rows, columns: NDArray[np.int64], tuning: Tuning, name: str) -> tuple[Score, tuple[Trial, ...]]:
    """Return the score with the smallest sets among those whose classes are covered as well as the reference's."""
    candidates = tuning.candidates or usual_candidates()
    plain = Formula(Adaptive().weights)
    first_bad = label_scores(replace(rows, formula=plain), columns).first_bad
    check_rows(rows.probabilities, first_bad, name, rows.normalize, rows.tolerance)
    by_power: dict[float, Rows] = {}
    tried = []
    for candidate in candidates:
        formula = formula_of(candidate)
        if formula.power not in by_power:
            by_power[formula.power] = replace(rows, formula=formula).block(0, len(rows))
        raised = replace(by_power[formula.power], formula=replace(formula, power=1.0))
        tried.append(_try(candidate, raised, columns, tuning.alpha, name))
    bar = tried[0].class_shortfall + tuning.slack
    trials = tuple(replace(trial, is_allowed=trial.class_shortfall <= bar) for trial in tried)
    best = min((trial for trial in trials if trial.is_allowed), key=lambda trial: trial.mean_size)
    return best.conformity, trials


def _try(candidate: Score, rows: Rows, columns: NDArray[np.int64], alpha: Fraction, name: str) -> Trial:
    """Calibrate on every other row and judge the rest, then the other way round."""
    covered, sizes = np.empty(len(rows), dtype=np.bool_), np.empty(len(rows))
    for first in (0, 1):
        half, others = slice(first, None, 2), slice(1 - first, None, 2)
        scores = label_scores(some_rows(rows, half), columns[half])
        threshold = np.sort(scores.scores)[rank_at(len(scores.scores), alpha) - 1]
        flags, first_bad = masks(some_rows(rows, others), np.array([[threshold]]))
        for which, bad in ((half, scores.first_bad), (others, first_bad)):  # they were good: somebody writes to them
            check_rows(rows.probabilities[which], bad, name, rows.normalize, rows.tolerance)
        sizes[others] = flags.sum(axis=1)
        covered[others] = np.take_along_axis(flags, columns[others, None], axis=1)[:, 0]
    count = np.bincount(columns)
    coverage = np.bincount(columns, weights=covered)[count > 0] / count[count > 0]
    shortfall = np.maximum(float(1 - alpha) - coverage, 0.0).mean()
    return Trial(candidate, float(sizes.mean()), float(shortfall))


def some_rows(rows: Rows, which: Any) -> Rows:
    """Return some rows, with what goes with them."""
    seeds = None if rows.seeds is None else rows.seeds[which]
    return replace(
        rows, probabilities=rows.probabilities[which], seeds=seeds, u=None if rows.u is None else rows.u[which]
    )
