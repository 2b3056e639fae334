"""
Distribution of coverage over calibrations
==========================================

One calibration covers a little more or less than guaranteed, and the distribution is known exactly. One forest gives
probabilities for 1,297 digits. 300 times, 400 of them are drawn for calibration and 400 others for testing. The number
of covered rows follows the Beta-binomial distribution.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import betabinom
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import aptset

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
train, rest = order[:500], order[500:]
forest = RandomForestClassifier(random_state=0).fit(X[train], y[train])
probabilities, labels = forest.predict_proba(X[rest]), y[rest]

n = m = 400
covered = []
for seed in range(300):
    drawn = np.random.default_rng(seed).permutation(len(rest))
    calibrates, tests = drawn[:n], drawn[n : n + m]
    calibration = aptset.calibrate(probabilities[calibrates], labels[calibrates], random_state=seed)
    covered.append(calibration.predict_set(probabilities[tests], alpha=0.1).covers(labels[tests]).sum())
print(f"mean coverage {np.mean(covered) / m:.4f}")

# %%
# Different draws share rows, so their counts are dependent. Each count has this distribution.

k = aptset.conformal_rank(n, 0.1)
counts = np.arange(320, 400)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.hist(np.array(covered) / m, bins=(np.arange(320, 401, 4) - 0.5) / m, density=True, alpha=0.5, label="300 draws")
ax.plot(counts / m, betabinom(m, k, n + 1 - k).pmf(counts) * m, label="Beta-binomial distribution")
ax.axvline(0.9, color="grey", linestyle="--")
ax.set(xlabel="share of test rows whose set contains the true label", ylabel="density")
ax.legend()
plt.show()
