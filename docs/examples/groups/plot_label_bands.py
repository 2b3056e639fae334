"""
Class imbalance: bands of classes
=================================

There are forty classes, and the most frequent is 25 times as frequent as the rarest. One threshold covers frequent
classes more than rare ones. Bands of classes that share a threshold have a guarantee for each band. The prevalence
score has no such guarantee; it has the largest mean coverage of classes for its size if the probabilities are correct
under the counted class frequencies, as here.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

import aptset

generator = np.random.default_rng(0)
share = 0.04 ** np.linspace(0, 1, 40)
share /= share.sum()
places = generator.normal(size=(40, 6))


def some_rows(n):
    """Draw labels, and what a model that knows all about them says of their rows."""
    y = generator.choice(40, n, p=share)
    x = places[y] + 1.1 * generator.normal(size=(n, 6))
    logits = -((x[:, None, :] - places) ** 2).sum(axis=2) / 2.42
    p = share * np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), y


counts = Counter(some_rows(20_000)[1].tolist())  # of training labels
bands = aptset.LabelBands.by_prevalence(counts, n_bands=4, n_calibration=2000)
ways = {
    "one threshold": {"conformity": "lac"},
    "4 bands": {"conformity": "lac", "groups": bands},
    "Prevalence": {"conformity": aptset.Prevalence(counts)},
}
covered = {name: [] for name in ways}
sizes = {name: [] for name in ways}
for seed in range(10):
    (p, y), (new, truth) = some_rows(2000), some_rows(8000)
    for name, settings in ways.items():
        sets = aptset.calibrate(p, y, random_state=seed, **settings).predict_set(new, alpha=0.1)
        found = aptset.coverage_by(sets, truth)
        covered[name].append([float(found.get(label, np.nan)) for label in range(40)])
        sizes[name].append(sets.sizes.mean())

# %%
# Coverage of each class, means over ten calibrations.

figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
for name, values in covered.items():
    mean = np.nanmean(values, axis=0)
    label = f"{name}: {np.mean(sizes[name]):.1f} labels, macro coverage {np.mean(mean):.3f}"
    ax.plot(range(40), mean, marker="o", markersize=3, label=label)
ax.axhline(0.9, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="class, from frequent to rare", ylabel="coverage", ylim=(0.5, 1))
ax.legend(loc="lower left")
plt.show()
