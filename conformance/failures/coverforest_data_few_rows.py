"""coverforest: 30 rows of which 4 calibrate, 90 % asked for; coverage of one new row in each of 600 draws."""

import numpy as np
from coverforest import CoverForestClassifier

hits = 0
for seed in range(600):
    X = np.random.default_rng(seed).normal(size=(31, 2))
    y = np.random.default_rng([seed]).integers(3, size=31)
    made = CoverForestClassifier(10, method="split", k_init=1, lambda_init=0, random_state=seed)
    made.fit(X[:30], y[:30], calib_size=4 / 30)
    hits += made.predict(X[30:], alpha=0.1, binary_output=True, num_threads=1)[1][0, y[30]]
print("coverage:", hits / 600)
