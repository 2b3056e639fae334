"""
Online calibration after a sudden change
========================================

The probabilities of a model are correct for 1,500 rows. Then a third of the labels has nothing to do with them. The
sets of a fixed calibration miss too often from then on. ``Online`` (adaptive conformal inference) adjusts the level
after every label and uses the last 500 scores: its share of misses returns to 0.1, and stays within a bound that
holds for any sequence of rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import aptset

generator = np.random.default_rng(0)
probabilities = generator.dirichlet([0.3] * 6, size=4000)
labels = (probabilities.cumsum(axis=1) > generator.random((4000, 1))).argmax(axis=1)
lost = (np.arange(4000) >= 2000) & (generator.random(4000) < 1 / 3)
labels[lost] = generator.integers(6, size=lost.sum())
calibration = aptset.calibrate(probabilities[:500], labels[:500], random_state=0)

# %%
# Row by row: first the set, then the label.

online = aptset.Online(calibration, alpha=0.1)
missed, sizes = [], []
for row in range(500, 4000):
    one = slice(row, row + 1)
    sets = online.predict_set(probabilities[one])
    missed.append(not sets.covers(labels[one])[0])
    sizes.append(sets.sizes[0])
    online.update(probabilities[one], labels[one])
static = calibration.predict_set(probabilities[500:], alpha=0.1)
print(f"online: misses {np.mean(missed):.3f}, within {online.bound():.3f} of 0.1 for any sequence")
print(f"static: misses {1 - static.covers(labels[500:]).mean():.3f}")

# %%
# Coverage of the last 200 rows, and the mean set size: sets grow when the model knows less.

figure, (above, below) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
rows, mean = np.arange(200, 3501), np.ones(200) / 200
covered = {"static": static.covers(labels[500:]), "online": ~np.array(missed)}
size = {"static": static.sizes, "online": np.array(sizes)}
for name, color in (("static", "C3"), ("online", "C0")):
    above.plot(rows, np.convolve(covered[name], mean, "valid"), color=color, label=name)
    below.plot(rows, np.convolve(size[name], mean, "valid"), color=color)
above.axhline(0.9, color="black", linestyle="--", linewidth=1)
for ax in (above, below):
    ax.axvline(1500, color="lightgrey", linewidth=1)
above.set(ylabel="coverage of the last 200 rows")
above.legend()
below.set(xlabel="rows with known labels", ylabel="mean size")
plt.show()
