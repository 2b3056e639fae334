"""
How many calibration rows are needed?
=====================================

The coverage of one calibration follows a Beta distribution. ``calibration_size`` returns the number of calibration rows
that keeps it within a margin. The digits show it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset

for within in (0.05, 0.02, 0.01):
    print(f"within {within}: {int(aptset.calibration_size(alpha=0.1, within=within)):,} rows")

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
forest = RandomForestClassifier(random_state=0).fit(X[order[:400]], y[order[:400]])
probabilities, labels = forest.predict_proba(X[order[400:]]), y[order[400:]]
numbers = [20, 50, 100, 200, 400]
found = {n: [] for n in numbers}
for n in numbers:
    for seed in range(60):
        rows = np.random.default_rng(seed).permutation(len(labels))
        calibration = aptset.calibrate(probabilities[rows[:n]], labels[rows[:n]], random_state=seed)
        found[n].append(calibration.predict_set(probabilities[rows[n:]], alpha=0.1).covers(labels[rows[n:]]).mean())

# %%
# Each dot is a calibration. In theory the band contains 95 of 100.

grid = np.unique(np.geomspace(20, 3500, 100).astype(int))
ranks = np.array([aptset.conformal_rank(int(n), 0.1) for n in grid])
low, high = beta(ranks, grid + 1 - ranks).interval(0.95)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.fill_between(grid, low, high, alpha=0.25)
for n, values in found.items():
    ax.plot(n * np.linspace(0.95, 1.05, len(values)), values, ".", color="C0", markersize=3)
ax.axhline(0.9, color="grey", linestyle="--")
ax.set(xscale="log", xlabel="calibration rows", ylabel="coverage of one calibration")
plt.show()
