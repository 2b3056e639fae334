"""What the kernels take, field by field as in ``row.cuh``, ``output.cuh`` and ``p_values.cu``."""

from __future__ import annotations

import ctypes
from typing import Any

_POINTER, _WHOLE, _DOUBLE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class Job(ctypes.Structure):
    """Rows and all that their scores depend on."""

    _fields_ = (
        ("rows", _POINTER),
        ("n", _WHOLE),
        ("start", _WHOLE),
        ("column_keys", _POINTER),
        ("tolerance", _DOUBLE),
        ("seeds", _POINTER),
        ("u", _POINTER),
        ("noted", _POINTER),
        ("which", _POINTER),
        ("count", _POINTER),
        ("bad", _POINTER),
        ("slow", _POINTER),
        ("n_slow", _POINTER),
        ("unlike", _POINTER),
        ("weights", _DOUBLE * 16),
    )


class Wanted(ctypes.Structure):
    """Where to cut, and where the flags or sizes go."""

    _fields_ = (
        ("thresholds", _POINTER),
        ("per_row", _WHOLE),
        ("at_least", _WHOLE),
        ("flags", _POINTER),
        ("sizes", _POINTER),
        ("cutoffs", _POINTER),
    )


class Output(ctypes.Structure):
    """What becomes of the scores of rows in order."""

    _fields_ = (
        ("scores", _POINTER),
        ("flags", _POINTER),
        ("thresholds", _POINTER),
        ("n_thresholds", _WHOLE),
        ("per_row", _WHOLE),
        ("at_least", _WHOLE),
        ("n_rows", _WHOLE),
        ("sizes", _POINTER),
        ("longest", _POINTER),
        ("pointers", _POINTER),
        ("members", _POINTER),
        ("cutoffs", _POINTER),
    )


class OfCalibration(ctypes.Structure):
    """Sorted calibration scores and where to look among them."""

    _fields_ = tuple(
        (name, _POINTER) for name in ("sorted", "offsets", "row_groups", "starts", "firsts", "low", "scale", "rounding")
    )


def pointer(tensor: Any, start: int = 0) -> int | None:
    """Return where row ``start`` of a tensor lies in the memory of its device."""
    return None if tensor is None else tensor.data_ptr() + start * tensor.stride(0) * tensor.element_size()


def changed(structure: Any, **fields: Any) -> Any:
    """Return a copy with other fields."""
    copy = type(structure).from_buffer_copy(structure)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy
