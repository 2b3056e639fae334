"""What kernels are started with: the arguments, how rows are divided among threads, and in which chunks they go."""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Callable
from ctypes import c_int64, c_uint64, c_void_p
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from aptset.kernels.engines.interface import BLOCK_ROWS
from aptset.kernels.rowhash import column_keys

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
        ("min_size", _WHOLE),
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
        ("min_size", _WHOLE),
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
    if tensor is None:
        return None
    first: int = tensor.data_ptr()
    return first + start * tensor.stride(0) * tensor.element_size() if start else first


def changed(structure: Any, **fields: Any) -> Any:
    """Return a copy with other fields."""
    copy = type(structure).from_buffer_copy(structure)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


Defines = tuple[tuple[str, int], ...]  # what a program is compiled with

BLOCK = 128  # threads
WIDEST_HELD = 2048  # columns that fit the registers of a warp
_LONGEST_IN_TILES = 4096  # bytes: few warps would have room for longer rows
WIDEST_SORTED = 1024  # the same, with their places
_ABOVE, _OWN, _OWN_U, _U, _RANK, _TOP, _FIRST = 0, 1, 2, 4, 5, 8, 10  # among the weights


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

    def tile_bytes(self, name: str) -> int:
        """Return the shared memory of a block through which rows come to the kernels of a file; 0 where they do not."""
        fits = self.lanes > 1 and self.element != 1 and self.row_bytes <= _LONGEST_IN_TILES
        at_once = {"scores.cu": 2 if self.lanes == 32 else 1, "masks.cu": 1}.get(name, 0)
        return 2 * (BLOCK // self.lanes) * at_once * self.row_bytes if fits else 0

    def cell_bytes(self, folds: int) -> int:
        """Return the shared memory of a warp in ``logit_scores.cu``: a float64 for each cell, and the rows in hand."""
        return (32 * 8 << folds) + -(-self.row_bytes * 32 // self.lanes // 16) * 16

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
    """Return what a program is compiled with: the form of the score is known then; ``more`` counts before the rest."""
    return defines_by(layout, bytes(job.weights), hashes_rows(job), block, tuple(more.items()))


def hashes_rows(job: Job) -> bool:
    """Whether a program hashes rows. That of the rows among which copies were found has their seeds, too."""
    return job.seeds is None or job.which is not None


@lru_cache(maxsize=4096)
def defines_by(layout: Layout, weights: bytes, hashes: bool, block: int, more: Defines) -> Defines:
    """Return the same from what it depends on."""
    w = struct.unpack("16d", weights)
    asks, ranks = w[_TOP] != 0.0 or w[_FIRST] != 0.0, w[_RANK] != 0.0
    plain = not asks and not ranks and w[_ABOVE] == 1.0 and min(w[_OWN], w[_OWN] + w[_OWN_U]) >= 0.0
    pure = plain and w[_OWN : _U + 1] == (1.0, -1.0, 0.0, 0.0)
    form = {"ASKS": int(asks), "RANKS": int(ranks), "PLAIN": int(plain), "PURE": int(pure), "HASHES": int(hashes)}
    return _Kept(sorted((layout.defines(block) | form | dict(more)).items()))


def room_bytes(columns: int) -> int:
    """Return the shared memory in which the warps of a block make softmaxes, as ``exact_fallback.cuh`` says."""
    return BLOCK // 32 * 8 * (columns + columns // 2)


def folds_of(columns: int, lanes: int) -> int:
    """Return how often a row is halved until its lanes have it, as ``logit_scores.cu`` says.

    Where a halving leaves a column over, one of the lanes is for these.
    """
    return next(n for n in range(64) if columns >> n < lanes or columns == lanes << n)


MOST_NOTED = 60 * 2**20  # bytes, of what is noted of rows while they are worked on


class Starts(Protocol):
    """What starts kernels: a device, or what stands for it in tests."""

    multiprocessors: int

    def run(
        self, name: str, defines: Defines, kernel: str, grid: int, block: int, shared: int, *arguments: Any
    ) -> None:
        """Start a kernel."""
        ...


class Chunk(NamedTuple):
    """Where some rows start."""

    start: int


def over_chunks(
    starts: Starts,
    rows: Any,
    work: Callable[[Chunk, Job], None],
    careful: Callable[[Chunk, Job], None] | None = None,
    seeds: Any = None,
    *,
    again: bool = True,
) -> Counters:
    """Run work on chunks of rows, on the copies again, then what was left; count copies, tell the first bad row.

    Seeds are noted in ``seeds``, if they are there. Without ``again`` copies are among what was left. Of logits the
    first bad row comes with a number that stays 0 where all rows are ones of probabilities.
    """
    values, hashes, is_own = rows.probabilities, rows.seeds is None, isinstance(rows.key, int)
    n, n_columns = values.shape
    step, n_chunks, n_seeds, n_words, of_memory = _room(n, hashes, seeds is None, careful is not None)
    own_keys: Any = _kept_keys(rows.key, n_columns, values.device) if is_own else None
    if is_own and n_chunks == 1:
        bad = _fresh_counters(values.device, rows.logits)
        first, keys = bad.data_ptr(), own_keys.data_ptr()
        memory = None if of_memory <= _WORDS_BESIDE else _words(of_memory, values.device)
        noted = first + 8 * _COUNTED if memory is None else memory.data_ptr()
    else:
        n_keys, n_counters = 0 if is_own else n_columns, 2 * (1 + n_chunks)
        memory = _words(n_counters + n_keys + of_memory, values.device)
        bad = memory.as_strided(*(((2,), (1,)) if rows.logits else ((), ())))
        first = memory.data_ptr()
        at_keys = first + 8 * n_counters
        noted = at_keys + 8 * n_keys
        keys = at_keys if own_keys is None else own_keys.data_ptr()
        # A key that is a tensor lies on the device, and stays there: nobody waits for it.
        _prepare(starts, None if is_own else rows.key, keys, n_keys, first, n_counters)
    which = noted + 8 * n_seeds
    job = Job.from_buffer_copy(_job_of(rows.linear.bits))
    job.tolerance, job.column_keys, job.slow = rows.tolerance, keys, which + 8 * n_words
    job.bad, job.unlike = first, first + 8
    for number, start in enumerate(range(0, n, step)):
        size, of_chunk, chunk = min(step, n - start), first + 16 * (1 + number), Chunk(start)
        job.rows, job.n, job.start, job.u = pointer(values, start), size, start, pointer(rows.u, start)
        job.n_slow, job.seeds = of_chunk + 8, pointer(rows.seeds, start)
        job.noted = (noted if seeds is None else pointer(seeds, start)) if hashes else None
        work(chunk, job)
        if hashes and size > 1:
            first_block = c_uint64((rows.first_row + start) // BLOCK_ROWS)
            arguments = (c_void_p(job.noted), c_int64(size), first_block, c_uint64(rows.side))
            blocks = -(-size // BLOCK_ROWS)
            starts.run("copies.cu", (), "find_copies", blocks, 512, 0, *arguments, c_void_p(which), c_void_p(of_chunk))
            of_copies = changed(job, which=which, seeds=job.noted, count=of_chunk, noted=None)
            if again:
                work(chunk, of_copies)
        if careful is not None:  # by now every seed is known
            is_copied = hashes and size > 1
            careful(chunk, job if not is_copied else changed(of_copies, which=None) if again else of_copies)
    return Counters(bad, n_chunks)


@lru_cache(maxsize=1024)
def _room(n: int, hashes: bool, notes: bool, leaves: bool) -> tuple[int, int, int, int, int]:
    """Return how many rows are in a chunk, and how many chunks there are.

    Then, in words of 64 bits, the room for the seeds that are noted, for places of copies, and for all of that and the
    rows that are left.
    """
    of_row = (12 if notes else 4) + (8 if leaves else 0)  # bytes: a seed, a place among the copies
    step = max(1, MOST_NOTED // of_row // BLOCK_ROWS) * BLOCK_ROWS
    most = min(n, step)
    n_seeds, n_words = most if hashes and notes else 0, -(-most // 2) if hashes else 0
    return step, -(-n // step), n_seeds, n_words, n_seeds + n_words + (most if leaves else 0)


class Counters(NamedTuple):
    """What kernels count: ``bad`` is the first bad row, with of logits whether one is none of probabilities.

    These are two words in the memory of the device; behind them are two for each chunk, how many rows are copies and
    how many were left.
    """

    bad: Any
    n_chunks: int

    @property
    def n_copies(self) -> Any:
        """How many rows are copies of others."""
        at = self.bad.storage_offset() + 2
        is_one = self.n_chunks == 1
        return self.bad.as_strided((), (), at) if is_one else self.bad.as_strided((self.n_chunks,), (2,), at).sum()


@lru_cache(maxsize=64)
def _job_of(weights: bytes) -> Job:
    """Return a job that knows the score alone."""
    return Job.from_buffer_copy(bytes(Job.weights.offset) + weights)


def _words(n: int, device: Any) -> Any:
    return torch.empty(n, dtype=torch.int64, device=device)


_AT_A_TIME, _COUNTED, _WORDS_BESIDE = 128, 4, 96  # words beside the counters have room for what is noted of few rows
_COUNTERS: dict[tuple[Any, int, bool], deque[Any]] = {}  # by the device and the stream that set them


def _fresh_counters(device: Any, logits: bool) -> Any:
    """Return the first counters of one chunk, which were set with many others: most calls start a kernel less."""
    stream = torch._C._cuda_getCurrentRawStream(device.index or 0) if device.type == "cuda" else 0
    try:
        return _COUNTERS[device, stream, logits].popleft()
    except (KeyError, IndexError):
        first, *others = _counters_on(device, logits)
        _COUNTERS.setdefault((device, stream, logits), deque()).extend(others)
        return first


def _counters_on(device: Any, logits: bool) -> Any:
    """Return many counters. The host sets them: kernels of torch are slow when they are the first of their kind."""
    lines = np.zeros((_AT_A_TIME, _COUNTED + _WORDS_BESIDE), dtype=np.int64)
    lines[:, 0] = -1
    there = torch.from_numpy(lines).to(device)
    return (there[:, :2] if logits else there[:, 0]).unbind(0)


def keys_of(starts: Starts, key: Any, values: Any) -> Any:
    """Return the secrets of the columns of a matrix, on its device."""
    if isinstance(key, int):
        return _kept_keys(key, values.shape[1], values.device)
    keys = values.new_empty(values.shape[1], dtype=torch.int64)
    _prepare(starts, key, keys.data_ptr(), len(keys))
    return keys


def _prepare(starts: Starts, key: Any, keys: int, n_keys: int, counters: int = 0, n_counters: int = 0) -> None:
    """Write the secrets of columns from a key on the device, if there is one, and set counters as none was counted."""
    arguments = (c_void_p(pointer(key)), c_void_p(keys), c_int64(n_keys), c_void_p(counters), c_int64(n_counters))
    starts.run("copies.cu", (), "prepare", -(-max(n_counters, n_keys) // 256), 256, 0, *arguments)


@lru_cache(maxsize=16)
def _kept_keys(key: int, n_columns: int, device: Any) -> Any:
    return torch.tensor(column_keys(key, n_columns).view(np.int64), device=device)
