"""
Temperature scaling and automatic choice of a score
===================================================

The probabilities of a forest are less extreme than they should be, and the adaptive score gives larger sets for it. A
power above 1 makes probabilities more extreme, a power below 1 less, in calibration and prediction. The guarantee holds
either way. ``tune`` chooses a score and a power on rows that it sets aside.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset

X, y = load_digits(return_X_y=True)
powers = [0.5, 1, 1.5, 2, 3, 4, 6, 8]
found, chosen = [], []
for seed in range(4):
    train, calibrate, test = np.split(np.random.default_rng(seed).permutation(len(y)), [400, 1200])
    forest = RandomForestClassifier(n_estimators=50, random_state=seed).fit(X[train], y[train])
    probabilities, new = forest.predict_proba(X[calibrate]), forest.predict_proba(X[test])
    results = []
    for power in powers:
        score = aptset.Tempered(aptset.Adaptive(), power=power)
        calibration = aptset.calibrate(probabilities, y[calibrate], conformity=score, random_state=seed)
        sets = calibration.predict_set(new, alpha=0.1)
        results.append((sets.covers(y[test]).mean(), sets.sizes.mean()))
    found.append(results)
    tuned = aptset.tune(probabilities, y[calibrate], alpha=0.1, random_state=seed)
    sets = tuned.calibration.predict_set(new, alpha=0.1)
    chosen.append((sets.covers(y[test]).mean(), sets.sizes.mean()))
    print(f"tune chose {tuned.conformity}: {sets.sizes.mean():.2f} labels")

# %%
# Means over four splits: the same guarantee with fewer labels.

coverage, size = np.mean(found, axis=0).T
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot(powers, size, "o-", label="APS of p^power")
left.axhline(np.mean(chosen, axis=0)[1], color="C3", linestyle=":", label="chosen by tune")
left.set(xlabel="power (1: as the model says)", ylabel="labels in a set")
left.legend()
right.plot(powers, coverage, "o-")
right.plot(1, np.mean(chosen, axis=0)[0], "C3x")
right.axhline(0.9, color="grey", linestyle="--")
right.set(xlabel="power (cross: chosen by tune)", ylabel="coverage", ylim=(0.8, 1))
plt.show()
