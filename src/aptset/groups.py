"""Group ids: none, by label, or by something known about the row. Calibration happens within each group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Kind = Literal["all", "label", "row"]


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
            return cls("row", tuple(dict.fromkeys(hashable(value) for value in values)))
        by_label = isinstance(setting, str) and setting == "label"
        return cls("label", tuple(classes.tolist())) if by_label else EVERYONE

    def ids(self, values: Iterable[Any] | None, n_rows: int) -> Ids | None:
        """Return the id of each row: -1 for a value never seen, zeros without groups, None where the label decides."""
        if self.kind == "label":
            return None
        if values is None:
            return np.zeros(n_rows, dtype=np.int32)
        table = {name: number for number, name in enumerate(self.names)}
        return np.fromiter((table.get(hashable(value), -1) for value in values), dtype=np.int32, count=n_rows)

    def ids_of_labels(self, ids: Ids | None, columns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the group of each calibration sample from the ids of its row and the column of its true label."""
        return (columns if ids is None else ids).astype(np.intp)


EVERYONE = Groups("all", ("all",))


def hashable(value: Any) -> Any:
    """Let every missing value (None, NaN, pandas' NA and NaT) be the same one: they do not equal themselves."""
    try:
        return None if value != value else value
    except (TypeError, ArithmeticError):  # NA is neither equal nor different; a signalling NaN compares with nothing
        return None
