"""Scores of a label's own probability: one minus it, its distance from the largest other one, or over its prevalence.

- LAC (HCC, THR, hinge): Sadinle, Lei and Wasserman 2019, "Least ambiguous set-valued classifiers with bounded error
  levels".
- The margin: Johansson, Linusson, Löfström and Boström 2017, "Model-agnostic nonconformity functions for conformal
  classification".
- PAS: Ding, Fermanian and Salmon 2025, "Conformal prediction for long-tailed classification": the prevalence-adjusted
  softmax, with which rare labels get a fair cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import check_every_label, check_training_counts, plain_value
from aptset.kernels.formula import First, Floats, LinearScore, OwnMass, Places

# Spread over equal probabilities: small enough to leave different ones in their order, large enough that two million
# values still fit between 1/2 and 1/2 + TIE_NOISE in float64.
TIE_NOISE = 2.0**-32


@dataclass(frozen=True)
class Homogeneous:
    """One minus the probability of the label: the same cut for every row, equal ones in random order.

    The paper's competitor HCC; LAC in MAPIE, THR or LAC in TorchCP, hinge in crepes. Those leave ties as they are,
    which covers more than promised where probabilities repeat. Labels without mass share (1, 2].

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25]], [0], conformity="lac", randomized=False).scores
    array([0.25])
    """

    @property
    def weights(self) -> LinearScore:
        """The fast form."""
        return LinearScore(own=-1.0, constant=1.0 - TIE_NOISE, u=TIE_NOISE)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = -places.own / places.total + ((1.0 - TIE_NOISE) + TIE_NOISE * places.u)
        return np.where(places.own > 0.0, share, places.behind)


@dataclass(frozen=True)
class Margin:
    """The largest probability of another label minus the label's own: how far the label is from winning.

    From -1 (alone) to 1; equal margins in random order, labels without mass share (1, 2]. crepes and TorchCP have the
    same margin without the order of ties.

    Examples
    --------
    >>> import aptset
    >>> aptset.calibrate([[0.75, 0.25]] * 2, [0, 1], conformity="margin", randomized=False).scores
    array([-0.5,  0.5])
    """

    @property
    def weights(self) -> LinearScore:
        """The fast form."""
        first = First(own=-1.0, second=1.0, constant=-TIE_NOISE, u=TIE_NOISE)
        return LinearScore(own=-1.0, top=1.0, constant=-TIE_NOISE, u=TIE_NOISE, first=first)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        other = np.where(places.rank == 1.0, places.second, places.top)
        share = (other - places.own) / places.total + (TIE_NOISE * places.u - TIE_NOISE)
        return np.where(places.own > 0.0, share, places.behind)


@dataclass(frozen=True, repr=False)
class Prevalence:
    """One minus the probability of the label over its prevalence in training: for labels of which many are rare.

    A label y scores 1 - p_y pi_min / pi_y, where pi_y is the number of training rows of y plus one. The promise is that
    of any score: 1 - alpha over all rows. If the probabilities are right and belong to the proportions of ``counts``,
    no sets of that mean size have a larger macro coverage, the mean of the labels' coverages. A model that was
    balanced (``class_weight="balanced"``, rows sampled anew) says something else: take "lac" there. Equal scores come
    in random order and labels without mass share (1, 2], as in :class:`Homogeneous`, which this is where all labels
    are equally frequent.

    It has no order along a row, so that every label is scored.

    Parameters
    ----------
    counts : mapping
        How many *training* rows each label has: ``collections.Counter(y_train)``. Every label must be named, with 0 if
        it has none. Never counts of the calibration rows: the score must not know them.

    Examples
    --------
    >>> import aptset
    >>> score = aptset.Prevalence({"frequent": 79, "rare": 19})
    >>> aptset.calibrate([[0.75, 0.25]] * 2, ["frequent", "rare"], conformity=score, randomized=False,
    ...                  classes=["frequent", "rare"]).scores
    array([0.75  , 0.8125])
    """

    counts: Mapping[Any, int]

    def __post_init__(self) -> None:
        check_training_counts(self.counts)
        plain = {plain_value(label): int(count) for label, count in self.counts.items()}
        object.__setattr__(self, "counts", plain)

    def for_classes(self, classes: NDArray[Any]) -> "Prevalence":
        """Return the score of these classes, counts in the order of their columns."""
        counts = check_every_label(self.counts, classes, "counts", "Pass 0 for a label without training rows.")
        return replace(self, counts=dict(zip(classes.tolist(), counts, strict=True)))

    @cached_property
    def _factors(self) -> Floats:
        times = np.array(list(self.counts.values()), dtype=np.float64) + 1.0
        factors: Floats = times.min() / times
        return factors

    @cached_property
    def fast(self) -> OwnMass:
        """The same as the compiled loops take it."""
        return OwnMass(self._factors, 1.0 - TIE_NOISE, TIE_NOISE)

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        share = -(places.own * self._factors) / places.total + ((1.0 - TIE_NOISE) + TIE_NOISE * places.u)
        return np.where(places.own > 0.0, share, places.behind)

    def __hash__(self) -> int:
        return hash(frozenset(self.counts.items()))

    def __repr__(self) -> str:
        return f"Prevalence({len(self.counts)} labels, {sum(self.counts.values()):,} training rows)"
