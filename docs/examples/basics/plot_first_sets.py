"""
First prediction sets: handwritten digits
=========================================

Easy rows get one label, hard rows get several. The sets contain the true label in at least 98 % of the rows on average
(``alpha=0.02``), although the model alone is right in only 95 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset

X_train, X_test, y_train, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression())
classifier = aptset.ConformalClassifier(model, alpha=0.02, random_state=0)
sets = classifier.fit(X_train, y_train).predict_set(X_test)
print(f"{sets.covers(y_test).mean():.1%} of the sets contain the true label")

# %%
# Five digits of each set size, from one label to three. A red set misses the true label.

figure, axes = plt.subplots(3, 5, figsize=(8, 5.6), layout="constrained")
for size, line in enumerate(axes, start=1):
    rows = np.flatnonzero(sets.sizes == size)[:5]
    for ax, row in zip(line, rows, strict=True):
        members = ", ".join(map(str, sets[row]))
        ax.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{{{members}}}", color="C0" if y_test[row] in sets[row] else "C3")
        ax.set(xticks=[], yticks=[], xlabel=f"truth: {y_test[row]}")
    line[0].set_ylabel(f"{size} label{'s' if size > 1 else ''}")
plt.show()
