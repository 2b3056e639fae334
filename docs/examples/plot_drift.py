"""
Drift of the writers
====================

The digits stand in the order in which they were written, by one writer after the other. Random splits mix the writers
and keep the promise. Whoever calibrates on the first writers and asks about the last ones is promised nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)
orders = {"as written": np.arange(len(y)), "shuffled": np.random.default_rng(0).permutation(len(y))}
covered = {}
for name, order in orders.items():
    first, last = order[:900], order[900:]
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[first], y[first])
    covered[name] = classifier.predict_set(X[last]).covers(y[last])
    test = aptset.coverage_test(covered[name], n=classifier.n_calibration_, alpha=0.1)
    print(f"{name}: covered {covered[name].mean():.3f}; as low as this by chance: {test.too_low:.2g}")

# %%
# Coverage in windows of 150 rows.

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for name, holds in covered.items():
    ax.plot(np.arange(150, len(holds) + 1) + 900, np.convolve(holds, np.ones(150) / 150, "valid"), label=name)
ax.axhline(0.9, color="grey", linestyle="--")
ax.set(xlabel="number of the row", ylabel="coverage of the last 150 rows")
ax.legend()
plt.show()
