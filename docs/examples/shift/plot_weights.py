"""
Covariate shift: weighted conformal prediction
==============================================

A model was trained and calibrated on rows around x = 0. New rows are around x = 1, where labels are harder to tell
apart. The usual calibration covers less than guaranteed. If you know, or can estimate, how many times as likely each
row is among the new rows, weights restore the coverage.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import aptset

generator = np.random.default_rng(0)


def draw(n, center):
    """Return rows around a center: the place of the label gets blurred to the right."""
    X = np.column_stack([generator.normal(center, 1, n), generator.uniform(0, 10, n)])
    blur = 0.3 + np.exp(X[:, 0] - 0.5)
    return X, np.clip(X[:, 1] + blur * generator.normal(size=n), 0, 9.99).astype(int)


X_train, y_train = draw(2000, 0)
model = LogisticRegression(C=100, max_iter=2000).fit(X_train, y_train)

# %%
# A row at x is exp(x - 1/2) times as likely among the new rows as among the calibration rows. Weights are needed for
# both, up to a common factor.

found = {"no weights": [], "known weights": [], "estimated weights": []}
sizes = []
for repetition in range(40):
    (X, y), (X_new, y_new) = draw(500, 0), draw(500, 1)
    p, p_new = model.predict_proba(X), model.predict_proba(X_new)
    plain = aptset.calibrate(p, y, random_state=repetition)
    found["no weights"].append(plain.predict_set(p_new).covers(y_new).mean())
    known = aptset.calibrate(p, y, weights=np.exp(X[:, 0] - 0.5), random_state=repetition)
    sizes.append(known.effective_size)
    sets = known.predict_set(p_new, weights=np.exp(X_new[:, 0] - 0.5))
    found["known weights"].append(sets.covers(y_new).mean())
    ratio = aptset.density_ratio(X, X_new, random_state=repetition)
    guessed = aptset.calibrate(p, y, weights=ratio.source, random_state=repetition)
    found["estimated weights"].append(guessed.predict_set(p_new, weights=ratio.target).covers(y_new).mean())
for name, coverages in found.items():
    print(f"{name:18} covered {np.mean(coverages):.3f}")
print(f"effective number of the 500 calibration rows: {np.mean(sizes):.0f}")

# %%
# The cost: 500 weighted rows carry the information of fewer rows, so coverage varies more between calibrations.

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.boxplot(found.values(), tick_labels=list(found), orientation="horizontal", widths=0.6)
ax.axvline(0.9, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="coverage of the new rows (40 calibrations); 1 - alpha = 0.9")
ax.invert_yaxis()
plt.show()
