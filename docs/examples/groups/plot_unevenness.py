"""
Is coverage even? One number
============================

Marginal coverage is an average. A score that cuts all rows alike covers easy rows too much and hard rows too little;
:func:`aptset.coverage_unevenness` says by how much, also where no slab of the features shows it.
"""

import matplotlib.pyplot as plt
import numpy as np

import aptset

# %%
# Rows within a disc are hard, the others are easy; the model knows the probabilities.

generator = np.random.default_rng(0)
X = generator.uniform(-2, 2, size=(6000, 2))
strength = np.where((X**2).sum(axis=1) < 1.5, 1.0, 6.0)[:, None]
p = np.exp(strength * generator.normal(size=(6000, 5)))
p /= p.sum(axis=1, keepdims=True)
y = (generator.random((6000, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)

covered = {}
for score in ("adaptive", "lac"):
    calibration = aptset.calibrate(p[:3000], y[:3000], conformity=score, random_state=0)
    sets = calibration.predict_set(p[3000:], alpha=0.1)
    uneven = aptset.coverage_unevenness(sets, y[3000:], X[3000:], alpha=0.1)
    worst = aptset.worst_slice_coverage(sets, y[3000:], X[3000:])
    covered[f"{score}: unevenness {float(uneven):.3f}, z = {uneven.z:.1f}"] = sets.covers(y[3000:])
    print(f"{score:<8} coverage {sets.covers(y[3000:]).mean():.3f}, worst slice {float(worst):.3f}")
    print(f"         {uneven}")

# %%
# Coverage in squares of the plane: 0.9 is white.

figure, axes = plt.subplots(1, 2, figsize=(7.5, 3.6), layout="constrained", sharey=True)
for ax, (name, hits) in zip(axes, covered.items(), strict=True):
    squares = [np.histogram2d(*X[3000:].T, bins=10, weights=weights)[0] for weights in (hits, None)]
    image = ax.imshow(squares[0] / squares[1] - 0.9, cmap="RdBu", vmin=-0.2, vmax=0.2, extent=(-2, 2, -2, 2))
    ax.set_title(name, fontsize=10)
figure.colorbar(image, label="coverage minus 0.9")
plt.show()
