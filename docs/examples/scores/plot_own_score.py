"""
Write your own nonconformity score
==================================

A score is a function of the position of a label in its row. This one mixes two known scores. Its weight goes from the
homogeneous score (LAC: small sets, hard classes are missed more) to the adaptive one (APS: larger sets, misses are
spread evenly).
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset


@dataclass(frozen=True)
class Mixed:
    """Between one minus the probability and the adaptive score."""

    weight: float

    def of(self, places):
        """Return a score for every label of every row."""
        adaptive = places.above + (1 - places.u) * places.own
        homogeneous = places.total - places.own
        return (self.weight * adaptive + (1 - self.weight) * homogeneous) / places.total


X, y = load_digits(return_X_y=True)
weights = np.linspace(0, 1, 6)
found = np.zeros((4, len(weights), 3))
for seed in range(4):
    train, calibrate, test = np.split(np.random.default_rng(seed).permutation(len(y)), [400, 1000])
    forest = RandomForestClassifier(n_estimators=50, random_state=seed).fit(X[train], y[train])
    probabilities, new = forest.predict_proba(X[calibrate]), forest.predict_proba(X[test])
    for place, weight in enumerate(weights):
        calibration = aptset.calibrate(probabilities, y[calibrate], conformity=Mixed(float(weight)), random_state=seed)
        result = aptset.evaluate(calibration.predict_set(new, alpha=0.1), y[test])
        found[seed, place] = result.coverage, result.mean_size, min(result.by_label.values())
coverage, size, lowest = found.mean(axis=0).T

# %%
# For every weight, the guarantee is that nine of ten sets contain the true label. (The lowest of ten coverages is low
# partly by chance.)

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot(weights, coverage, "o-", label="all rows")
left.plot(weights, lowest, "s-", label="worst class")
left.axhline(0.9, color="grey", linestyle="--")
left.set(xlabel="weight of the adaptive score", ylabel="coverage", ylim=(0.5, 1))
left.legend(loc="lower left")
right.plot(weights, size, "o-")
right.set(xlabel="weight of the adaptive score", ylabel="labels in a set")
plt.show()
