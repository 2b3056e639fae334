"""Masses of rows that belong together (Dunn, Wasserman and Ramdas 2023; Lee, Barber and Willett 2023).

In each cell a cluster has the mass one, shared out over its rows there, and a new row brings the mass one: the promise
is about a row of a new cluster. A row with several answers is a cluster of pairs (row, answer), which count by their
votes: the promise is about the answer of a random annotator about a new row (Stutz et al. 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.core.row_groups import CLUSTER, plural
from aptset.kernels.formula import Floats
from aptset.kernels.rowhash import Words

_MOST_WHOLE = 2**32  # a common multiple of all sizes up to here makes masses exact


@dataclass(frozen=True)
class Clusters:
    """What a measure of clusters knows besides its scores: what one is called, and the mass of a new row.

    ``unit`` is the weight that stands for the mass one; a new row brings it. ``column`` is the column of X that has the
    clusters, if one has: the model does not see it.
    """

    noun: str = CLUSTER
    are_votes: bool = False
    unit: float = 1.0
    column: str | None = None

    @property
    def about(self) -> str:
        """What the promise is about."""
        return "the answer of a random annotator about a new row" if self.are_votes else f"a row of a new {self.noun}"

    @property
    def nouns(self) -> str:
        """What is counted."""
        return "rows" if self.are_votes else plural(self.noun)

    def is_like(self, other: Clusters | None) -> bool:
        """Tell whether both speak of the same kind of clusters; their units may differ."""
        return other is not None and (self.noun, self.are_votes) == (other.noun, other.are_votes)


class Promised(float):
    """A coverage that is promised, which says what it is about.

    Attributes
    ----------
    about : str
        Such as "a row of a new patient".
    """

    about: str

    def __new__(cls, value: float, about: str) -> Promised:
        """Make the float and hang the rest on it."""
        self = super().__new__(cls, value)
        self.about = about
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (float(self), self.about)

    def __repr__(self) -> str:
        return f"{float(self)!r} for {self.about}"

    __str__ = __repr__


def promised(value: float, clusters: Clusters | None) -> float:
    """Return a promise, with what it is about where rows belong together."""
    return value if clusters is None else Promised(value, clusters.about)


def promise_about(clusters: Clusters | None) -> str:
    """Return what a promise is about, to be put behind a number; nothing where rows are single."""
    return "" if clusters is None else f" for {clusters.about}"


def clusters_in_words(measure: Any) -> str:
    """Return what n counts and how many rows there are, to be put behind n; nothing where rows are single."""
    clusters = measure.clusters
    if clusters is None:
        return ""
    return " rows with votes" if clusters.are_votes else f" {clusters.nouns}, {measure.rows} rows"


def masses_of(cell: NDArray[np.intp], words: Words, votes: Floats | None = None) -> tuple[Floats | None, float]:
    """Return the mass of each score in units, and the unit; None where each has the mass one.

    A score has the share of its votes among those of its cluster in its cell; without votes rows count alike. Masses
    are whole numbers where the shares have a common denominator up to 2^32.
    """
    number = _numbers_of_pairs(cell, words)
    own = np.ones(len(words)) if votes is None else votes
    total = np.bincount(number, own)[number]
    if (own == total).all():
        return None, 1.0
    if (own == np.rint(own)).all() and total.max() <= _MOST_WHOLE:
        parts, wholes = own.astype(np.int64), total.astype(np.int64)
        common = np.gcd(parts, wholes)
        unit = _common_multiple(np.unique(wholes // common).tolist())
        if unit is not None:
            return (parts // common * (unit // (wholes // common))).astype(np.float64), float(unit)
    return own / total, 1.0


def _numbers_of_pairs(cell: NDArray[np.intp], words: Words) -> NDArray[np.intp]:
    """Return the number of each pair of cell and cluster."""
    number: NDArray[np.intp] = np.unique(words, return_inverse=True)[1]
    if (cell != cell[0]).any():
        number = np.unique(number * np.int64(cell.max() + 1) + cell, return_inverse=True)[1]
    return number


def _common_multiple(numbers: list[int]) -> int | None:
    """Return the least common multiple, if it is small."""
    unit = 1
    for number in numbers:
        unit = lcm(unit, number)
        if unit > _MOST_WHOLE:
            return None
    return unit


def count_clusters(cell: NDArray[np.intp], words: Words, n_cells: int) -> NDArray[np.int64]:
    """Return how many clusters have a score in each cell."""
    _, number = np.unique(words, return_inverse=True)
    pairs = np.unique(number * np.int64(n_cells) + cell)
    return np.bincount(pairs % n_cells, minlength=n_cells).astype(np.int64)


def check_one_fold_each(words: Words, fold: NDArray[Any], noun: str) -> None:
    """Refuse clusters whose rows are in several folds: a model would be judged by rows of clusters that trained it."""
    _, first, number = np.unique(words, return_index=True, return_inverse=True)
    other = np.flatnonzero(fold != fold[first[number]])
    if len(other):
        raise ValueError(
            f"folds must hold all rows of a {noun}; rows {int(first[number[other[0]]])} and {int(other[0])} are of one "
            f"{noun} and in two folds. Make folds of whole {plural(noun)}, for example by "
            "sklearn.model_selection.GroupKFold."
        )


def check_clusters_alone(weights: Any, label_weights: Any, prior_correction: Any, name: str) -> None:
    """Refuse weights on top of clusters or votes, of which no theorem is known."""
    others = {"weights": weights, "label_weights": label_weights, "prior_correction": prior_correction or None}
    given = [other for other, value in others.items() if value is not None]
    if given:
        raise ValueError(
            f"{given[0]} must be left out where {name} are passed: no theorem is known of both. Leave one of the two "
            "out."
        )


def check_scheme_of_clusters(adds_up: bool, scheme: str) -> None:
    """Refuse clusters where folds do not simply add up: nothing is known of them."""
    if not adds_up:
        raise ValueError(
            f"clusters must come with a split, CV+ or the jackknife+; got {scheme}, of which no theorem with clusters "
            "is known. Pass calibration='cv+', or combine='plus'."
        )


OVERLAPPING_CLUSTERS = ("promise for clusters", "Leave the clusters out, or give each row one group.")


def refuse_guaranteed_clusters() -> NoReturn:
    """Refuse a level that would have to be chosen by a theorem about single rows."""
    raise ValueError(
        "level must be 'nominal' where clusters are passed; got 'guaranteed', whose levels go by theorems about single "
        "rows. guarantee(alpha) says what is promised at alpha."
    )


def refuse_with_clusters(clusters: Clusters) -> NoReturn:
    """Refuse what goes by the law of single rows."""
    name = "votes" if clusters.are_votes else "clusters"
    what = "answers about" if clusters.are_votes else "rows of"
    raise ValueError(
        f"{name} must be left out for a monitor: it counts misses by the law of single rows, and {what} one "
        f"{clusters.noun} are covered or missed together. Judge labelled rows by evaluate(..., {name}=...)."
    )
