"""
Which score?
============

Every score keeps the promise. They differ in how many labels it takes, and in who pays: some labels are covered
less than others. Means over five splits of the digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)
scores = ["adaptive", "regularized", "saps", "margin", "homogeneous", "rank"]
found = {score: [] for score in scores}
for seed in range(5):
    order = np.random.default_rng(seed).permutation(len(y))
    train, calibrate, test = np.split(order, [500, 1100])
    model = GaussianNB(var_smoothing=1e-3).fit(X[train], y[train])
    probabilities, new = model.predict_proba(X[calibrate]), model.predict_proba(X[test])
    for score in scores:
        calibration = aptset.calibrate(probabilities, y[calibrate], conformity=score, random_state=seed)
        result = aptset.evaluate(calibration.predict_set(new, alpha=0.1), y[test], alpha=0.1)
        found[score].append((result.coverage, result.mean_size, min(result.by_label.values())))
means = {score: np.mean(values, axis=0) for score, values in found.items()}

# %%
# Small sets are to the left, an even coverage is at the top.

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for score, (coverage, size, lowest) in means.items():
    ax.scatter(size, lowest, s=60)
    ax.annotate(f"{score} ({coverage:.2f})", (size, lowest), (6, 4), textcoords="offset points")
ax.axhline(0.9, color="grey", linestyle="--")
ax.set(xlabel="labels in a set", ylabel="lowest coverage of a label", title="in brackets: coverage of all rows")
ax.margins(x=0.25, y=0.15)
plt.show()
