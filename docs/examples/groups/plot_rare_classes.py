"""
Class-conditional coverage of a rare class
==========================================

Class imbalance: only one in four nines is kept. The marginal guarantee is an average over all rows. With
``groups="label"`` (class-conditional, Mondrian) it holds for every class, with larger sets.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset

X, y = load_digits(return_X_y=True)
keeps = (y != 9) | (np.random.default_rng(0).random(len(y)) < 0.25)
X, y = X[keeps], y[keeps]
ways = {"plain": None, 'groups="label"': "label"}
found = {name: [] for name in ways}
sizes = {name: [] for name in ways}
for seed in range(8):
    order = np.random.default_rng(seed).permutation(len(y))
    train, calibrate, test = np.split(order, [400, 1000])
    forest = RandomForestClassifier(n_estimators=50, random_state=seed).fit(X[train], y[train])
    probabilities, new = forest.predict_proba(X[calibrate]), forest.predict_proba(X[test])
    for name, groups in ways.items():
        calibration = aptset.calibrate(probabilities, y[calibrate], groups=groups, conformity="lac", random_state=seed)
        sets = calibration.predict_set(new, alpha=0.1)
        found[name].append([sets.covers(y[test])[y[test] == label].mean() for label in range(10)])
        sizes[name].append(sets.sizes.mean())

# %%
# Coverage of each digit, means over eight splits.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for shift, (name, values) in zip((-0.2, 0.2), found.items(), strict=True):
    label = f"{name}: {np.mean(sizes[name]):.2f} labels"
    ax.bar(np.arange(10) + shift, np.mean(values, axis=0), width=0.4, label=label)
ax.axhline(0.9, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="true label (9 is rare)", ylabel="coverage", ylim=(0, 1.05), xticks=range(10))
ax.legend(loc="lower left")
plt.show()
