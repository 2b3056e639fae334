"""What kinds of labels y may hold, one of them, and which labels may come."""

from __future__ import annotations

from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.data.label_checks import as_labels, check_hashable
from aptset.data.labels import columns_of, hashable, in_order, some
from aptset.data.tables import plain_list

_PLAIN = {"numbers": (Real, np.bool_), "texts": (str,), "bytes": (bytes,)}


def are_things(y: NDArray[Any]) -> bool:
    """Tell whether labels are dates, members of an Enum or the like: no numbers, no texts."""
    return y.dtype == object and not {_kind_of(kind) for kind in set(map(type, y.tolist()))} & _PLAIN.keys()


def check_one_kind(y: Any, name: str = "y") -> None:
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
            f"{name} must hold labels of one kind; got {label!r} in row {row} and {other_label!r} in row {other_row}. "
            f"Make texts of all of them, for example [str(label) for label in {name}]."
        )


def _kind_of(kind: type) -> str:
    """Return the kind of a label: a number, a text, bytes, or the name of any other type."""
    if issubclass(kind, Enum):
        return "Enum"
    return next((name for name, types in _PLAIN.items() if issubclass(kind, types)), kind.__name__)


def check_label_space(known: Any, found: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that may come, sorted: those found in the data, or those that the caller named."""
    if known is None:
        return found
    check_one_kind(known, "classes")
    named = as_labels(known, "classes")
    check_hashable(named, "classes")
    if any(hashable(label) is None for label in named.tolist()):
        raise ValueError(f"classes must not be missing; got {some(named)}. Rows of y without a label cannot be used.")
    if len(named) < 2 or len(set(named.tolist())) != len(named):
        raise ValueError(f"classes must be at least 2 distinct labels; got {some(named)}.")
    missing = found[columns_of(found, named) < 0]
    if len(missing):
        raise ValueError(
            f"classes must name every label that may come; y or the fitted model has {some(missing)}, which is not in "
            f"{some(named)}. Add it, or leave classes out to take the labels from y."
        )
    return in_order(named)
