"""
Drift: rows in the order of time
================================

The digits are stored in the order in which they were written, by one writer after the other. In random order, coverage
is as guaranteed. If you calibrate on the first writers and predict the last ones, rows are not exchangeable, and there
is no guarantee.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)


def covered_after(order):
    """Train and calibrate on the first 900 rows of an order; return which of the others are covered."""
    first, last = order[:900], order[900:]
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[first], y[first])
    return classifier.predict_set(X[last]).covers(y[last])


as_written = covered_after(np.arange(len(y)))
shuffled = [covered_after(np.random.default_rng(seed).permutation(len(y))) for seed in range(20)]
print(f"as written: covered {as_written.mean():.3f}; shuffled: {np.mean(shuffled):.3f} on average")
test = aptset.coverage_test(as_written, n=450, alpha=0.1)
print(f"probability of a coverage this low by chance: {test.too_low:.2g}")

# %%
# Coverage in windows of 200 rows. The grey lines are 20 random orders.

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
rows = np.arange(200, len(as_written) + 1) + 900
for holds in shuffled:
    ax.plot(rows, np.convolve(holds, np.ones(200) / 200, "valid"), color="lightgrey", linewidth=0.8)
ax.plot(rows, np.convolve(as_written, np.ones(200) / 200, "valid"), color="C3", label="as written")
ax.axhline(0.9, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="number of the row", ylabel="coverage of the last 200 rows")
ax.legend()
plt.show()
