"""Interleaved rounds, the stream yardstick, and peak memory in a process of its own."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Work = Callable[[], Any]


@dataclass
class Line:
    """One measured thing: a row of the tables."""

    workload: str
    who: str
    seconds: float | None = None
    streams: float | None = None
    times_aptset: float | None = None
    agrees: str = ""
    rounds: int = 0
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stream(matrix: np.ndarray) -> Work:
    """Read every byte of a matrix once, on all cores: integer sums, which run at the speed of memory."""
    parts = np.array_split(matrix.ravel().view(np.int64), 4 * cores())
    pool = ThreadPoolExecutor(cores())
    return lambda: list(pool.map(np.add.reduce, parts))


def race(entries: dict[str, Work], rounds: int) -> dict[str, float]:
    """Return the least seconds of each entry; everyone runs once in every round, so all meet the same noise."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for who, work in entries.items():
            gc.collect()
            start = time.perf_counter()
            result = work()
            seconds = time.perf_counter() - start
            del result
            best[who] = min(seconds, best.get(who, np.inf))
    return best


def race_in_pairs(entries: dict[str, Work], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the least seconds of each entry right after itself, and after the others.

    Large results are new memory. A system may take a while to hand it out, above all a virtual machine that gave free
    pages back to its host some seconds ago; right after itself, every entry meets the memory that it let go of.
    """
    best: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for who, work in entries.items():
            first, again = (race({who: work}, 1)[who] for _ in range(2))
            least = best.get(who, (np.inf, np.inf))
            best[who] = min(again, least[0]), min(first, least[1])
    return best


def lines_of(
    workload: str, best: dict[str, float], rounds: int, notes: dict[str, str] | None = None, agrees: Any = None
) -> list[Line]:
    """Turn the results of a race into lines: multiples of the stream, and of the time of aptset."""
    one, ours = best.get("stream"), best.get("aptset")
    return [
        Line(
            workload,
            who,
            seconds,
            seconds / one if one else None,
            seconds / ours if ours else None,
            (agrees or {}).get(who, ""),
            rounds,
            (notes or {}).get(who, ""),
        )
        for who, seconds in best.items()
    ]


def in_new_process(module: str, *arguments: str, numpy_path: bool = False) -> Any:
    """Run a module of this suite in a new process and return what it prints, read as JSON."""
    environment = os.environ | ({"APTSET_KERNELS": "numpy"} if numpy_path else {})
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])
