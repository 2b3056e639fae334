"""
Map of prediction sets in two dimensions
========================================

Two measurements of iris flowers do not separate two of the three species. Where the model is certain, the set has one
label. Where species overlap, it has two.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

import aptset

iris = load_iris()
X, y = iris.data[:, :2], iris.target
classifier = aptset.ConformalClassifier(
    KNeighborsClassifier(25), calibration="cv+", randomized=False, random_state=0
).fit(X, y)

length, width = np.meshgrid(np.linspace(4, 8.2, 120), np.linspace(1.8, 4.6, 90))
grid = np.column_stack([length.ravel(), width.ravel()])
mask = classifier.predict_set(grid, alpha=0.1).mask

# %%
# Each label has a colour. A set with two labels has a mixed colour.

colours = np.array([[0.12, 0.47, 0.71], [0.17, 0.63, 0.17], [0.84, 0.15, 0.16]])
weights = mask / mask.sum(axis=1, keepdims=True).clip(min=1)
picture = np.where(mask.any(axis=1, keepdims=True), weights @ colours, 1.0).reshape(*length.shape, 3)
figure, ax = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
ax.imshow(picture, origin="lower", extent=(4, 8.2, 1.8, 4.6), aspect="auto", alpha=0.45)
ax.scatter(*X.T, c=colours[y], edgecolor="white", s=28)
ax.set(xlabel=iris.feature_names[0], ylabel=iris.feature_names[1])
handles = [Patch(color=colour, label=name) for colour, name in zip(colours, iris.target_names, strict=True)]
ax.legend(handles=handles, loc="upper left")
plt.show()
