"""
Decide, with a promise
======================

How many rows can be acted on, by the share of wrong ones that is allowed: as a batch, by one threshold that nine of ten
calibrations get right, and as the calibration rows themselves estimate it, with nothing promised.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import aptset

X, y = load_digits(return_X_y=True)
model = GaussianNB(var_smoothing=0.1).fit(X[:500], y[:500])
P = model.predict_proba(X)
rule = aptset.learn_acceptance(P[500:1200], y[500:1200], random_state=0)
new, truth = P[1200:], y[1200:]
errors = np.array([0.01, 0.02, 0.03, 0.05, 0.07, 0.1])
batch = [rule.accept(new, error) for error in errors if error * len(new) >= 5]
stream = [rule.threshold(error, assurance=0.9).accept(new) for error in errors]
wrong = new.argmax(axis=1) != truth
for error, act in zip(errors, stream, strict=True):
    share_wrong = wrong[act].mean() if act.any() else 0.0
    print(f"error {error}: {act.mean():.1%} are acted on, {share_wrong:.1%} of them wrong")

# %%
# The estimate looks best, and promises nothing.

curve = rule.curve()
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.plot(curve.wrong, curve.share, ":", color="grey", label="estimated, not promised")
ax.plot(errors[-len(batch) :], [act.mean() for act in batch], "s--", label="a batch: on average over batches")
ax.plot(errors, [act.mean() for act in stream], "o-", label="one threshold: in 9 of 10 calibrations")
ax.set(xlabel="share of wrong rows that is allowed", ylabel="share of rows acted on", xlim=(0, 0.105), ylim=(0, 1))
ax.legend(loc="lower right")
plt.show()
