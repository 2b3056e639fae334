"""coverforest: 42 rows train, 18 calibrate, 90 % asked for: coverage of 300 draws, equal seeds, six processes."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from coverforest import CoverForestClassifier


def coverage(process, hits=0):
    for seed in range(300):
        y = np.random.default_rng(seed).integers(3, size=61)
        X = np.random.default_rng([seed, 1]).normal(size=(61, 2)) + np.array([[0, 0], [1.5, 0], [0, 1.5]])[y]
        made = CoverForestClassifier(10, method="split", k_init=1, lambda_init=0, random_state=seed)
        made.fit(X[:60], y[:60], calib_size=0.3)
        hits += made.predict(X[60:], alpha=0.1, binary_output=True, num_threads=1)[1][0, y[60]]
    return float(hits / 300)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        print("coverage:", *pool.map(coverage, range(6)))
