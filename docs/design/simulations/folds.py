"""How often are reports on several folds red, valid ones and broken ones?

Run: ``python docs/design/simulations/folds.py FOLDS ROWS COUNT``. Valid: test rows from the source of training rows.
Broken: a share of the test labels is drawn at random.
"""

import sys
from fractions import Fraction

import numpy as np
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.metrics.coverage_distribution import coverage_law, folds_chance
from aptset.reports.sources import ask

ALPHA, TESTED = Fraction(1, 10), 1000


def source(generator, n):
    """Draw rows of three classes."""
    X = generator.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * generator.normal(size=n) > 0).astype(int) + (X[:, 1] > 1)


def twice_the_mean(folds):
    """Return the other valid way to join the chances of the folds."""
    chances = []
    for (group,) in folds:
        rank = -(-(1 - ALPHA) * (group.n + 1) // 1)
        covered = int(group.below[: int(rank)].sum())
        chances.append(coverage_law(covered, ((group.rows, group.n),), ALPHA).too_low)
    return min(1.0, 2 * float(np.mean(chances)))


def main(n_folds, n, count):
    """Print the share of reports below 1 % for some shares of random labels."""
    for share in (0.0, 0.1, 0.2, 0.3, 0.9):
        smallest, mean, covered = [], [], []
        for seed in range(count):
            generator = np.random.default_rng([seed, 5])
            X, y = source(generator, n + TESTED)
            y[n:] = np.where(generator.random(TESTED) < share, generator.integers(3, size=TESTED), y[n:])
            model = aptset.ConformalClassifier(GaussianNB(), calibration=aptset.CVPlus(n_folds), random_state=seed)
            model.fit(X[:n], y[:n])
            samples = model.fitted_.placed(*model.fitted_.rule.samples(X[n:]))
            (sets,), _, _, folds = ask(model.fitted_, samples, y[n:], [ALPHA], True, lambda rows: None)
            covered.append(sets.covers(y[n:]).mean())
            smallest.append(folds_chance(folds, ALPHA) < 0.01)
            mean.append(twice_the_mean(folds) < 0.01)
        shares = f"smallest times folds {np.mean(smallest):.3f}, twice the mean {np.mean(mean):.3f}"
        print(
            f"{n_folds} folds of {n} rows, {share:g} random labels: coverage {np.mean(covered):.3f}, {shares}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
