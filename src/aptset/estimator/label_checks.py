"""What kinds of labels y may hold: one of them."""

from __future__ import annotations

from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.labels import hashable
from aptset.tables import plain_list

_PLAIN = {"numbers": (Real, np.bool_), "texts": (str,), "bytes": (bytes,)}


def are_things(y: NDArray[Any]) -> bool:
    """Tell whether labels are dates, members of an Enum or the like: no numbers, no texts."""
    return y.dtype == object and not {_kind_of(kind) for kind in set(map(type, y.tolist()))} & _PLAIN.keys()


def check_one_kind(y: Any) -> None:
    """Refuse numbers beside texts, which numpy would make texts of, and other kinds that have no order in common."""
    of_objects = getattr(getattr(y, "dtype", None), "kind", "") == "O" and getattr(y, "ndim", 1) == 1
    if not (isinstance(y, list | tuple) or of_objects):
        return
    values = plain_list(y)
    kinds = {kind: _kind_of(kind) for kind in set(map(type, values)) if kind is not type(None)}
    if len(set(kinds.values())) < 2:
        return
    known = [(row, value) for row, value in enumerate(values) if hashable(value) is not None]
    others = [one for one in known if _kind_of(type(one[1])) != _kind_of(type(known[0][1]))]
    if others:
        (row, label), (other_row, other_label) = known[0], others[0]
        raise TypeError(
            f"y must hold labels of one kind; got {label!r} in row {row} and {other_label!r} in row {other_row}. "
            "Make texts of all of them, for example [str(label) for label in y]."
        )


def _kind_of(kind: type) -> str:
    """Return the kind of a label: a number, a text, bytes, or the name of any other type."""
    if issubclass(kind, Enum):
        return "Enum"
    return next((name for name, types in _PLAIN.items() if issubclass(kind, types)), kind.__name__)
