"""Choose a score on a share of the rows, calibrate it on the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset.calibration.calibrate import calibration_of
from aptset.calibration.calibration import Calibration
from aptset.calibration.labelled_rows import LabelledRequest, score_labels
from aptset.calibration.trials import Trial, Tuning
from aptset.core import validate
from aptset.core.bands import LabelBands
from aptset.core.overlapping import Overlapping
from aptset.scores import Score
from aptset.scores.conformity import AUTO, check_conformity


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
    scored = score_labels(probabilities, labels, LabelledRequest(*settings, tuning=tuning))
    assert scored.reserved is not None
    return Tuned(calibration_of(scored, allow_empty, normalize), scored.trials, scored.reserved)
