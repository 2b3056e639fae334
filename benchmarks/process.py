"""Run in a new process: peak memory of a workload beyond its result, the first call, and the time of an import.

``python -m benchmarks.process memory W2 peaked 50000 1000`` or ``... long report 100000`` or ``... first`` or
``... import numpy``. Prints JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def _status(name: str) -> float:
    """Return a line of the process status in MB (Linux only)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return float(line.split()[1]) / 1024
    raise OSError(name)


def memory(workload: str, kind: str, n: int, n_classes: int) -> dict[str, float]:
    import aptset
    from benchmarks.data import of_kind

    matrix, labels = of_kind(kind, n, n_classes)
    calibration = aptset.calibrate(matrix[:2000], labels[:2000], random_state=0)
    calibration.predict_set(matrix[:2000]), calibration.predict_mask(matrix[:2000])
    work = {
        "W1": lambda: aptset.calibrate(matrix, labels, random_state=0),
        "W2": lambda: calibration.predict_set(matrix),
        "W2 mask": lambda: calibration.predict_mask(matrix),
    }[workload]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    result = work()
    return {"extra_mb": _status("VmHWM") - before - _size_of(result), "result_mb": _size_of(result)}


def long_work(what: str, n: int) -> dict[str, float]:
    """Return the seconds of a long piece of work on n rows, and the peak memory beyond what it was given."""
    import numpy as np

    import aptset
    from benchmarks.data import of_kind

    p, labels = of_kind("peaked", n, 10)
    X = np.random.default_rng(0).normal(size=(n, 10))
    calibration = aptset.calibrate(p[:20_000], labels[:20_000], random_state=0)
    sets = calibration.predict_set(p)
    works = {
        "worst slice": lambda: aptset.worst_slice_coverage(sets, labels=labels, X=X, random_state=0),
        "report": lambda: aptset.report(calibration, p, labels),
        "report with features": lambda: aptset.report(calibration, p, labels, features=X),
        "audit": lambda: _audit(X, labels),
    }
    Path("/proc/self/clear_refs").write_text("5")
    before, start = _status("VmRSS"), time.perf_counter()
    works[what]()
    return {"seconds": time.perf_counter() - start, "extra_mb": _status("VmHWM") - before}


def _audit(X: Any, labels: Any) -> Any:
    from sklearn.naive_bayes import GaussianNB

    import aptset

    return aptset.audit(GaussianNB(), X, labels, alpha=0.1, calibrations=("split",), repetitions=3)


def _size_of(result: Any) -> float:
    if hasattr(result, "indptr"):
        return float(result.indptr.nbytes + result.indices.nbytes) / 2**20
    if hasattr(result, "scores"):
        return float(result.n * 8) / 2**20
    return float(result.nbytes) / 2**20


def first_call() -> dict[str, float]:
    import aptset
    from benchmarks.data import rows

    matrix, labels = rows(10_000, 10, 3.0)
    calibrate, seconds = aptset.calibrate, []  # the import is measured by itself
    for _ in range(5):
        start = time.perf_counter()
        calibrate(matrix, labels, random_state=0)
        seconds.append(time.perf_counter() - start)
    return {"first": seconds[0], "later": min(seconds[1:])}


def import_time(name: str) -> dict[str, float]:
    start = time.perf_counter()
    module = importlib.import_module(name)
    if name == "aptset":
        module.calibrate  # noqa: B018 - names load when first used: count the room that everyone needs
    return {"seconds": time.perf_counter() - start}


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    if task == "memory":
        answer = memory(rest[0], rest[1], int(rest[2]), int(rest[3]))
    elif task == "long":
        answer = long_work(rest[0], int(rest[1]))
    elif task == "first":
        answer = first_call()
    else:
        answer = import_time(*rest)
    print(json.dumps(answer))
