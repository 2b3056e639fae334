"""
Out-of-distribution rows and empty sets
=======================================

.. index:: ! out-of-distribution, ! outliers

A forest learns the digits 0 to 7. Then eights and nines arrive, which it never saw. The guarantee covers known labels
only. Can such rows be detected? The largest p-value of a row says how well its best label fits. With the homogeneous
score (LAC), it compares the probability of the first label with those of the calibration rows, and
out-of-distribution rows have a small one. With the adaptive score (APS) it does not: a row without a clear first label
has many labels that fit, and its set is large, not empty.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aptset

X, y = load_digits(return_X_y=True)
is_known = y < 8
X_train, X_test, y_train, y_test = train_test_split(X[is_known], y[is_known], random_state=0)
forest = RandomForestClassifier(random_state=0)
found = {}
for score in ("lac", "adaptive"):
    classifier = aptset.ConformalClassifier(forest, conformity=score, random_state=0).fit(X_train, y_train)
    known, strange = classifier.predict_set(X_test, alpha=0.05), classifier.predict_set(X[~is_known], alpha=0.05)
    for name, sets in (("known", known), ("strange", strange)):
        print(f"{score}: {(sets.sizes == 0).mean():.2f} of {name} rows have empty sets, {sets.sizes.mean():.2f} labels")
    found[score] = classifier.p_values(X_test).max(axis=1), classifier.p_values(X[~is_known]).max(axis=1)

# %%
# The largest p-value of each row.

figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.6), layout="constrained", sharey=True)
bins = np.linspace(0, 1, 21)
for ax, (score, (known, strange)) in zip(axes, found.items(), strict=True):
    ax.hist(known, bins=bins, density=True, alpha=0.6, label="0 to 7, as trained")
    ax.hist(strange, bins=bins, density=True, alpha=0.6, label="8 and 9, never seen")
    ax.set(xlabel="largest p-value of the row", ylabel="density", title=score)
axes[0].legend()
plt.show()
