"""How often does an audit speak up, for nothing and for something?

Run: ``python docs/design/simulations/audits.py KIND ROWS COUNT FIRST_SEED``. KIND is one of those below; it prints how
many of the audits said that the promise was not kept, and how many warned, check by check.
"""

import sys
import warnings
from collections import Counter

import numpy as np
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.audits import dataset as splits

warnings.simplefilter("ignore")
# The worst slice takes most of the time and decides nothing here.
splits.OF_SPLITS = {name: metric for name, metric in splits.OF_SPLITS.items() if not metric.needs_features}


def source(generator, n):
    """Draw rows of three classes and three features."""
    X = generator.normal(size=(n, 3))
    y = (X[:, 0] + generator.normal(size=n) > 0).astype(int) + (X[:, 1] > 1)
    return X, y


def exchangeable(generator, n):
    """Draw every row from one source."""
    return source(generator, n)


def discrete(generator, n):
    """Draw rows from a source of few values: half of them repeat, as they should."""
    X, y = source(generator, n)
    return np.round(X), y


def labels_shift_slowly(generator, n):
    """Let the class 0 go from 0.7 to 0.2 of the rows, features given the label as they are."""
    X, y = source(generator, 4 * n)
    wanted = np.linspace(0.7, 0.2, n)
    picked = []
    pools = [list(np.flatnonzero(y == 0)), list(np.flatnonzero(y > 0))]
    for share in wanted:
        pool = pools[int(generator.random() > share)] or pools[0] or pools[1]
        picked.append(pool.pop())
    return X[picked], y[picked]


def features_shift_slowly(generator, n):
    """Move a feature that the labels do not depend on by 1.5 standard deviations over the rows."""
    X, y = source(generator, n)
    X[:, 2] += np.linspace(0, 1.5, n)
    return X, y


def labels_turn_random(generator, n):
    """Draw the last 30 % of the labels at random."""
    X, y = source(generator, n)
    late = np.arange(n) >= 0.7 * n
    return X, np.where(late, generator.integers(3, size=n), y)


def three_times(generator, n):
    """Take every row three times, in random order."""
    X, y = source(generator, n // 3)
    order = generator.permutation(n // 3 * 3)
    return np.repeat(X, 3, axis=0)[order], np.repeat(y, 3)[order]


def some_twice(generator, n):
    """Take half of the rows twice, in random order."""
    X, y = source(generator, n * 2 // 3)
    rows = generator.permutation(np.r_[np.arange(n * 2 // 3), np.arange(n // 3)])
    return X[rows], y[rows]


KINDS = {
    kind.__name__: kind
    for kind in (
        exchangeable,
        discrete,
        labels_shift_slowly,
        features_shift_slowly,
        labels_turn_random,
        three_times,
        some_twice,
    )
}


def main(kind, n, count, first):
    """Audit so many data sets and count what is said."""
    said = Counter()
    for seed in range(first, first + count):
        X, y = KINDS[kind](np.random.default_rng([seed, 99]), n)
        found = aptset.audit(GaussianNB(), X, y, calibrations="split", repetitions=3, random_state=seed)
        is_kept = all(verdict.kept for verdict in found.verdicts.values())
        said["audits"] += 1
        said["speaks up"] += found.drift.warning or not is_kept
        said["not kept"] += not is_kept
        said["warns"] += found.drift.warning
        said.update(found.drift.found)
        for name in ("order", "labels", "features", "last", "repeats"):
            said[f"{name} <= 0.05"] += (getattr(found.drift, f"p_{name}") or 1.0) <= 0.05
    print(kind, n, first, dict(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
