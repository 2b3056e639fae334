"""CV+ and jackknife+ from fold probabilities: aptset against the direct loop, in one run.

The direct loop is the one of the paper's code: per fold and per label the scores of all new rows by row-wise gathers,
then one vector comparison per held-out sample. Run with ``python benchmarks/cross.py``.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np

import aptset

ALPHA = 0.1


def draw(generator: np.random.Generator, n: int, n_classes: int) -> np.ndarray:
    return generator.dirichlet(np.full(n_classes, 0.3), size=n)


def all_scores(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Scores of every label: one gather per row and label, as in the paper's code."""
    order = np.argsort(-p, axis=1)
    ordered = np.take_along_axis(p, order, axis=1)
    total = ordered.cumsum(axis=1)
    scores = np.empty_like(p)
    for label in range(p.shape[1]):
        rank = [np.where(row == label)[0][0] for row in order]
        upto = np.array([total[i, r] for i, r in enumerate(rank)])
        own = np.array([ordered[i, r] for i, r in enumerate(rank)])
        scores[:, label] = upto - u * own
    return scores


def direct_loop(own: list[np.ndarray], new: list[np.ndarray], u: np.ndarray) -> np.ndarray:
    """Membership by one comparison per held-out sample and label."""
    n = sum(len(scores) for scores in own)
    counts = np.zeros(new[0].shape)
    for scores, p in zip(own, new, strict=True):
        of_new = all_scores(p, u)
        for label in range(p.shape[1]):
            for score in scores:
                counts[:, label] += score < of_new[:, label]
    return counts < (1 - ALPHA) * (n + 1)


def best_of(function, rounds: int) -> tuple[float, object]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare(name: str, n: int, n_folds: int, m: int, n_classes: int) -> None:
    generator = np.random.default_rng(0)
    out_of_fold, labels = draw(generator, n, n_classes), generator.integers(n_classes, size=n)
    folds, u, u_new = np.arange(n) % n_folds, generator.random(n), generator.random(m)
    new = [draw(generator, m, n_classes) for _ in range(n_folds)]
    own = all_scores(out_of_fold, u)[np.arange(n), labels]
    own = [own[folds == fold] for fold in range(n_folds)]
    calibration = aptset.calibrate_cv(out_of_fold, labels, folds, u=u)
    seconds, sets = best_of(lambda: calibration.predict_set(new, ALPHA, u=u_new), rounds=3)
    loop, mask = best_of(lambda: direct_loop(own, new, u_new), rounds=1)
    tracemalloc.start()
    calibration.predict_set(new, ALPHA, u=u_new)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    differ = int((sets.mask != mask).sum())
    print(
        f"{name:<40} aptset {seconds * 1e3:8.1f} ms   direct loop {loop:7.2f} s   ratio {loop / seconds:7.0f}   "
        f"peak extra {peak:5.1f} MiB   {differ} of {mask.size} memberships differ"
    )


if __name__ == "__main__":
    compare("CV+ K=10, n=5000, m=5000, C=10", 5000, 10, 5000, 10)
    compare("CV+ K=10, n=5000, m=5000, C=100", 5000, 10, 5000, 100)
    compare("jackknife+ n=1000, m=5000, C=10", 1000, 1000, 5000, 10)
