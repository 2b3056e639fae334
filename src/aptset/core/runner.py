"""Runs many independent tasks: in parallel, resumable after a kill at any moment, the same for any number of workers.

A task is a small value with a text that names it, and a method that computes rows. What a task found is written at once
and whole by the worker that found it (of a cluster: by the process that asked), one file a task; a restart reads these
files and does only what is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from numbers import Integral
from pathlib import Path
from threading import Thread
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.parallel import get_active_backend
from threadpoolctl import threadpool_limits

from aptset.core.files import atomic_write
from aptset.core.validate import warn_caller
from aptset.kernels.blocks import over_blocks, thread_count

Item = TypeVar("Item")


def side_by_side(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run a few jobs on threads, those that take longest first; return what each returns, in their order."""
    return over_blocks(len(jobs), 1, lambda number, _: jobs[number](), serial_blocks=1)


class Bar:
    """A bar that moves as work is done; units of work may cost as much as they like."""

    def __init__(self, total: float | None, label: str, enabled: bool, unit: str = "") -> None:
        self._bar: Any = None
        if enabled and (is_notebook() or is_terminal()):
            kind = _kind_of_bar()
            scale = unit == "rows"  # 1.2M rows
            self._bar = kind(total=total, desc=label, unit=f" {unit or label}", unit_scale=scale, dynamic_ncols=True)

    def advance(self, units: float, note: str = "") -> None:
        """Count work as done and draw the bar."""
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def counting(total: float | None, label: str, enabled: bool) -> Iterator[Callable[[float], None]]:
    """Give a function that counts rows as done, and draws a bar where somebody looks."""
    with closing(Bar(total, label, enabled, unit="rows")) as bar:
        yield bar.advance


def is_notebook() -> bool:
    """Tell whether a notebook shows what happens here."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "ipykernel" in sys.modules and type(shell).__name__ == "ZMQInteractiveShell"


def is_terminal() -> bool:
    """Tell whether standard error is a terminal; programs without a console have none, and some close it."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _kind_of_bar() -> Any:
    """Return the bar that fits: widgets in notebooks that have them, text elsewhere."""
    if is_notebook() and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget

        return widget
    from tqdm import tqdm

    return tqdm


