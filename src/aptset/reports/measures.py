"""What the page needs to recompute every statistic over all rows at any level, or, for very large data, at many."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from aptset.core.labels import as_objects, columns_of, distinct
from aptset.metrics.evaluation_rows import EvaluationRows


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


# The page holds all p-values if they are no more than so many, and take no more than so many bytes when packed (the
# page stays under 3 MB); beyond, tables at fixed levels.
MOST_CELLS = 2**21
MOST_BYTES = 2_500_000
_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Partition:
    """The rows by the value of something: the values, and which of them each row has."""

    names: list[Any]
    of_row: NDArray[np.int64]

    @classmethod
    def of(cls, values: list[Any]) -> Partition:
        """Group rows by value, in the order that the metrics use."""
        objects = as_objects(values)
        names = distinct(objects)
        return cls(names.tolist(), columns_of(objects, names))

    def sums(self, weights: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sum of weights, (rows, levels), within each value: (values, levels)."""
        total = np.zeros((len(self.names), weights.shape[1]), dtype=np.int64)
        order = np.argsort(self.of_row, kind="stable")
        present, starts = np.unique(self.of_row[order], return_index=True)
        total[present] += np.add.reduceat(weights[order].astype(np.int64), starts, axis=0)
        return total


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the page's script computes with.

    Attributes
    ----------
    columns : dict of Packed
        The arrays by name.
    alphas : list of float or None
        The levels that the arrays are about; None if they hold every p-value, and so are about any level.
    position : array of int or None
        With every p-value: where each row stands in the arrays.
    """

    columns: dict[str, Packed]
    alphas: list[float] | None = None
    position: NDArray[np.int64] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every p-value is there."""
        return self.alphas is None


def every_row(evidence: EvaluationRows, parts: dict[str, Partition], in_slice: NDArray[np.bool_] | None) -> Statistics:
    """Return the p-values themselves, as steps among the distinct ones, each row's largest first.

    A step is the number of distinct values up to the p-value, so a label is in the set iff its step exceeds the
    number of distinct values up to alpha: the same comparison as ``p > alpha``, in whole numbers.
    """
    levels = np.unique(evidence.p_values)
    steps = np.searchsorted(levels, evidence.p_values, side="right")
    steps = -np.sort(-steps, axis=1)
    truth = np.searchsorted(levels, evidence.p_of_truth, side="right")
    truth[evidence.columns < 0] = 0
    order = np.lexsort((truth, *(part.of_row for part in parts.values())))
    content = {"levels": pack(levels), "steps": pack(steps[order].T), "truth": pack(truth[order])}
    for name, part in parts.items():
        content[name] = pack(part.of_row[order])
    if evidence.most_likely is not None:
        content["saved"] = pack((evidence.most_likely == evidence.columns)[order].astype(np.uint8))
    if in_slice is not None:
        content["slice"] = pack(in_slice[order].astype(np.uint8))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return Statistics(content, position=position)


def at_levels(
    evidence: EvaluationRows,
    parts: dict[str, Partition],
    in_slice: NDArray[np.bool_] | None,
    alphas: list[float],
    shown: NDArray[np.intp],
) -> Statistics:
    """Return counts and sums over all rows at each of some levels; ``shown`` are rows whose own sizes are wanted."""
    levels, least = np.array(alphas), 0 if evidence.most_likely is None else 1
    n_rows, n_classes = evidence.p_values.shape
    content: dict[str, NDArray[np.int64]] = {}
    step = max(1, _CELLS_AT_ONCE // max(n_classes, len(alphas)))
    covered_at = [evidence.covered_at(alpha) for alpha in alphas]
    for chunk in (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)):
        sizes = np.maximum(_sizes(evidence.p_values[chunk], levels), least).astype(np.int64)
        covered = np.stack([of_level[chunk] for of_level in covered_at], axis=1)
        for name, sums in _sums(sizes, covered, chunk, parts, in_slice, n_classes):
            content[name] = content[name] + sums if name in content else sums
    content["shown"] = np.maximum(_sizes(evidence.p_values[shown], levels), least)
    return Statistics({name: pack(sums) for name, sums in content.items()}, alphas)


def _sums(
    sizes: NDArray[np.int64],
    covered: NDArray[np.bool_],
    chunk: slice,
    parts: dict[str, Partition],
    in_slice: NDArray[np.bool_] | None,
    n_classes: int,
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield what is counted and summed at each level over some rows, by name."""
    by_level, most = (sizes * 2 + covered).T, 2 * n_classes + 2
    yield "histogram", np.stack([np.bincount(of_level, minlength=most) for of_level in by_level])
    for name, part in parts.items():
        of_chunk = Partition(part.names, part.of_row[chunk])
        yield f"{name}_covered", of_chunk.sums(covered)
        yield f"{name}_sum", of_chunk.sums(sizes)
        yield f"{name}_squares", of_chunk.sums(sizes**2)
        yield f"{name}_rows", np.bincount(of_chunk.of_row, minlength=len(of_chunk.names))
    if in_slice is not None:
        yield "slice_covered", covered[in_slice[chunk]].sum(axis=0)


def _sizes(p_values: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the size of each row's set at each level, (rows, levels)."""
    n_levels = len(levels)
    exceeded = np.searchsorted(levels, p_values, side="left")  # how many levels each label's p-value exceeds
    flat = exceeded + (n_levels + 1) * np.arange(len(p_values))[:, None]
    counts = np.bincount(flat.ravel(), minlength=(n_levels + 1) * len(p_values)).reshape(len(p_values), n_levels + 1)
    return np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, 1:].astype(np.int32)


def whole_if_it_fits(
    evidence: EvaluationRows, parts: dict[str, Partition], in_slice: NDArray[np.bool_] | None
) -> Statistics | None:
    """Return the p-values themselves, or None if they are too many to travel in a page."""
    if evidence.p_values.size > MOST_CELLS:
        return None
    measured = every_row(evidence, parts, in_slice)
    return measured if sum(len(packed["data"]) for packed in measured.columns.values()) <= MOST_BYTES else None
