"""Work on blocks of rows, on several threads when there is enough of it; memory is bounded by the block."""

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

BLOCK_CELLS = 2**17  # 1 MiB of float64: several fit the cache of a core
READ_IN_PLACE = 24  # times larger blocks where nothing is copied: calls are few, and memory is bounded all the same
LONG = 2**18  # numbers that are worth a thread where there is little to do for each
_FEWEST_CELLS = 2**16  # of a block: with fewer, Python between the blocks would cost as much as the loops
_BLOCKS_OF_A_THREAD = 2  # so that none waits long for the last one; with more of them all took a fifth longer
_SERIAL_BLOCKS = 3  # up to here other threads cost more than they bring
ALONE = _SERIAL_BLOCKS * _FEWEST_CELLS  # cells that one thread works on


def thread_count() -> int:
    """Return the threads to use: ``APTSET_THREADS`` if set, else the cores this process may run on."""
    wanted = os.environ.get("APTSET_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shared_out(n_rows: int, step: int, cells: int = 1) -> int:
    """Return blocks of about ``step`` rows, or smaller ones, that all threads are done with at about the same time."""
    threads, fewest = thread_count(), -(-_FEWEST_CELLS // cells)
    if threads == 1 or n_rows * cells <= ALONE:
        return step
    rounds = max(_BLOCKS_OF_A_THREAD, round(n_rows / (threads * step)))
    fair = -(-n_rows // (rounds * threads))
    return fair if fair >= fewest else min(step, fewest)


def over_blocks(
    n_rows: int, step: int, work: Callable[[int, int], Result], serial_blocks: int = _SERIAL_BLOCKS
) -> list[Result]:
    """Call ``work(start, stop)`` on consecutive blocks of rows; results in the order of the rows."""
    starts = range(0, n_rows, step)
    stops = [min(start + step, n_rows) for start in starts]
    threads = min(thread_count(), len(stops))
    if len(stops) <= serial_blocks or threads == 1:
        return [work(start, stop) for start, stop in zip(starts, stops, strict=True)]
    return _side_by_side(len(stops), threads, lambda number: work(starts[number], stops[number]))


def _side_by_side(n_blocks: int, threads: int, work: Callable[[int], Result]) -> list[Result]:
    """Call ``work`` on the number of every block.

    This thread takes blocks like the others, and waits for none that has not begun. So a call from within a block, or
    from many threads at once, never waits for a thread that is not free. Numbers are handed out upward: the error that
    is raised is that of the first bad block.
    """
    numbers, errors = count(), dict[int, BaseException]()
    results: list[Any] = [None] * n_blocks

    def take_blocks() -> None:
        while not errors and (number := next(numbers)) < n_blocks:
            try:
                results[number] = work(number)
            except BaseException as error:  # raised below, by the thread that asked
                errors[number] = error

    help_out, jobs = _Help(take_blocks), _helpers()
    for _ in range(threads - 1):
        jobs.put(help_out)
    try:
        take_blocks()
    finally:
        help_out.end()
    if errors:
        raise errors.pop(min(errors))
    return results


class _Help:
    """A job for several threads, which whoever asked can end: threads that come later do nothing."""

    def __init__(self, job: Callable[[], None]) -> None:
        self._job: Callable[[], None] | None = job
        self._lock, self._is_over, self._n_running = Lock(), Lock(), 0
        self._is_over.acquire()

    def __call__(self) -> None:
        with self._lock:
            job = self._job
            self._n_running += job is not None
        if job is None:
            return
        job()
        with self._lock:
            self._n_running -= 1
            if self._job is None and not self._n_running:
                self._is_over.release()

    def end(self) -> None:
        """Wait for the threads that have begun."""
        with self._lock:
            self._job, is_over = None, not self._n_running
        if not is_over:
            self._is_over.acquire()


Jobs = SimpleQueue[Callable[[], None] | None]
_kept: dict[Any, Jobs] = {}
_starting = Lock()


def _helpers() -> Jobs:
    """Return where jobs wait for the threads that help. These are kept: starting sixteen takes a millisecond or two.

    (An executor of the standard library makes a future for every job, which takes as long as a short block.)
    """
    most, cores = thread_count(), frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    with _starting:
        jobs = _kept.get((most, cores))
        if jobs is None:
            for (others, _), old in _kept.items():  # threads stay on the cores that they were started on
                for _ in range(others - 1):
                    old.put(None)
            _kept.clear()
            jobs = _kept[most, cores] = SimpleQueue()
            with suppress(RuntimeError):  # no more threads to be had: those that are there do the work
                for _ in range(most - 1):
                    Thread(target=_serve, args=(jobs,), name="aptset", daemon=True).start()
    return jobs


def _serve(jobs: Jobs) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        job()
        del job  # and what it holds, before the next one comes


def _forget() -> None:
    """Start anew in a child: threads do not live on in it."""
    global _starting
    _starting = Lock()
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def contiguous(block: NDArray[np.generic]) -> NDArray[np.float32] | NDArray[np.float64]:
    """Return the block as the loops read it: C order, float32 as it is, everything else widened to float64."""
    if block.dtype == np.float32:
        return np.ascontiguousarray(block, dtype=np.float32)
    return np.ascontiguousarray(block, dtype=np.float64)


def over_numbers(n: int, work: Callable[[int, int], Result], width: int = 1) -> list[Result]:
    """Call ``work(start, stop)`` on parts of a long array, one for each thread at the most; of a short one at once.

    Where it is a matrix, ``width`` is how many numbers a row has.
    """
    if n * width < 2 * LONG:
        return [work(0, n)]
    return over_blocks(n, max(-(-LONG // width), -(-n // thread_count())), work, serial_blocks=1)


def least_and_most(values: NDArray[Any]) -> tuple[Any, Any]:
    """Return the smallest and the largest of some values, of which there is one."""

    def work(start: int, stop: int) -> tuple[Any, Any]:
        return values[start:stop].min(), values[start:stop].max()

    ranges = over_numbers(len(values), work, width_of(values))
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def all_finite(values: NDArray[Any]) -> bool:
    """Tell whether no value is missing or infinite."""
    flags = over_numbers(len(values), lambda start, stop: np.isfinite(values[start:stop]).all(), width_of(values))
    return all(flags)


def width_of(values: NDArray[Any]) -> int:
    """Return how many numbers each entry of an array has: 1, or those of a row."""
    return int(np.prod(values.shape[1:]))


def looked_up(table: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return the entries (or rows) of a table at some places, which are within it."""
    entries = np.empty((len(places), *table.shape[1:]), dtype=table.dtype)

    def work(start: int, stop: int) -> None:
        entries[start:stop] = table[places[start:stop]]

    width = max(1, width_of(table))
    over_blocks(len(places), shared_out(len(places), max(1, LONG // width), width), work)
    return entries


def sizes_of(pointers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sizes of rows that start at these pointers, the last of which is an end."""
    sizes = np.empty(len(pointers) - 1, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        np.subtract(pointers[start + 1 : stop + 1], pointers[start:stop], out=sizes[start:stop])

    over_numbers(len(sizes), work)
    return sizes
