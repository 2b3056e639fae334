"""Scores of ordered labels, whose sets are intervals: grades, stages, stars.

The expanding score is the adaptive score of Romano, Sesia and Candès 2020 on intervals that grow from the mode. The
central score is the level of the smallest central interval that meets the label, as conformalized quantiles are for
numbers (Romano, Patterson and Candès 2019). Both are functions of the row, the label and u, so every guarantee holds
as it does for any other score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core import validate
from aptset.core.labels import check_order, columns_in_order
from aptset.kernels.formula import Floats, Ordering, Places


@dataclass(frozen=True)
class Ordered:
    """A score for labels that have an order: every set is an interval of neighbouring labels.

    "expanding" starts at the most likely label and takes in the likelier neighbour, one after the other; a label
    scores the mass that was taken in before it, and ``1 - u`` times its own. It is the adaptive score where rows have
    one mode, and covers easy and hard rows alike. "central" scores a label by the level of the smallest central
    interval that reaches it; the median label scores ``-u``. Its sets are the smallest or nearly so.

    Sets are intervals at every level, with ties and with labels without mass, where one model judges and all labels of
    a row have the same threshold. ``groups="label"``, bands of labels and ratios of labels give every label a threshold
    of its own and are refused. With CV+ and the jackknife+ several models judge, and a set may have a gap:
    :meth:`PredictionSets.intervals` then returns the interval around it.

    Parameters
    ----------
    how : {"expanding", "central"}
        How intervals grow.
    order : sequence of labels, optional
        All labels, from low to high. Numbers are in order by themselves; texts are not ("high, low, medium"), unless
        the labels come as an ordered categorical of pandas.

    Examples
    --------
    >>> import aptset
    >>> grades = aptset.Ordered("central", order=["low", "medium", "high"])
    >>> calibration = aptset.calibrate([[0.2, 0.5, 0.3]] * 99, ["low", "medium", "high"] * 33, conformity=grades,
    ...                                classes=["low", "medium", "high"], randomized=False)
    >>> calibration.predict_set([[0.1, 0.3, 0.6]], alpha=0.4).intervals(grades.order)
    Intervals(lowest=array(['medium'], dtype='<U6'), highest=array(['high'], dtype='<U6'))
    """

    how: str = "expanding"
    order: Sequence[Any] | None = None
    columns: Sequence[int] | None = field(default=None, repr=False)  # from low to high, once they are known

    def __post_init__(self) -> None:
        validate.one_of(self.how, ("expanding", "central"), "how")
        if self.order is not None:
            object.__setattr__(self, "order", check_order(self.order))
        if self.columns is not None:
            object.__setattr__(self, "columns", _check_columns(self.columns))

    def for_classes(self, classes: NDArray[Any]) -> "Ordered":
        """Return the score of these classes, which knows the column of each label from low to high."""
        return replace(self, columns=columns_in_order(classes, self.order))

    @property
    def fast(self) -> Ordering | None:
        """The same as the compiled loops take it; None as long as the classes are not known."""
        if self.columns is None:
            return None
        return Ordering(np.array(self.columns, dtype=np.int64), self.how == "central")

    def of(self, places: Places) -> Floats:
        """Return the score of every label."""
        columns = np.arange(places.classes) if self.columns is None else np.array(self.columns)
        work = _central if self.how == "central" else _expanding
        scores = np.empty(places.own.shape)
        scores[:, columns] = work(places.own[:, columns], places.total, places.u)
        return scores


def _check_columns(columns: Any) -> tuple[int, ...]:
    """Return the columns of the labels from low to high; refuse what is no permutation."""
    numbers = tuple(columns)
    if not all(type(number) is int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise ValueError(f"columns must hold every column once; got {numbers!r}. They follow from the order of labels.")
    return numbers


def _expanding(own: Floats, total: Floats, u: Floats) -> Floats:
    """Score labels in order, (rows, labels): the mass that was taken in before, and 1 - u times the label's own."""
    n_rows, n_labels = own.shape
    rows, before = np.arange(n_rows), np.zeros(n_rows)
    walls = np.full((n_rows, 1), -1.0)  # no label stands beyond the ends
    padded = np.hstack([walls, own, walls])
    scores, joined = np.empty(own.shape), np.argmax(own, axis=1)
    low, high, used_up = joined - 1, joined + 1, np.full(n_rows, n_labels)
    for step in range(n_labels):
        used_up = np.where((before == total[:, 0]) & (used_up == n_labels), step, used_up)
        mass = own[rows, joined]
        with_mass = ((before + mass) - u[:, 0] * mass) / total[:, 0]
        behind = 1.0 + (((step - used_up) + 1.0) - u[:, 0]) / np.maximum(n_labels - used_up, 1)
        scores[rows, joined] = np.where(step >= used_up, behind, with_mass)
        before = before + mass
        takes_low = padded[rows, low + 1] >= padded[rows, high + 1]
        joined = np.where(takes_low, low, high)
        low, high = low - takes_low, high + ~takes_low
        low, high = np.maximum(low, -1), np.minimum(high, n_labels)
    return scores


def _central(own: Floats, total: Floats, u: Floats) -> Floats:
    """Score labels in order, (rows, labels): the level of the smallest central interval that meets the label."""
    n_labels = own.shape[1]
    up_to = np.cumsum(own, axis=1)  # exact: masses are multiples of 2^-51
    below = up_to - own
    scores = np.maximum(np.maximum(2.0 * below - total, total - 2.0 * up_to) / total, 0.0)
    np.put_along_axis(scores, np.argmax(2.0 * up_to >= total, axis=1)[:, None], -u, axis=1)
    left, right = (up_to == 0.0).sum(axis=1, keepdims=True), (below == total).sum(axis=1, keepdims=True)
    place = np.arange(n_labels)
    from_left, from_right = left - 1 - place, place - (n_labels - right)  # how far beyond the mass, from 0
    on_left, on_right = from_left + np.minimum(from_left, right), from_right + np.minimum(from_right + 1, left)
    position = np.where(place < left, on_left, on_right)  # by distance, the lower label first
    behind = 1.0 + ((position + 1.0) - u) / np.maximum(left + right, 1)
    return np.where((place < left) | (place >= n_labels - right), behind, scores)
