"""Arrays of numbers as compressed text, small enough to travel in a page."""

from __future__ import annotations

import base64
import zlib
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray


class Packed(TypedDict):
    """An array as the page's script takes it: how numbers are written, how many there are, and their bytes."""

    kind: str
    length: int
    data: str


def pack(values: NDArray[Any]) -> Packed:
    """Return an array of whole numbers (in 1, 2 or 4 bytes each) or floats (in 8) as plain values for JSON.

    Bytes of one weight stand together, where they look alike and compress well; then zlib, then base64.
    """
    flat = np.ascontiguousarray(values).ravel()
    kind = "f8"
    if flat.dtype.kind != "f":
        top = int(flat.max()) if len(flat) else 0
        kind = "u1" if top < 2**8 else "u2" if top < 2**16 else "u4" if top < 2**32 else "f8"
    as_bytes = flat.astype(f"<{kind}").view(np.uint8).reshape(len(flat), int(kind[1]))
    text = base64.b64encode(zlib.compress(as_bytes.T.tobytes(), 9)).decode()
    return {"kind": kind, "length": len(flat), "data": text}
