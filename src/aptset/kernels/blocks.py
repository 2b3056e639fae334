"""Work on blocks of rows, on several threads when there is enough of it; memory is bounded by the block."""

import os
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

BLOCK_CELLS = 2**17  # 1 MiB of float64: several fit the cache of a core
READ_IN_PLACE = 8  # times larger blocks where nothing is copied: calls are few, and memory is bounded all the same
_SERIAL_BLOCKS = 3  # up to here a pool of threads costs more than it brings


def thread_count() -> int:
    """Return the threads to use: ``APTSET_THREADS`` if set, else the cores this process may run on."""
    wanted = os.environ.get("APTSET_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_blocks(n_rows: int, step: int, work: Callable[[int, int], Result]) -> list[Result]:
    """Call ``work(start, stop)`` on consecutive blocks of rows; results in the order of the rows."""
    starts = range(0, n_rows, step)
    stops = [min(start + step, n_rows) for start in starts]
    threads = min(thread_count(), len(stops))
    if len(stops) <= _SERIAL_BLOCKS or threads == 1:
        return [work(start, stop) for start, stop in zip(starts, stops, strict=True)]
    from concurrent.futures import ThreadPoolExecutor  # slow to import: only when there is work for it

    # A pool per call: one that is kept would not survive a fork.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, starts, stops))


def contiguous(block: NDArray[np.generic]) -> NDArray[np.float32] | NDArray[np.float64]:
    """Return the block as the loops read it: C order, float32 as it is, everything else widened to float64."""
    if block.dtype == np.float32:
        return np.ascontiguousarray(block, dtype=np.float32)
    return np.ascontiguousarray(block, dtype=np.float64)
