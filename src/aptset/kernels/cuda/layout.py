"""How rows are divided among threads, and what a program is compiled with for them."""

from __future__ import annotations

import struct
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from aptset.kernels.cuda.arguments import Job

Defines = tuple[tuple[str, int], ...]  # what a program is compiled with

BLOCK = 128  # threads
WIDEST_HELD = 2048  # columns that fit the registers of a warp
_LONGEST_IN_TILES = 4096  # bytes: few warps would have room for longer rows
WIDEST_SORTED = 1024  # the same, with their places
_ABOVE, _OWN, _OWN_U, _RANK, _TOP, _FIRST = 0, 1, 2, 5, 8, 10  # among the weights


class Layout(NamedTuple):
    """How a warp reads rows."""

    columns: int
    element: int
    lanes: int
    vector: int
    piece: int
    logits: bool = False

    def defines(self, block: int = BLOCK) -> dict[str, int]:
        """Return what a program is compiled with."""
        return {name.upper(): int(value) for name, value in self._asdict().items()} | {"BLOCK": block}

    @property
    def is_narrow(self) -> bool:
        """Whether a thread has a row."""
        return self.lanes == 1

    @property
    def row_bytes(self) -> int:
        """How long a row is."""
        return self.columns * {0: 4, 1: 8}.get(self.element, 2)

    @lru_cache(maxsize=1024)  # noqa: B019  # a layout is a few numbers
    def tile_bytes(self, name: str) -> int:
        """Return the shared memory of a block through which rows come to the kernels of a file; 0 where they do not."""
        fits = self.lanes > 1 and self.element != 1 and self.row_bytes <= _LONGEST_IN_TILES
        at_once = {"scores.cu": 2 if self.lanes == 32 else 1, "masks.cu": 1, "logit_scores.cu": 1}.get(name, 0)
        return 2 * (BLOCK // self.lanes) * at_once * self.row_bytes if fits else 0

    @property
    def is_held(self) -> bool:
        """Whether a row fits the registers."""
        return self.element != 1 and self.columns <= WIDEST_HELD

    @property
    def each(self) -> int:
        """How many labels a lane has, as a power of two."""
        at_a_time = self.lanes * self.vector
        return max(8, 1 << (-(-self.columns // at_a_time) * self.vector - 1).bit_length())

    @property
    def is_sorted_in_registers(self) -> bool:
        """Whether the labels of a row and their places fit the registers of its lanes."""
        return self.element != 1 and not self.is_narrow and self.columns <= WIDEST_SORTED

    @property
    def has_buckets(self) -> bool:
        """Whether the labels of a row are spread over buckets before they are put in order, as ``sorted.cu`` says."""
        return self.lanes == 32 and self.each == 32


def layout_of(values: Any, logits: bool = False) -> Layout:
    """Return the layout for a matrix: 16 bytes a read where rows allow it, about 32 labels a lane."""
    return _layout(values.shape[1], values.dtype, values.data_ptr() % 16, logits)


@lru_cache(maxsize=1024)
def _layout(columns: int, dtype: Any, beyond: int, logits: bool) -> Layout:
    kinds = {"torch.float32": 0, "torch.float64": 1, "torch.float16": 2, "torch.bfloat16": 3}
    size, lanes = dtype.itemsize, 1 if columns <= 16 else min(32, max(4, 1 << (columns - 1).bit_length() - 5))

    def at_a_time(side_by_side: int) -> int:
        fits = (v for v in (8, 4, 2, 1) if v * size <= 16 and beyond % (v * size) == 0)
        return next(v for v in fits if side_by_side % v == 0)

    return Layout(columns, kinds[str(dtype)], lanes, at_a_time(columns), at_a_time(32 // lanes * columns), logits)


class _Kept(tuple[tuple[str, int], ...]):
    """Definitions whose hash is worked out once: every start of a kernel asks for it."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()


def defines_of(layout: Layout, job: Job, block: int = BLOCK, **more: int) -> Defines:
    """Return what a program is compiled with: the form of the score is known then."""
    return _defines(layout, bytes(job.weights), job.seeds is None, block, tuple(more.items()))


@lru_cache(maxsize=4096)
def _defines(layout: Layout, weights: bytes, hashes: bool, block: int, more: Defines) -> Defines:
    w = struct.unpack("16d", weights)
    asks, ranks = w[_TOP] != 0.0 or w[_FIRST] != 0.0, w[_RANK] != 0.0
    plain = not asks and not ranks and w[_ABOVE] == 1.0 and min(w[_OWN], w[_OWN] + w[_OWN_U]) >= 0.0
    form = {"ASKS": int(asks), "RANKS": int(ranks), "PLAIN": int(plain), "HASHES": int(hashes)}
    return _Kept(sorted((layout.defines(block) | form | dict(more)).items()))


def room_bytes(columns: int) -> int:
    """Return the shared memory in which the warps of a block make softmaxes, as ``careful.cuh`` says."""
    return BLOCK // 32 * 8 * (columns + columns // 2)


def folds_of(columns: int) -> int:
    """Return how often a row is halved until 32 lanes have it, as ``logit_scores.cu`` says."""
    return next(n for n in range(64) if columns >> n <= 32)
