"""Calibration scores: the face for people who only have probabilities."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from aptset.calibration.answers import AnsweringCalibration
from aptset.calibration.merging import merged
from aptset.conformal.importance import Weighted, effective_in_words, refuse_weighted
from aptset.core.overlapping import refuse_overlapping
from aptset.core.tables import html_table
from aptset.core.validate import check_alpha
from aptset.kernels.formula import Floats

if TYPE_CHECKING:
    from datetime import timedelta
    from pathlib import Path

    from aptset.metrics.monitor import CoverageMonitor


@dataclass(frozen=True, repr=False, eq=False)
class Calibration(AnsweringCalibration):
    """Calibration scores, ready to turn new probabilities into prediction sets. Made by :func:`calibrate`.

    Attributes
    ----------
    classes : array
        The label of each column of probabilities.
    conformity : score
        The score that was calibrated.
    randomized : bool
        Whether u is drawn (keyed by the row) or 1 everywhere.
    chance : Chance
        How the u of the calibration rows arose.
    allow_empty : bool
        Whether sets may be empty by default.
    normalize : bool
        Whether rows are divided by their sums by default.
    parts : tuple of int
        A fingerprint of the rows of each calibration that was merged into this one.
    first_rows : tuple of int
        The number of the first row of each of them.

    Examples
    --------
    >>> import numpy as np, aptset
    >>> probabilities = np.random.default_rng(0).dirichlet([1, 1, 1], size=500)
    >>> labels = probabilities.argmax(axis=1)
    >>> calibration = aptset.calibrate(probabilities, labels, random_state=0)
    >>> calibration
    Calibration(n=500, 3 classes, Adaptive())
    >>> calibration.predict_set([[0.7, 0.2, 0.1]], alpha=0.1, ids=["row 1"])[0]
    array([0])
    """

    @property
    def randomized(self) -> bool:
        """Whether u is drawn or 1 everywhere."""
        return self.chance.randomized

    @property
    def n(self) -> int:
        """Number of calibration samples."""
        return self.held_out.n

    @property
    def scores(self) -> Floats:
        """The calibration scores, upward."""
        return self.held_out.scores

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [("calibration rows", f"{self.n:,}"), ("classes", len(self.classes)), ("score", self.conformity)]
        rows += [("groups", self.held_out.groups.kind), ("promise at alpha = 0.1", f"{self.guarantee(0.1):.4g}")]
        rows += [("effective size", size) for size in [effective_in_words(self.held_out)] if size]
        return html_table(type(self).__name__, (), rows)

    def __repr__(self) -> str:
        chance = "" if self.randomized else ", randomized=False"
        size = effective_in_words(self.held_out)
        size = f" ({size} effective)" if size else ""
        return f"Calibration(n={self.n}{size}, {len(self.classes)} classes, {self.conformity}{chance})"

    @property
    def effective_size(self) -> float | dict[Any, float]:
        """So many samples of equal weight would say as much about the coverage: W^2 / sum w^2; n without weights.

        With groups it is a dictionary with that of each. It is the n to think of when coverage varies from one
        calibration to the next, as an approximation for weights that have nothing to do with the scores. Where heavy
        rows are the hard ones it is too large: the standard deviation of coverage is then more than this n says, by a
        tenth to two fifths where weights and scores are moderately correlated.

        Examples
        --------
        >>> import aptset
        >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, weights=[1.0] * 10 + [3.0] * 10)
        >>> calibration.effective_size
        16.0
        """
        found, groups = self.held_out.effective_sizes.tolist(), self.held_out.groups
        return found[0] if groups.kind == "all" else dict(zip(groups.names, found, strict=True))

    def threshold(self, alpha: float = 0.1) -> float | dict[Any, float]:
        """Return the score up to which labels are in the set at this level; infinite if there are too few samples.

        With groups it is a dictionary with the threshold of each, and with ``label_weights`` one with that of each
        label. With ``weights`` every row has a threshold of its own, and there is nothing to return.
        """
        if isinstance(self.held_out, Weighted):
            return dict(zip(self.classes.tolist(), self.held_out.of_labels(check_alpha(alpha)), strict=True))
        found = self.held_out.thresholds(check_alpha(alpha)).tolist()
        groups = self.held_out.groups
        return found[0] if groups.kind == "all" else dict(zip(groups.names, found, strict=False))

    def guarantee(self, alpha: float = 0.1) -> float:
        """Return the coverage that Theorem 1 promises at this level (within each group, if there are groups).

        With weights it is promised if they are right; else the coverage is less by at most half their mean error, that
        is the mean of abs(used - right) over calibration rows, where both have the mean 1.
        """
        return float(1 - check_alpha(alpha))

    def merge(self, other: Calibration) -> Calibration:
        """Join with a calibration of the same score on other rows: as if all rows had been calibrated at once.

        Both must have been made with the same settings and the same integer ``random_state``. A calibration that was
        merged before is refused, since its rows would count twice, and with it one whose rows have the same content,
        labels and u as other rows; rows that are in both otherwise are not noticed. Where rows come more than once,
        give each shard a ``first_row`` of its own (or ids): copies in shards that start at the same row share their
        chance, and less is known than n says. Weights of both must have one constant.
        """
        return merged(self, other)

    def monitor(
        self, alpha: float = 0.1, alarm: float = 100.0, *, mature: int | timedelta | None = None
    ) -> CoverageMonitor:
        """Return a monitor that tells whether sets at this level still cover as they should, while they are in use.

        Feed it with ``monitor.update(sets.covers(labels))`` in the order of prediction, or with the number of each
        prediction in any order (and with the groups of the rows, if there are groups: the labels themselves for
        ``groups="label"``). ``mature`` is how long a label is waited for: see :class:`CoverageMonitor`.
        """
        refuse_overlapping(self.held_out.groups.kind, "monitor", "Watch one group with a calibration of its own.")
        refuse_weighted(self.held_out, "a monitor counts misses by a law that does not hold with weights")
        from aptset.metrics.monitor import CoverageMonitor  # with figures and files, which sets do not need

        self.threshold(alpha)  # of a level that it knows
        sizes = self.held_out.size_of_group
        return CoverageMonitor(self.n if self.held_out.groups.kind == "all" else sizes, alpha, alarm, mature=mature)

    def save(self, path: str | Path) -> None:
        """Write the calibration to one file that :func:`load` reads; opening it runs no code.

        A score of your own is saved by its name, "module:object", and its settings if it is a dataclass.
        The file is replaced whole: a kill at any moment leaves the old one or the new one.
        """
        from aptset.calibration.storage import write_calibration  # half of what `calibrate` has to load

        write_calibration(path, {field.name: getattr(self, field.name) for field in fields(self)})
