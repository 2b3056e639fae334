"""Members that are put in order when somebody asks for the order: sizes, masks and coverage need none."""

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
        parts = self._parts
        return _columns_of(parts[0]) if len(parts) == 1 else np.concatenate([_columns_of(part) for part in parts])

    def in_order(self) -> NDArray[np.int32]:
        """Return the members, most likely first; worked out once, on several threads."""
        with self._lock:
            if len(self._parts) > 1 or not isinstance(self._parts[0], np.ndarray):
                self._parts = [_ordered(self._parts)]  # replaced in one step: others read the parts meanwhile
            (members,) = self._parts
            return members  # type: ignore[return-value]  # an array by now


def in_order(members: NDArray[np.int32] | LateMembers) -> NDArray[np.int32]:
    """Return members, most likely first."""
    return members.in_order() if isinstance(members, LateMembers) else members


def _columns_of(part: Columns | Waiting) -> Columns:
    """Return the members of a part as they are."""
    return part if isinstance(part, np.ndarray) else part.columns


def _ordered(parts: list[Columns | Waiting]) -> NDArray[np.int32]:
    """Return the members of all parts, most likely first."""
    stops = np.cumsum([len(_columns_of(part)) for part in parts]).tolist()
    members = np.empty(stops[-1], dtype=np.int32)

    def work(which: int, _: int) -> None:
        part, stop = parts[which], stops[which]
        members[stop - len(_columns_of(part)) : stop] = part if isinstance(part, np.ndarray) else part.in_order()

    over_blocks(len(parts), 1, work)
    return members
