"""coverforest: randomised sets (the default) of 300 rows, and of the same rows in reverse order; random_state=0."""

import numpy as np
from coverforest import CoverForestClassifier

X = np.random.default_rng(0).normal(size=(800, 2))
y = (X[:, 0] + np.random.default_rng(1).normal(size=800) > 0).astype(int) + (X[:, 1] > 0)
made = CoverForestClassifier(10, method="split", k_init=1, lambda_init=0, random_state=0).fit(X[:500], y[:500])
sets = [made.predict(rows, alpha=0.1, binary_output=True, num_threads=1)[1] for rows in (X[500:], X[500:][::-1])]
print("rows with another set:", int((sets[0] != sets[1][::-1]).any(axis=1).sum()), "of 300")
