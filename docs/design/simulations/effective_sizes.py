"""What n do a stream and weights have? Run: ``python docs/design/simulations/effective_sizes.py`` (half a minute).

The coverage of one calibration on n rows is about Beta: its variance is alpha (1 - alpha) / (n + 2). Here is the n that
gives the spread of coverage that a stream shows from row to row while nothing changes, and how much larger the spread
of a weighted calibration is than n = (sum w)^2 / (sum w^2) says.
"""

import bisect

import numpy as np
from scipy.special import ndtr

ALPHA = 0.1


def of_stream(window, step, rows, generator):
    """Return the n of a stream of uniform scores: thresholds are p-values among the last scores, at a moving level."""
    recent = generator.random(window).tolist()
    ordered, level, covers = sorted(recent), ALPHA, []
    for place, score in enumerate(generator.random(rows).tolist()):
        # In the set iff (1 + scores at or above) / (window + 1) > level: below the threshold with this rank.
        rank = int(np.ceil((1 - level) * (window + 1)))
        threshold = 1.0 if rank > window else 0.0 if rank < 1 else ordered[rank - 1]
        covers.append(threshold)
        level += step * (ALPHA - (score > threshold))
        old, recent[place % window] = recent[place % window], score
        ordered.pop(bisect.bisect_left(ordered, old))
        bisect.insort(ordered, score)
    return ALPHA * (1 - ALPHA) / np.var(covers[rows // 10 :]) - 2


def spread_of_weights(spread, hardness, n, times, generator):
    """Return the standard deviation of coverage over that of Beta at the effective size, and that size.

    x is normal with mean 0 where rows calibrate and with mean ``spread`` among new rows: weights are exp(spread x). The
    score is normal, too, and has the correlation ``hardness`` with x.
    """
    coverages, sizes = [], []
    for _ in range(times):
        x, new = generator.normal(size=n), spread + generator.normal()
        weights, scores = np.exp(spread * x), hardness * x + np.sqrt(1 - hardness**2) * generator.normal(size=n)
        order = np.argsort(scores)
        mass = np.cumsum(weights[order]) / (weights.sum() + np.exp(spread * new))
        place = np.searchsorted(mass, 1 - ALPHA)
        coverages.append(1.0 if place == n else ndtr(scores[order][place] - hardness * spread))
        sizes.append(weights.sum() ** 2 / (weights**2).sum())
    finite = [coverage for coverage in coverages if coverage < 1]
    return np.std(finite) / np.sqrt(ALPHA * (1 - ALPHA) / (np.mean(sizes) + 2)), np.mean(sizes)


if __name__ == "__main__":
    for window, step in ((500, 0.0), (500, 0.005), (500, 0.01), (500, 0.05), (2000, 0.01)):
        size = np.mean([of_stream(window, step, 20_000, np.random.default_rng(seed)) for seed in range(5)])
        print(f"a stream with window={window}, step={step}: as a calibration on about {size:.0f} rows", flush=True)
    for spread in (0.5, 1.0):
        for hardness in (-0.5, 0.0, 0.25, 0.5, 0.9):
            ratio, size = spread_of_weights(spread, hardness, 500, 4000, np.random.default_rng(1))
            how = f"weights exp({spread} x), correlation of x and score {hardness}"
            print(f"{how}: effective size {size:.0f} of 500, spread {ratio:.2f} times that of Beta", flush=True)
