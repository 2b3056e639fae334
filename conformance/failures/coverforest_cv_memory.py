"""coverforest: peak memory of a CV+ prediction of 2000 rows, trained on 500 rows and on 2000."""

import tracemalloc

import numpy as np
from coverforest import CoverForestClassifier

for n in (500, 2000):
    X = np.random.default_rng(0).normal(size=(n + 2000, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    made = CoverForestClassifier(10, method="cv", k_init=1, lambda_init=0, random_state=0).fit(X[:n], y[:n])
    tracemalloc.start()
    made.predict(X[n:], alpha=0.1, num_threads=1)
    print(f"{n} training rows: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB")
    tracemalloc.stop()
