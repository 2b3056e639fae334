"""
Strange rows
============

The largest p-value of a row says how strange it is. A forest learns the digits 0 to 7; then eights and nines come,
which it never saw. The promise is about known labels, so nothing holds for these, but many of them can be told.
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
classifier = aptset.ConformalClassifier(RandomForestClassifier(random_state=0), random_state=0).fit(X_train, y_train)
known = classifier.p_values(X_test).max(axis=1)
strange = classifier.p_values(X[~is_known]).max(axis=1)
for alpha in (0.05, 0.1, 0.2):
    print(f"empty sets at {alpha}: {np.mean(known <= alpha):.2f} of known, {np.mean(strange <= alpha):.2f} of strange rows")

# %%
# Known digits are spread out; most eights and nines have no label that fits well.

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
bins = np.linspace(0, 1, 21)
ax.hist(known, bins=bins, density=True, alpha=0.6, label="0 to 7, as trained")
ax.hist(strange, bins=bins, density=True, alpha=0.6, label="8 and 9, never seen")
ax.set(xlabel="largest p-value of the row", ylabel="density")
ax.legend()
plt.show()
