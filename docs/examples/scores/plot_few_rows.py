"""
Small data sets: split, CV+, jackknife+, minimax
================================================

There are 60 wines with four measurements. A split trains on 30 and calibrates on 30. CV+ and jackknife+ use every row
for both, and guarantee less. Minimax guarantees as much as a split.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_wine(return_X_y=True)
ways = {"split": "split", "CV+": "cv+", "jackknife+": "jackknife+", "minimax": "minimax"}
sizes, covered, proven = ({name: [] for name in ways} for _ in range(3))
for seed in range(12):
    X_train, X_test, y_train, y_test = train_test_split(X[:, :4], y, train_size=60, random_state=seed, stratify=y)
    for name, calibration in ways.items():
        classifier = aptset.ConformalClassifier(GaussianNB(), calibration=calibration, random_state=seed)
        sets = classifier.fit(X_train, y_train).predict_set(X_test, alpha=0.1)
        sizes[name].append(sets.sizes.mean())
        covered[name].append(sets.covers(y_test).mean())
        proven[name] = classifier.guarantee(0.1)

# %%
# Left: set sizes in 12 splits. Right: coverage, and the proven coverage on average over all splits (red).

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
places = np.arange(len(ways))
left.boxplot(list(sizes.values()), tick_labels=list(ways))
left.set(ylabel="labels in a set")
right.boxplot(list(covered.values()), tick_labels=list(ways))
right.hlines([proven[name] for name in ways], places + 0.7, places + 1.3, color="C3")
right.axhline(0.9, color="grey", linestyle="--")
right.set(ylabel="coverage")
plt.show()