def as_time(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def with_bar(items: Iterable[Item], sizes: list[int], label: str, enabled: bool) -> Iterator[Item]:
    """Yield the items; each stands for ``sizes`` units of work."""
    with closing(Bar(sum(sizes), label, enabled)) as bar:
        for item, size in zip(items, sizes, strict=True):
            yield item
            bar.advance(size)


def check_jobs(jobs: Any) -> int:
    """Return the number of worker processes."""
    if jobs is None:
        return 1
    if isinstance(jobs, bool) or not isinstance(jobs, Integral) or int(jobs) == 0 or int(jobs) < -1:
        raise ValueError(f"jobs must be a positive whole number, or -1 for one worker per core; got {jobs!r}.")
    if int(jobs) > 0:
        return int(jobs)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_folder(folder: Path) -> Path:
    """Make a folder and refuse one that cannot be written, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{folder} must be a folder that can be written; {error.strerror or error}.") from error
    return folder


def warn_damaged(path: Path, what: str) -> None:
    """Say which result cannot be used."""
    warn_caller(f"{path} is damaged and {what}; every other result is kept.")


Value = TypeVar("Value")


class Shared(Generic[Value]):
    """A value that goes to a cluster once, and not with every task.

    joblib's dask backend scatters those arguments that say that they are large; what they hold, it does not ask.
    """

    def __init__(self, value: Value) -> None:
        self.value = value

    def __sizeof__(self) -> int:
        return 2**20


def is_on_cluster() -> bool:
    """Tell whether ``joblib.parallel_config`` names a backend such as "dask", which gives results as they come."""
    backend, _ = get_active_backend()
    is_local = type(backend).__module__ == "joblib._parallel_backends"
    return not is_local and bool(getattr(backend, "supports_return_generator", False))


PACKAGES = ("aptset", "numpy", "scipy", "scikit-learn", "torch", "quantile-forest")


@cache
def versions() -> dict[str, str]:
    """Return the versions of what results depend on; packages that are not installed are left out."""
    numbers = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            continue
    return numbers


Row = dict[str, Any]


class Task(Protocol):
    """A unit of work that can be sent to another process."""

    @property
    def key(self) -> str:
        """A text that is different for every task, and that says all the result depends on."""
        ...

    @property
    def weight(self) -> float:
        """About how long the task takes compared with others; only the time left depends on it."""
        ...

    def run(self) -> list[Row]:
        """Compute the rows: plain values by name, and arrays of numbers, which files hold as lists."""
        ...


AnyTask = TypeVar("AnyTask", bound=Task)


class Done(NamedTuple):
    """What a task found, how long it took, and with which versions of what."""

    rows: list[Row]
    seconds: float
    versions: dict[str, str]


def run_tasks(
    tasks: Sequence[AnyTask], folder: Path | None = None, jobs: int | None = 1, progress: bool = False
) -> list[Done]:
    """Run tasks, in the order given; return what each found, in that order.

    Parameters
    ----------
    tasks : sequence of tasks
        The work; see :class:`Task`.
    folder : path, optional
        Where each finished task is written; what is there already is not done again. None keeps results in memory.
    jobs : int, default=1
        Number of worker processes; -1 for one per core. No result depends on it. Within
        ``joblib.parallel_config("dask")`` anything but 1 means the workers of the cluster.
    progress : bool, default=False
        Show a bar with the time left, on terminals and in notebooks.
    """
    twice = next((key for key, times in Counter(task.key for task in tasks).items() if times > 1), None)
    if twice is not None:  # one would stand for the other
        raise ValueError(f"tasks must have different keys; {twice!r} is there twice.")
    workers = check_jobs(jobs)
    results: dict[int, Done] = {}
    if folder is not None:
        check_folder(folder)
        results = _finished(tasks, folder)
    missing = [number for number in range(len(tasks)) if number not in results]
    bar = Bar(sum(tasks[number].weight for number in missing), "tasks", progress and bool(missing))
    is_elsewhere = jobs not in (None, 1) and is_on_cluster()
    new = _compute_elsewhere(tasks, missing, folder) if is_elsewhere else _compute(tasks, missing, folder, workers)
    for number, done in new:
        results[number] = done
        bar.advance(tasks[number].weight, f"{len(results)}/{len(tasks)}")
    bar.close()
    return [results[number] for number in range(len(tasks))]


def file_of(task: Task, folder: Path) -> Path:
    """Return where the result of a task is kept."""
    readable = re.sub(r"[^A-Za-z0-9.+-]+", "_", task.key)[:100]
    return folder / f"{readable}-{hashlib.sha256(task.key.encode()).hexdigest()[:12]}.json"


_SHARED_BYTES = 2**16


def _compute(
    tasks: Sequence[AnyTask], missing: list[int], folder: Path | None, workers: int
) -> Iterator[tuple[int, Done]]:
    """Yield results as they come."""
    if workers == 1 or len(missing) < 2:
        yield from (_run_one(number, tasks[number], folder) for number in missing)
        return
    with parallel_config("loky", inner_max_num_threads=1):
        # Arrays are written once and read by all workers; what is shorter goes along with every task.
        settings: dict[str, Any] = {"batch_size": 1, "pre_dispatch": "3*n_jobs", "max_nbytes": _SHARED_BYTES}
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", **settings)
    threads = max(1, thread_count() // workers)
    with ExitStack() as stack:
        stack.enter_context(parallel)
        yield from parallel(delayed(_run_beside)(threads, number, tasks[number], folder) for number in missing)
        # Then joblib waits, a tenth of a second and more, until workers have let go of shared arrays: nobody else needs
        # to.
        Thread(target=stack.pop_all().close, name="aptset").start()


def _run_beside(threads: int, number: int, task: AnyTask, folder: Path | None) -> tuple[int, Done]:
    """Run a task in a process beside others: loops take its share of the cores."""
    os.environ["APTSET_THREADS"] = str(threads)
    return _run_one(number, task, folder)


def _compute_elsewhere(tasks: Sequence[AnyTask], missing: list[int], folder: Path | None) -> Iterator[tuple[int, Done]]:
    """Yield results of a cluster as they come; they are written here, since workers may have other disks."""
    shared = Shared(list(tasks))
    parallel = Parallel(n_jobs=-1, return_as="generator_unordered", batch_size=1, pre_dispatch="3*n_jobs")
    for number, done in parallel(delayed(_run_there)(shared, number) for number in missing):
        _keep(tasks[number], done, folder)
        yield number, done


def _run_there(shared: Shared[list[AnyTask]], number: int) -> tuple[int, Done]:
    """Run a task on a worker, which does not send parts of it on to others."""
    with parallel_config("sequential"):
        return _run_one(number, shared.value[number], None)


def _run_one(number: int, task: AnyTask, folder: Path | None) -> tuple[int, Done]:
    """Run a task on one thread, so that sums come in one order, and write what it found."""
    start = time.monotonic()
    with threadpool_limits(1):
        rows = task.run()
    done = Done(rows, round(time.monotonic() - start, 3), versions())
    _keep(task, done, folder)
    return number, done


def as_json(value: Any) -> str:
    """Return plain values, and arrays as lists, as a text; NaN stays NaN: it is what a mean over nothing is."""
    return json.dumps(value, default=lambda array: array.tolist())


def _keep(task: Task, done: Done, folder: Path | None) -> None:
    """Write what a task found, with a digest."""
    if folder is not None:
        body = as_json({"key": task.key, **done._asdict()})
        whole = json.dumps({"digest": hashlib.sha256(body.encode()).hexdigest(), "body": body})
        with atomic_write(file_of(task, folder)) as file:
            file.write(whole.encode())


def _decode(content: bytes) -> tuple[str, Done] | None:
    """Return the key and the result that a file holds, or None if it is damaged."""
    try:
        outer = json.loads(content)
        if hashlib.sha256(outer["body"].encode()).hexdigest() != outer["digest"]:
            return None
        body = json.loads(outer["body"])
        return body["key"], Done(body["rows"], body["seconds"], body["versions"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _finished(tasks: Sequence[AnyTask], folder: Path) -> dict[int, Done]:
    """Read the results that are there; warn about damaged ones, which will be computed again."""
    results = {}
    for number, task in enumerate(tasks):
        path = file_of(task, folder)
        if path.is_file():
            content = _decode(path.read_bytes())
            if content is not None and content[0] == task.key:
                results[number] = content[1]
            else:
                warn_damaged(path, "is computed again")
    return results


def read_results(folder: Path) -> dict[str, Done]:
    """Return every result in a folder by its key; damaged ones are named and left out."""
    results = {}
    for path in sorted(folder.glob("*.json")):
        content = _decode(path.read_bytes())
        if content is None:
            warn_damaged(path, "is left out")
        else:
            results[content[0]] = content[1]
    return results
