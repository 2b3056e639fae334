"""
Coverage in overlapping groups
==============================

A model is overconfident about two groups that overlap. One threshold covers both too little. With ``Overlapping`` the
guarantee holds in each group, at about the same set size.
"""

import matplotlib.pyplot as plt
import numpy as np

import aptset

NAMES = ["old", "at night", "north", "new customer"]


def some_rows(n, generator):
    """Draw rows in four groups; in the first two labels are harder than the probabilities say."""
    flags = generator.random((n, 4)) < [0.3, 0.3, 0.5, 0.5]
    p = generator.dirichlet(np.full(6, 0.3), size=n)
    q = p + 0.08 * flags[:, :2].sum(axis=1, keepdims=True)
    q /= q.sum(axis=1, keepdims=True)
    return p, (generator.random((n, 1)) > q.cumsum(axis=1)[:, :-1]).sum(axis=1), flags


covered = {"one threshold": [], "Overlapping": []}
sizes = {name: [] for name in covered}
for seed in range(20):
    generator = np.random.default_rng(seed)
    (p, y, flags), (new, truth, new_flags) = some_rows(600, generator), some_rows(4000, generator)
    plain = aptset.calibrate(p, y, random_state=seed).predict_set(new, alpha=0.1)
    fair = aptset.calibrate(p, y, groups=aptset.Overlapping(flags), random_state=seed)
    for name, sets in {"one threshold": plain, "Overlapping": fair.predict_set(new, 0.1, groups=new_flags)}.items():
        found = aptset.coverage_by(sets, truth, by=aptset.Overlapping(new_flags))
        covered[name].append([float(value) for value in found.values()])
        sizes[name].append(sets.sizes.mean())

# %%
# Means over 20 calibrations, with two standard errors. The guarantee is 90 %.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for shift, (name, values) in zip((-0.1, 0.1), covered.items(), strict=True):
    error = 2 * np.std(values, axis=0) / np.sqrt(20)
    label = f"{name}: {np.mean(sizes[name]):.2f} labels"
    ax.errorbar(np.arange(4) + shift, np.mean(values, axis=0), error, fmt="o", capsize=4, label=label)
ax.axhline(0.9, color="grey", linestyle="--")
ax.set(xticks=range(4), xticklabels=NAMES, ylabel="coverage", ylim=(0.7, 1))
ax.legend()
plt.show()
