"""Choose a score on rows that then calibrate nothing: the promise stays exact, whatever was chosen.

The rows that choose are drawn without a look at them, and are used for nothing else. Given the choice, the rows that
calibrate and the new ones are as exchangeable as they were before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.calibration import Calibration
from aptset.calibration.labelled_rows import LabelledRequest, Scored, check_labelled, finish
from aptset.calibration.request import NAME, scores_of_labels
from aptset.core import validate
from aptset.core.groupings import LabelBands, Overlapping
from aptset.core.labels import Coded
from aptset.core.levels import rank_at, size_needed
from aptset.core.matrix import check_rows
from aptset.core.row_groups import Membership, plural
from aptset.kernels.formula import Formula
from aptset.kernels.membership import masks
from aptset.kernels.rows import Rows, label_scores
from aptset.scores import SAPS, Adaptive, Homogeneous, Margin, Rank, Regularized, Score, Tempered
from aptset.scores.conformity import AUTO, check_conformity, for_classes, formula_of

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
        scores = label_scores(rows.some(half), columns[half])
        threshold = np.sort(scores.scores)[rank_at(len(scores.scores), alpha) - 1]
        flags, first_bad = masks(rows.some(others), np.array([[threshold]]))
        for which, bad in ((half, scores.first_bad), (others, first_bad)):  # they were good: somebody writes to them
            check_rows(rows.probabilities[which], bad, name, rows.normalize, rows.tolerance)
        sizes[others] = flags.sum(axis=1)
        covered[others] = np.take_along_axis(flags, columns[others, None], axis=1)[:, 0]
    count = np.bincount(columns)
    coverage = np.bincount(columns, weights=covered)[count > 0] / count[count > 0]
    shortfall = np.maximum(float(1 - alpha) - coverage, 0.0).mean()
    return Trial(candidate, float(sizes.mean()), float(shortfall))


def score_chosen(
    probabilities: Any, labels: Any, request: LabelledRequest, tuning: Tuning
) -> tuple[Scored, tuple[Trial, ...], NDArray[np.bool_]]:
    """Choose the score on some of the rows and score the others by it; return what was tried and which rows chose."""
    if request.votes is not None:
        raise ValueError(
            "conformity must name a score where votes are passed; got 'auto', which judges scores by one label per "
            "row. Choose by aptset.tune on other rows."
        )
    labelled = check_labelled(probabilities, labels, request._replace(conformity=Adaptive()), may_stay=False)
    rows, columns = labelled.rows(), labelled.columns
    assert isinstance(rows, Rows)
    n_copies = scores_of_labels(rows, columns).n_copies
    reserved = tuning.reserve(len(labelled.matrix), labelled.generator, labelled.clusters)
    tuning = replace(tuning, candidates=tuple(for_classes(score, labelled.classes) for score in tuning.candidates))
    score, trials = choose(rows.some(reserved), columns[reserved], tuning, NAME)
    kept, formula = ~reserved, formula_of(score)
    labelled = replace(
        labelled,
        score=score,
        formula=formula,
        columns=columns[kept],
        values=_some(labelled.values, kept),
        row_weights=None if labelled.row_weights is None else labelled.row_weights.some(kept),
        clusters=None if labelled.clusters is None else labelled.clusters.some(kept),
    )
    scored = label_scores(replace(rows.some(kept), formula=formula), labelled.columns)
    return finish(labelled, scored, n_copies), trials, reserved


def _some(values: Any, rows: NDArray[np.bool_]) -> Any:
    """Return the groups of some rows."""
    if values is None:
        return None
    if isinstance(values, Coded):
        return values.some(rows)
    return [values[row] for row in np.flatnonzero(rows).tolist()]


@dataclass(frozen=True)
class Tuned:
    """What :func:`tune` chose.

    Attributes
    ----------
    calibration : Calibration
        The chosen score, calibrated on the rows that did not choose it.
    trials : tuple of Trial
        Every score that was tried, with the mean size of its sets and how well it covered the classes.
    reserved : array of bool
        The rows that chose. They must calibrate nothing.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([1, 1, 1], size=500)
    >>> tuned = aptset.tune(probabilities, probabilities.argmax(axis=1), candidates=["aps", "lac"], random_state=0)
    >>> len(tuned.trials), int(tuned.reserved.sum()), tuned.calibration.n
    (2, 100, 400)
    """

    calibration: Calibration
    trials: tuple[Trial, ...]
    reserved: NDArray[np.bool_]

    @property
    def conformity(self) -> Score:
        """The score that was chosen."""
        return self.calibration.conformity

    def __repr__(self) -> str:
        return f"Tuned({self.conformity}, of {len(self.trials)} scores on {int(self.reserved.sum())} rows)"


def tune(
    probabilities: Any,
    labels: ArrayLike,
    *,
    alpha: float = 0.1,
    candidates: Sequence[Any] | None = None,
    share: float = 0.2,
    slack: float = 0.01,
    classes: ArrayLike | None = None,
    groups: str | LabelBands | Overlapping | ArrayLike | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    u: ArrayLike | None = None,
    ids: Any = None,
    random_state: Any = None,
) -> Tuned:
    """Choose the score with the smallest sets on a share of the rows, and calibrate it on the others.

    The rows that choose are drawn at random and calibrate nothing, so the promise of the calibration is that of any
    other: at least 1 - alpha, exactly, whatever was chosen. On them, every candidate is calibrated on one half and
    judged on the other, both ways. The smallest mean size wins among candidates whose classes are covered about as well
    as under the first one, which by default is the paper's score. The rows that choose are lost to calibration: with
    few rows that may cost more labels than the choice saves.

    Parameters
    ----------
    probabilities, labels
        As in :func:`calibrate`.
    alpha : float, default=0.1
        The level at which candidates are compared. The calibration serves every level.
    candidates : sequence of scores, optional
        Names, scores or functions. The first is the reference for the coverage of the classes. By default the scores
        of the library with several penalties, each on probabilities of five temperatures.
    share : float, default=0.2
        The share of the rows that choose (4,000 rows at most).
    slack : float, default=0.01
        How much more than under the reference the coverage of a class may fall short of 1 - alpha, on average.
    classes, groups, randomized, allow_empty, normalize, u, ids
        As in :func:`calibrate`. Candidates are compared without groups.
    random_state : None, int or numpy random generator, optional
        Decides which rows choose, and the key of the hash.

    Returns
    -------
    Tuned

    Examples
    --------
    >>> import numpy as np, aptset
    >>> generator = np.random.default_rng(0)
    >>> probabilities = generator.dirichlet(np.full(20, 0.2), size=2000)
    >>> labels = (generator.random((2000, 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    >>> tuned = aptset.tune(probabilities, labels, candidates=["aps", "lac", "topk"], random_state=0)
    >>> tuned
    Tuned(Homogeneous(), of 3 scores on 400 rows)
    >>> tuned.calibration
    Calibration(n=1600, 20 classes, Homogeneous())
    """
    validate.flag(allow_empty, "allow_empty")
    several = candidates or ()
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise TypeError(f"candidates must be a list; got {several!r}. For one pass [{several!r}].")
    chosen = tuple(check_conformity(candidate) for candidate in several)
    level, of_rows = validate.alpha(alpha), validate.share(share, "share", "the share of rows that calibrates")
    rule = "in [0, 1], a difference of coverages"
    tuning = Tuning(level, of_rows, validate.number(slack, "slack", rule, lambda part: 0 <= part <= 1), chosen)
    settings = (AUTO, classes, groups, randomized, normalize, u, ids, random_state)
    request = LabelledRequest(*settings, allow_empty=allow_empty)
    scored, trials, reserved = score_chosen(probabilities, labels, request, tuning)
    return Tuned(scored.calibration(), trials, reserved)
