"""Group ids: none, by label, or by something known about the row. Calibration happens within each group.

To add a grouping, write a function of X that returns one value per row, from that row alone, and put it into
:data:`GROUPINGS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aptset.labels import hashable

Ids = NDArray[np.int32]
GroupValues = list[Any] | NDArray[Any]  # of rows; whole numbers may come as an array
Kind = Literal["all", "label", "row"]

# What ``groups=`` takes by name, besides the columns of X; None: the label decides, which no function of X knows.
GROUPINGS: dict[str, Callable[[Any], Any] | None] = {"label": None}


@dataclass(frozen=True)
class Groups:
    """The groups that calibration knows, and where the group of a label comes from.

    ``kind`` is "all" (one group), "label" (each label is a group) or "row" (a value that comes with the row).
    """

    kind: Kind
    names: tuple[Any, ...]

    @classmethod
    def of(cls, values: Iterable[Any] | None, setting: Any, classes: NDArray[Any]) -> Groups:
        """Return the groups that occur among the values (in order of first appearance), or the labels, or one group."""
        if values is not None:
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            return cls("row", tuple(dict.fromkeys(hashable(value) for value in some_of_each(plain))))
        by_label = is_grouping(setting) and GROUPINGS[setting] is None
        return cls("label", tuple(classes.tolist())) if by_label else EVERYONE

    def ids(self, values: GroupValues | None, n_rows: int) -> Ids | None:
        """Return the id of each row: -1 for a value never seen, zeros without groups, None where the label decides."""
        if self.kind == "label":
            return None
        if values is None:
            return np.zeros(n_rows, dtype=np.int32)
        table = {name: number for number, name in enumerate(self.names)}
        if isinstance(values, np.ndarray):
            return _look_up(values, table)
        try:  # equal values have one id: each of them is looked at once, rows only go through the dictionary
            ids = {value: table.get(hashable(value), -1) for value in dict.fromkeys(values)}
        except TypeError:
            return np.fromiter((table.get(hashable(value), -1) for value in values), dtype=np.int32, count=n_rows)
        return np.fromiter(map(ids.__getitem__, values), dtype=np.int32, count=n_rows)

    def ids_of_labels(self, ids: Ids | None, columns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the group of each calibration sample from the ids of its row and the column of its true label."""
        if self.kind == "all":
            return np.zeros(len(columns), dtype=np.intp)  # which costs nothing as long as nobody looks
        return (columns if ids is None else ids).astype(np.intp, copy=False)


def some_of_each(values: Iterable[Any]) -> Iterable[Any]:
    """Return the distinct values, in order of first appearance; all of them where some cannot be looked up."""
    try:
        return dict.fromkeys(values)
    except TypeError:
        return values


_NARROW = 2**20


def _look_up(values: NDArray[Any], table: dict[Any, int]) -> Ids:
    """Return the id of each of an array of whole numbers."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if high - low >= _NARROW:
        return np.fromiter((table.get(value, -1) for value in values.tolist()), dtype=np.int32, count=len(values))
    ids = np.array([table.get(value, -1) for value in range(low, high + 1)], dtype=np.int32)
    return ids[values.astype(np.int64) - low]


def is_grouping(setting: Any) -> bool:
    """Tell whether a setting of groups is the name of a grouping, and not a column."""
    return isinstance(setting, str) and setting in GROUPINGS


EVERYONE = Groups("all", ("all",))
