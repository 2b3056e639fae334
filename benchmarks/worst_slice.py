"""Worst slice with 1000 directions: aptset against the direct double loop, in one run.

The direct method is the one of the paper's code: per direction and per start, a cumulative mean over all ends. Run with
``python benchmarks/worst_slice.py``.
"""

from __future__ import annotations

import time

import numpy as np

import aptset

DELTA = 0.1


def direct(covered: np.ndarray, X: np.ndarray, directions: np.ndarray) -> float:
    """Least mean over all slabs of all directions."""
    n = len(covered)
    least = int(np.ceil(DELTA * n))
    best = 1.0
    for v in directions:
        ordered = covered[np.argsort(X @ v)].astype(float)
        for start in range(n - least + 1):
            means = np.cumsum(ordered[start:]) / np.arange(1, n - start + 1)
            best = min(best, means[least - 1 :].min())
    return best


def main() -> None:
    generator = np.random.default_rng(0)
    for n, n_direct in ((1250, 30), (5000, 2), (100_000, 0)):
        X, covered = generator.normal(size=(n, 10)), generator.random(n) < 0.9
        sets = np.column_stack([covered, np.ones(n, dtype=bool)])
        directions = generator.normal(size=(1000, 10))
        common = {"X": X, "labels": np.zeros(n, dtype=int), "method": "in-sample"}
        times = []
        for _ in range(3):
            start = time.perf_counter()
            aptset.worst_slice_coverage(sets, directions=directions, **common)
            times.append(time.perf_counter() - start)
        line = f"n={n:<7} aptset {min(times) * 1e3:8.1f} ms for 1000 directions"
        if n_direct:  # the direct method takes the same time for each direction: a few of them tell
            start = time.perf_counter()
            expected = direct(covered, X, directions[:n_direct])
            seconds = (time.perf_counter() - start) / n_direct * 1000
            found = float(aptset.worst_slice_coverage(sets, directions=directions[:n_direct], **common))
            agree = "agrees" if abs(found - expected) < 1e-12 else f"DIFFERS: {found} and {expected}"
            line += (
                f"   direct {seconds:8.1f} s (from {n_direct} directions)   ratio {seconds / min(times):8.0f}   {agree}"
            )
        print(line)


if __name__ == "__main__":
    main()
