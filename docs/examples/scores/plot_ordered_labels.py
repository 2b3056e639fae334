"""
Ordinal labels: sets that are intervals
=======================================

Grades have an order, and a set of grades should be an interval. Sets of the adaptive score may have gaps; filling
them makes sets larger than the guarantee needs. The scores of :class:`aptset.Ordered` give intervals by themselves.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier

import aptset

X, progression = load_diabetes(return_X_y=True)
grade = np.digitize(progression, np.quantile(progression, np.arange(1, 8) / 8))

# %%
# Thirty random splits: a forest on 200 rows, 100 rows calibrate, 142 are new. For each score: the mean number of grades
# in the interval from the lowest to the highest label of the set, and the share of true grades inside.

ways = {"adaptive, gaps filled": "adaptive", "expanding": "ordered", "central": "central"}
widths, covered = {name: [] for name in ways}, {name: [] for name in ways}
for seed in range(30):
    order = np.random.default_rng(seed).permutation(len(grade))
    train, calibration, new = np.split(order, [200, 300])
    model = RandomForestClassifier(random_state=seed).fit(X[train], grade[train])
    p, q = model.predict_proba(X[calibration]), model.predict_proba(X[new])
    for name, score in ways.items():
        calibrated = aptset.calibrate(p, grade[calibration], conformity=score, random_state=seed, classes=range(8))
        sets = calibrated.predict_set(q, alpha=0.1)
        filled = sets.sizes > 0
        lowest, highest = sets[filled].intervals()
        inside = (lowest <= grade[new][filled]) & (grade[new][filled] <= highest)
        widths[name].append((highest - lowest + 1).sum() / len(new))
        covered[name].append(inside.sum() / len(new))
for name in ways:
    print(f"{name:<22} {np.mean(widths[name]):.2f} grades, coverage {np.mean(covered[name]):.3f}")

# %%
# Every dot is one split.

figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
for name in ways:
    ax.scatter(widths[name], covered[name], s=18, label=f"{name}: {np.mean(widths[name]):.1f} grades")
ax.axhline(0.9, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="grades in the interval, mean of a split", ylabel="coverage")
ax.legend(loc="lower right")
plt.show()
