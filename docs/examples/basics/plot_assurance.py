"""
This calibration, not the average
=================================

Half of all calibrations cover less than they promise on average. With assurance, one in twenty does at most.
"""

import matplotlib.pyplot as plt
import numpy as np

import aptset

generator = np.random.default_rng(0)
n, alpha, calibrations = 200, 0.1, 2000
scores = np.sort(generator.random((calibrations, n)), axis=1)  # without ties coverage is a uniform order statistic
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
bins = np.linspace(0.82, 1.0, 46)
for assurance, name in ((None, "on average"), (0.95, "assurance 0.95")):
    coverage = scores[:, aptset.conformal_rank(n, alpha, assurance) - 1]
    below = np.mean(coverage < 1 - alpha)
    print(f"{name}: {below:.3f} of calibrations cover less than 0.9")
    ax.hist(coverage, bins, alpha=0.6, label=f"{name}: {below:.0%} below")

# %%
# Each calibration has 200 rows. The whole law moves to the right, until 95 of 100 calibrations keep the promise.

ax.axvline(1 - alpha, color="grey", linestyle="--")
ax.set(xlabel="coverage of one calibration", ylabel="calibrations")
ax.legend()
plt.show()
