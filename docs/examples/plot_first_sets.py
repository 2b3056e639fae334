"""
Sets of handwritten digits
==========================

Easy rows get one label, hard rows several. A few sure rows get none, by chance, so that no more is covered than was
asked for. Here are some of each.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import aptset

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
classifier = aptset.ConformalClassifier(RandomForestClassifier(random_state=0), alpha=0.1, random_state=0)
sets = classifier.fit(X_train, y_train).predict_set(X_test)
print(f"{sets.covers(y_test).mean():.1%} of the sets hold the true label")

# %%
# Four digits of each size, with their sets. A red set misses the true label.

figure, axes = plt.subplots(4, 4, figsize=(7, 7.5), layout="constrained")
for size, line in enumerate(axes):
    rows = np.flatnonzero(sets.sizes == size)[:4]
    for ax, row in zip(line, rows, strict=True):
        members = ", ".join(map(str, sets[row]))
        ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{{{members}}}", color="C0" if y_test[row] in sets[row] else "C3")
        ax.set(xticks=[], yticks=[], xlabel=f"truth: {y_test[row]}")
    line[0].set_ylabel(f"{size} labels")
plt.show()
