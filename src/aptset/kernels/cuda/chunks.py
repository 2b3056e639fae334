"""Rows go in chunks: each is worked on, then its copies once more, then what a fast kernel left."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from ctypes import c_int64, c_uint64, c_void_p
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from aptset.kernels.cuda.arguments import Job, changed, pointer
from aptset.kernels.cuda.layout import Defines
from aptset.kernels.engines.interface import BLOCK_ROWS
from aptset.kernels.formula import Weights
from aptset.kernels.rowhash import column_keys

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
    torch, values = torch_module(), rows.probabilities
    hashes, n = rows.seeds is None, values.shape[0]
    of_row = 12 if seeds is None else 4  # bytes: a seed, a place among the copies
    step = max(1, MOST_NOTED // (of_row + (0 if careful is None else 8)) // BLOCK_ROWS) * BLOCK_ROWS
    most, n_chunks = min(n, step), -(-n // step)
    if n_chunks == 1 and isinstance(rows.key, int):
        counters = _fresh_counters(values.device)
        keys = prepare(starts, rows.key, values)
    else:
        whole = torch.empty((1 + n_chunks, 2), dtype=torch.int64, device=values.device)
        counters, keys = Counters(whole, whole[0]), prepare(starts, rows.key, values, whole)
    room = (most if hashes and seeds is None else 0, -(-most // 2) if hashes else 0, 0 if careful is None else most)
    memory = torch.empty(sum(room), dtype=torch.int64, device=values.device)
    noted, first = memory.data_ptr(), counters.every.data_ptr()
    which = noted + 8 * room[0]
    job = changed(_job_of(rows.weights), column_keys=keys.data_ptr(), tolerance=rows.tolerance, bad=first)
    job.unlike, job.slow = first + 8, which + 8 * room[1]
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
    return counters if rows.logits else Counters(counters.every, counters.bad[0])


class Counters(NamedTuple):
    """What kernels count: ``every`` has the first bad row, of logits whether one is none of probabilities, and copies.

    A line of ``every`` for the first bad row, then one for each chunk. ``bad`` is what the host looks at.
    """

    every: Any
    bad: Any

    @property
    def n_copies(self) -> Any:
        """How many rows are copies of others."""
        return self.every[1, 0] if self.every.shape[0] == 2 else self.every[1:, 0].sum()


@lru_cache(maxsize=64)
def _job_of(weights: Weights) -> Job:
    """Return a job that knows the weights alone."""
    job = Job()
    job.weights = weights.as_tuple
    return job


def torch_module() -> Any:
    """Return torch, which is imported only when it is needed."""
    import torch

    return torch


_AT_A_TIME = 256
_COUNTERS: dict[tuple[Any, int], deque[Counters]] = {}  # by the device and the stream that set them


def _fresh_counters(device: Any) -> Counters:
    """Return the counters of one chunk, which were set with many others: most calls start a kernel less."""
    torch = torch_module()
    stream = torch._C._cuda_getCurrentRawStream(device.index or 0) if device.type == "cuda" else 0
    waiting = _COUNTERS.setdefault((device, stream), deque())
    try:
        return waiting.popleft()
    except IndexError:
        several = torch.zeros((_AT_A_TIME, 2, 2), dtype=torch.int64, device=device)
        several[:, 0, 0] = -1
        waiting.extend(map(Counters, several.unbind(0), several[:, 0].unbind(0)))
        return waiting.popleft()


def prepare(starts: Starts, key: Any, values: Any, counters: Any = None) -> Any:
    """Return the secrets of the columns, and set the counters: no row is bad, none is a copy, none was left.

    A key that is a tensor lies on the device, and stays there: nobody waits for it.
    """
    is_known, n_counters = isinstance(key, int), 0 if counters is None else counters.numel()
    if is_known:
        keys = _kept_keys(key, int(values.shape[1]), str(values.device))
    else:
        keys = values.new_empty(values.shape[1], dtype=torch_module().int64)
    n_keys = 0 if is_known else len(keys)
    if n_keys or n_counters:
        of_key = (c_void_p(None if is_known else key.data_ptr()), c_void_p(keys.data_ptr()), c_int64(n_keys))
        arguments = (*of_key, c_void_p(pointer(counters)), c_int64(n_counters))
        starts.run("copies.cu", (), "prepare", -(-max(n_counters, n_keys) // 256), 256, 0, *arguments)
    return keys


@lru_cache(maxsize=16)
def _kept_keys(key: int, n_columns: int, device: str) -> Any:
    return torch_module().tensor(column_keys(key, n_columns).view(np.int64), device=device)
