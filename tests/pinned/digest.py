"""One digest of any answer: arrays by type, shape and bytes; floats by their bits; the rest by its text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from aptset import Calibration, CrossCalibration, PredictionSets


def digest_of(answer: object) -> str:
    """Return sixteen hexadecimal digits that change with any bit of the answer."""
    state = hashlib.sha256()
    _feed(state, answer)
    return state.hexdigest()[:16]


def _feed(state, answer):
    if isinstance(answer, PredictionSets):
        _feed(state, [np.asarray(answer.indptr, np.int64), np.asarray(answer.indices, np.int64), answer.classes])
    elif isinstance(answer, Calibration | CrossCalibration):
        _feed(state, [repr(answer), answer.n, answer.effective_size, answer.guarantee(0.1)])
    elif isinstance(answer, np.ndarray):
        _feed_array(state, answer)
    elif isinstance(answer, Mapping):
        _feed(state, [part for name, value in answer.items() for part in (str(name), value)])
    elif isinstance(answer, list | tuple):
        state.update(f"[{len(answer)}".encode())
        for part in answer:
            _feed(state, part)
    elif isinstance(answer, float):
        parts = [getattr(answer, name) for name in ("low", "high", "n") if hasattr(answer, name)]
        state.update(float(answer).hex().encode())
        _feed(state, parts) if parts else None
    elif isinstance(answer, bytes):
        state.update(answer)
    else:
        state.update(f"{type(answer).__name__}:{answer}".encode())


def _feed_array(state, array):
    if array.dtype.kind in "OUS":
        state.update(repr(array.tolist()).encode())
        return
    state.update(f"{array.dtype.str}{array.shape}".encode())
    state.update(np.ascontiguousarray(array).tobytes())
