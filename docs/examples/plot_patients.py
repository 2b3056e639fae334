"""
Rows of patients
================

One patient in five is hard, and has two rows instead of twenty. A calibration that counts rows one by one hardly hears
of the hard ones, and rows of the next patient are covered too seldom, however many patients calibrate. Where every
patient counts once, they are covered as promised.
"""

import matplotlib.pyplot as plt
import numpy as np

import aptset

generator = np.random.default_rng(0)


def draw(n_patients):
    """Return the scores of the rows of patients, and whose they are."""
    is_hard = generator.random(n_patients) < 0.2
    times = np.where(is_hard, 2, 20)
    level = 0.3 * is_hard + 0.3 * generator.random(n_patients)
    return np.repeat(level, times) + 0.4 * generator.random(times.sum()), np.repeat(np.arange(n_patients), times)


# %%
# The label is always the first one here, and its probability 1 - score: all that matters is which scores calibrate.

patients, found = (10, 20, 40, 80, 160), {"rows one by one": [], "clusters=patient": []}
for n in patients:
    covered = {name: [] for name in found}
    for _ in range(200):
        scores, patient = draw(n)
        new, of_new = draw(50)
        p, labels = np.column_stack([1 - scores, scores]), np.zeros(len(scores), dtype=int)
        for name, clusters in zip(found, (None, patient), strict=True):
            calibration = aptset.calibrate(p, labels, conformity="lac", randomized=False, clusters=clusters)
            hits = new <= calibration.threshold(0.1)
            covered[name].append(np.bincount(of_new, hits) / np.bincount(of_new))
    for name, values in covered.items():
        found[name].append(np.mean(values))

# %%
# Means of the patients' means: that is what the promise is about, not the share of rows.

figure, axes = plt.subplots(figsize=(6, 3.4))
for name, values in found.items():
    axes.plot(patients, values, marker="o", label=name)
axes.axhline(0.9, color="0.6", linewidth=1)
axes.set(xscale="log", xticks=patients, xticklabels=patients, xlabel="patients that calibrate", ylim=(0.7, 1))
axes.set_ylabel("coverage, rows of new patients")
axes.legend(frameon=False)
figure.tight_layout()
