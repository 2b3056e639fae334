"""Members that are put in order when somebody asks for the order: sizes, masks and coverage need none."""

from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.blocks import over_blocks
from aptset.kernels.engines.seam import Columns, Waiting


class LateMembers:
    """Members of sets, one row after the other, in any order within their rows until they are asked for.

    Beside each of them its probability waits, so the matrix that they come from may change or go.
    """

    def __init__(self, parts: list[Columns | Waiting]) -> None:
        self._parts: list[Columns | Waiting] = parts
        self._lock = Lock()

    def __len__(self) -> int:
        return sum(len(_columns_of(part)) for part in self._parts)

    def in_any_order(self) -> Columns:
        """Return the members as they are."""
        columns = [_columns_of(part) for part in self._parts]
        return columns[0] if len(columns) == 1 else _side_by_side(columns)

    def in_order(self) -> NDArray[np.int32]:
        """Return the members, most likely first; worked out once, on several threads."""
        with self._lock:
            if len(self._parts) > 1 or not isinstance(self._parts[0], np.ndarray):
                self._parts = [joined(list(self._parts))]  # replaced in one step: others read the parts meanwhile
            (members,) = self._parts
            return members  # type: ignore[return-value]  # an array by now


def in_order(members: NDArray[np.int32] | LateMembers) -> NDArray[np.int32]:
    """Return members, most likely first."""
    return members.in_order() if isinstance(members, LateMembers) else members


def _columns_of(part: Columns | Waiting) -> Columns:
    """Return the members of a part as they are."""
    return part if isinstance(part, np.ndarray) else part.columns


def _side_by_side(columns: list[Columns]) -> Columns:
    """Return the columns of all parts in one array."""
    stops = np.cumsum([len(part) for part in columns]).tolist()
    members = np.empty(stops[-1], dtype=np.result_type(*columns))

    def work(which: int, _: int) -> None:
        members[stops[which] - len(columns[which]) : stops[which]] = columns[which]

    over_blocks(len(stops), 1, work)
    return members


def joined(parts: list[Columns | Waiting], also: Callable[[int, int], None] | None = None) -> NDArray[np.int32]:
    """Return the members of all parts, most likely first; each part is dropped when it is done.

    ``also`` is called beside each part with its number and with where its members start.
    """
    stops = np.cumsum([len(_columns_of(part)) for part in parts]).tolist()
    members, left = np.empty(stops[-1] if stops else 0, dtype=np.int32), dict(enumerate(parts))
    parts.clear()

    def work(which: int, _: int) -> None:
        part, stop = left.pop(which), stops[which]
        start = stop - len(_columns_of(part))
        members[start:stop] = part if isinstance(part, np.ndarray) else part.in_order()
        if also is not None:
            also(which, start)

    over_blocks(len(stops), 1, work)
    return members
