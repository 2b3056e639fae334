"""Sets as columns of Arrow: how they are called, and the lists themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from aptset.batches.arrow_arrays import of_numbers


def names_of_sets(alphas: Sequence[float], taken: Sequence[str]) -> list[tuple[str, str]]:
    """Return the names of the two columns of each level: size and set; with the level where that tells them apart."""
    if len(alphas) == 1 and not {"size", "set"} & set(taken):
        return [("size", "set")]
    short = [f"{alpha:g}" for alpha in alphas]
    shown = short if len(set(short)) == len(set(alphas)) else [repr(float(alpha)) for alpha in alphas]
    return [(f"size {level}", f"set {level}") for level in shown]


def columns_of_sets(sets: Sequence[Any], names: Sequence[tuple[str, str]], classes: pa.Array) -> dict[str, pa.Array]:
    """Return for each level the size of each set and its labels, most likely first."""
    columns: dict[str, pa.Array] = {}
    for some, (size, labels) in zip(sets, names, strict=True):
        pointers, members = of_numbers(some.indptr.astype(np.int32)), classes.take(of_numbers(some.indices))
        columns |= {size: of_numbers(some.sizes.astype(np.int32)), labels: pa.ListArray.from_arrays(pointers, members)}
    return columns
