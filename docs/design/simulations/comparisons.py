"""How often do intervals of paired differences of sizes hold, and how often do they exclude zero?

Run: ``python docs/design/simulations/comparisons.py ROWS REPETITIONS EDGE``. Two candidates see one feature each, of
equal worth at EDGE 0: the expected difference is then zero by symmetry. With a larger EDGE the first sees more. What
the fitted models do on new rows is measured on 20,000 of them.
"""

import sys

import numpy as np

import aptset
from aptset.metrics.estimates import paired_mean, resampled_mean

SPLITS, CLASSES = 20, 3


def chances(train, labels, new):
    """Return what a classifier with one normal law per class says, from one feature."""
    logs = np.empty((len(new), CLASSES))
    for label in range(CLASSES):
        mine = train[labels == label]
        mean, spread = (mine.mean(), max(mine.std(), 0.1)) if len(mine) > 1 else (train.mean(), train.std())
        logs[:, label] = np.log(len(mine) + 1) - np.log(spread) - ((new - mean) / spread) ** 2 / 2
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def sizes_of_split(x, y, order, seed, new):
    """Return the sizes of the sets of the test rows and of new ones: 30 % test, half of the others calibrate."""
    n = len(y)
    test, calibrate, train = np.split(order, [round(0.3 * n), round(0.65 * n)])
    calibration = aptset.calibrate(
        chances(x[train], y[train], x[calibrate]), y[calibrate], classes=range(CLASSES), random_state=seed
    )
    sizes = calibration.predict_set(chances(x[train], y[train], np.append(x[test], new))).sizes
    return test, sizes[: len(test)], sizes[len(test) :]


def main(n, repetitions, edge):
    """Print how often each kind of interval excludes zero, and its mean width."""
    excluded, missed, width = ({"splits": [], "rows": []} for _ in range(3))
    for seed in range(repetitions):
        generator = np.random.default_rng([seed, 7])
        y = generator.integers(CLASSES, size=n)
        seen = [y + generator.normal(size=n) / (1 + edge), y + generator.normal(size=n)]
        y_new = generator.integers(CLASSES, size=20_000)
        new = [y_new + generator.normal(size=20_000) / (1 + edge), y_new + generator.normal(size=20_000)]
        means, on_new, total, times = [], [], np.zeros(n), np.zeros(n)
        for split in range(SPLITS):
            order = generator.permutation(n)
            (test, first, first_new), (_, second, second_new) = (
                sizes_of_split(x, y, order, split, x_new) for x, x_new in zip(seen, new, strict=True)
            )
            on_new.append((first_new - second_new).mean())
            means.append((first - second).mean())
            total[test] += first - second
            times[test] += 1
        found = {"splits": resampled_mean(np.array(means), 0.3, 0.95), "rows": paired_mean(total, times, 0.95)}
        for name, one in found.items():
            excluded[name].append(not one.low <= 0 <= one.high)
            missed[name].append(not one.low <= np.mean(on_new) <= one.high)
            width[name].append(one.high - one.low)
    for name in excluded:
        shares = [f"{np.mean(one[name]):.3f}" for one in (excluded, missed, width)]
        words = "exclude zero {}, miss what these models do on new rows {}, width {}".format(*shares)
        print(f"{n} rows, edge {edge}, {repetitions} data sets, {name}: {words}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
