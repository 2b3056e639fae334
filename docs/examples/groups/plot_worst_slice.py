"""
Find the rows with the lowest coverage (worst slice)
====================================================

The worst slice is the slab of the feature space, with at least a tenth of the rows, that has the lowest coverage. It is
searched on one part of the rows and measured on the others. In this example the model sees only one half of each
digit.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)
features = pd.DataFrame(
    {
        "ink": X.sum(axis=1),
        "upper half": X[:, :32].sum(axis=1),
        "left half": X.reshape(-1, 8, 8)[:, :, :4].sum(axis=(1, 2)),
        "middle": X.reshape(-1, 8, 8)[:, 2:6, 2:6].sum(axis=(1, 2)),
    }
)
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:900], order[900:]
classifier = aptset.ConformalClassifier(GaussianNB(), conformity="lac", random_state=0)
sets = classifier.fit(X[train, :32], y[train]).predict_set(X[test, :32])
worst = aptset.worst_slice_coverage(sets, y[test], features.iloc[test])
print(worst.describe())

# %%
# Left: coverage in the slice, measured on rows that were not used to find it, and of all rows, with confidence
# intervals. Right: the rows of the slice.

inside = worst.contains(features.iloc[test])
everywhere = aptset.coverage(sets, y[test])
errors = np.array([[value - value.low, value.high - value] for value in (worst.coverage, everywhere)]).T
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.8), layout="constrained")
left.bar(["in the slice", "all rows"], [worst.coverage, everywhere], yerr=errors, capsize=5, color=["C3", "C0"])
left.axhline(0.9, color="grey", linestyle="--")
left.set(ylabel="coverage", ylim=(0.5, 1))
for part, name, colour in ((~inside, "others", "C0"), (inside, "in the slice", "C3")):
    rows = features.iloc[test][part]
    right.scatter(rows["ink"], rows["middle"], s=8, color=colour, label=name, alpha=0.6)
right.set(xlabel="ink", ylabel="ink in the middle")
right.legend()
plt.show()
