"""
Monitor coverage: an alarm after a change
=========================================

A service reads digits, and the true labels arrive later. After 300 rows the camera is moved by one pixel. For each
prediction, in order, the monitor is told whether the set contained the label. If nothing has changed, its evidence ever
reaches 100 in at most one of 100 deployments, however long they run and however often you look.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import aptset

X, y = load_digits(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X / 16, y, test_size=700, random_state=0)
classifier = aptset.ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X_train, y_train)

moved = X_new.copy()
moved[300:] = np.roll(X_new[300:].reshape(-1, 8, 8), 1, axis=2).reshape(-1, 64)

# %%
# Two services: in one the camera stays in place, in the other it is moved.

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for rows, name in ((X_new, "stays"), (moved, "moved")):
    monitor = aptset.CoverageMonitor(n=classifier.n_calibration_, alpha=0.1)
    monitor.update(classifier.predict_set(rows).covers(y_new))
    path = monitor.path()
    ax.semilogy(path["row"], path["evidence"], label=name)
    print(f"{name}: {monitor.sentence()}")
ax.axhline(100, color="black", linestyle="--", linewidth=1)
ax.axvline(300, color="lightgrey", linewidth=1)
ax.set(xlabel="rows in the order of prediction", ylabel="evidence (alarm at 100)")
ax.legend()
plt.show()
