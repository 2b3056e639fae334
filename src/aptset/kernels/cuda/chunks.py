"""Rows go in chunks: each is worked on, then its copies once more, then what a fast kernel left."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_uint64, c_void_p
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from aptset.kernels.cuda.arguments import Job, changed, pointer
from aptset.kernels.engines.seam import BLOCK_ROWS
from aptset.kernels.rowhash import column_keys

MOST_NOTED = 60 * 2**20  # bytes, of what is noted of rows while they are worked on


class Starts(Protocol):
    """What starts kernels: a device, or what stands for it in tests."""

    multiprocessors: int

    def run(self, name: str, defines: Any, kernel: str, grid: int, block: int, shared: int, *arguments: Any) -> None:
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
) -> tuple[Any, Any]:
    """Run work on chunks of rows, on the copies again, then what was left; count copies, tell the first bad row.

    Seeds are noted in ``seeds``, if they are there. Without ``again`` copies are among what was left. Of logits the
    first bad row comes with a number that stays 0 where all rows are ones of probabilities.
    """
    torch, values = torch_module(), rows.probabilities
    hashes, n = rows.seeds is None, len(values)
    of_row = 12 if seeds is None else 4  # bytes: a seed, a place among the copies
    step = max(1, MOST_NOTED // (of_row + (0 if careful is None else 8)) // BLOCK_ROWS) * BLOCK_ROWS
    most = min(n, step)
    n_chunks = -(-n // step)
    counters = _fresh_counters(n_chunks, str(values.device)).clone()
    kept = (most if seeds is None else 0, most) if hashes else (0, 0)
    noted = torch.empty(kept[0], dtype=torch.int64, device=values.device)
    which = torch.empty(kept[1], dtype=torch.int32, device=values.device)
    slow = None if careful is None else torch.empty(2 * most, dtype=torch.int32, device=values.device)
    keys = keys_of(starts, rows.key, values)
    job = Job(column_keys=pointer(keys), tolerance=rows.tolerance)
    job.slow, job.weights = pointer(slow), tuple(rows.weights.flat.tolist())
    for number, start in enumerate(range(0, n, step)):
        size, of_chunk = min(step, n - start), counters.data_ptr() + 16 * (1 + number)
        job.rows, job.n, job.start, job.u = pointer(values, start), size, start, pointer(rows.u, start)
        job.n_slow, job.bad, job.unlike = of_chunk + 8, counters.data_ptr(), counters.data_ptr() + 8
        job.seeds = pointer(rows.seeds, start)
        job.noted = (pointer(noted) if seeds is None else pointer(seeds, start)) if hashes else None
        chunk = Chunk(start)
        work(chunk, job)
        if hashes:
            found = (c_void_p(pointer(which)), c_void_p(of_chunk))
            first_block = c_uint64((rows.first_row + start) // BLOCK_ROWS)
            arguments = (c_void_p(job.noted), c_int64(size), first_block, c_uint64(rows.side), *found)
            starts.run("copies.cu", {}, "find_copies", -(-size // BLOCK_ROWS), 512, 0, *arguments)
            of_copies = changed(job, which=pointer(which), seeds=job.noted, count=of_chunk, noted=None)
            if again:
                work(chunk, of_copies)
        if careful is not None:  # by now every seed is known
            careful(chunk, job if not hashes else changed(of_copies, which=None) if again else of_copies)
    n_copies = counters[1, 0] if n_chunks == 1 else counters[1:, 0].sum()
    return n_copies, counters[0] if rows.logits else counters[0, 0]


@lru_cache(maxsize=64)
def _fresh_counters(n_chunks: int, device: str) -> Any:
    """Return the first bad row, which is none yet, and for each chunk how many are copies and how many were left."""
    return torch_module().tensor([[-1, 0]] + [[0, 0]] * n_chunks, dtype=torch_module().int64, device=device)


def torch_module() -> Any:
    """Return torch, which is imported only when it is needed."""
    import torch

    return torch


def keys_of(starts: Starts, key: Any, values: Any) -> Any:
    """Return the secrets of the columns on the device; a key that is a tensor lies there, and stays there."""
    if isinstance(key, int):
        return _kept_keys(key, int(values.shape[1]), str(values.device))
    keys = values.new_empty(values.shape[1], dtype=torch_module().int64)
    arguments = (c_void_p(pointer(key.reshape(1))), c_void_p(pointer(keys)), c_int64(len(keys)))
    starts.run("copies.cu", {}, "spread_key", -(-len(keys) // 256), 256, 0, *arguments)
    return keys


@lru_cache(maxsize=16)
def _kept_keys(key: int, n_columns: int, device: str) -> Any:
    return torch_module().tensor(column_keys(key, n_columns).view(np.int64), device=device)
