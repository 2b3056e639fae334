"""
Compare nonconformity scores: APS, RAPS, LAC and others
=======================================================

The guarantee holds for every score. Scores differ in the size of the sets, and in which classes are covered less than
others. The figure shows means over five splits of the digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset

X, y = load_digits(return_X_y=True)
scores = ["adaptive", "regularized", "saps", "margin", "homogeneous", "rank"]
found = {score: [] for score in scores}
for seed in range(5):
    order = np.random.default_rng(seed).permutation(len(y))
    train, calibrate, test = np.split(order, [200, 1000])
    model = RandomForestClassifier(n_estimators=50, random_state=seed).fit(X[train], y[train])
    probabilities, new = model.predict_proba(X[calibrate]), model.predict_proba(X[test])
    for score in scores:
        calibration = aptset.calibrate(probabilities, y[calibrate], conformity=score, random_state=seed)
        result = aptset.evaluate(calibration.predict_set(new, alpha=0.1), y[test], alpha=0.1)
        found[score].append((result.coverage, result.mean_size, min(result.by_label.values())))
means = {score: np.mean(values, axis=0) for score, values in found.items()}

# %%
# Small sets are on the left, even coverage of all classes is at the top. The lowest of ten coverages is low partly by
# chance: if every class is covered with 0.9, the lowest of ten classes with about 80 test rows each is 0.85 on average
# (dotted line).

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for score, (coverage, size, lowest) in means.items():
    ax.scatter(size, lowest, s=70, label=f"{score}: {coverage:.3f}")
ax.axhline(0.9, color="grey", linestyle="--")
ax.axhline(0.85, color="grey", linestyle=":")
ax.set(xlabel="labels in a set", ylabel="lowest coverage of a class")
ax.legend(title="coverage of all rows", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()
