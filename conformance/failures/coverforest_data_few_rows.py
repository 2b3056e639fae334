"""coverforest: 29 rows of which 3 calibrate, 90 % asked for; coverage of one new row in each of 600 draws."""

import numpy as np
from coverforest import CoverForestClassifier

hits = 0
for seed in range(600):
    X = np.random.default_rng(seed).normal(size=(30, 2))
    y = np.random.default_rng([seed, 1]).integers(3, size=30)
    made = CoverForestClassifier(10, method="split", k_init=1, lambda_init=0, random_state=seed)
    made.fit(X[:29], y[:29], calib_size=3 / 29)
    hits += made.predict(X[29:], alpha=0.1, binary_output=True, num_threads=1)[1][0, y[29]]
print("coverage:", hits / 600)
