"""
Overconfident models
====================

Naive Bayes gives one label nearly all the mass, right or wrong. Sets keep their promise all the same, but they are
larger than they need be: a power below 1 makes the rows flatter, and ``tune`` chooses one on rows that it sets aside.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)
train, calibrate, test = np.split(np.random.default_rng(0).permutation(len(y)), [300, 1200])
model = GaussianNB().fit(X[train], y[train])
probabilities, new = model.predict_proba(X[calibrate]), model.predict_proba(X[test])
print(f"sure of more than 99.9 %: {(probabilities.max(axis=1) > 0.999).mean():.0%} of the rows")

powers = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]
found = []
for power in powers:
    score = aptset.Tempered(aptset.Adaptive(), power=power)
    sets = aptset.calibrate(probabilities, y[calibrate], conformity=score, random_state=0).predict_set(new, alpha=0.1)
    found.append((sets.covers(y[test]).mean(), sets.sizes.mean()))
tuned = aptset.tune(probabilities, y[calibrate], alpha=0.1, random_state=0)
chosen = tuned.calibration.predict_set(new, alpha=0.1)
print(f"tune chose {tuned.conformity}: {chosen.sizes.mean():.2f} labels")

# %%
# The same promise with fewer labels.

coverage, size = np.transpose(found)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.semilogx(powers, size, "o-", label="adaptive score of p^power")
left.axhline(chosen.sizes.mean(), color="C3", linestyle=":", label="chosen by tune")
left.set(xlabel="power (1: as the model says)", ylabel="labels in a set")
left.legend()
right.semilogx(powers, coverage, "o-")
right.axhline(0.9, color="grey", linestyle="--")
right.set(xlabel="power", ylabel="coverage", ylim=(0.8, 1))
plt.show()
