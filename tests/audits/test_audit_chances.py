"""The laws behind audits, against direct computation, and verdicts and warnings under them."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.naive_bayes import GaussianNB

import aptset
from aptset.audits.dataset import prepare, split_and_measure
from aptset.audits.verdicts import judge
from aptset.metrics.estimates import paired_mean, resampled_mean
from aptset.metrics.exchangeability import path_test

ALPHA = Fraction(1, 10)


def rows(n=400, seed=0, n_features=3):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, n_features))
    y = (X[:, 0] + generator.normal(size=n) > 0).astype(int) + (X[:, 1] > 1)
    return X, y


def test_the_chance_of_a_verdict_is_a_p_value():
    """At most a share t of valid audits has a chance below t.

    Given the rows, each audit's chance is at least uniform, whatever the rows are (rows here drift on purpose). Of 150
    audits, more than 30 below 0.07 have probability below 1e-6 (binomial).
    """
    X, y = rows(60)
    X[30:] += 2  # no matter: random splits do not care
    data, share = prepare(X, y, None, None, 0.3)
    data = replace(data, features=None)
    candidates = {"a": aptset.ConformalClassifier(GaussianNB(), alpha=0.2)}
    chances = []
    for seed in range(150):
        splits = split_and_measure(candidates, data, 2, seed, None, 1, False)
        chances.append(judge(splits.of("a"), Fraction(1, 5), share).chance)
    assert stats.binom.sf(30, 150, 0.07) < 1e-6
    assert sum(chance < 0.07 for chance in chances) <= 30
    assert max(chances) > 0.5


class Broken(aptset.ConformalClassifier):
    """Predicts at a level three times too large."""

    def predict_set(self, X, alpha=None, **options):
        return super().predict_set(X, 0.3, **options)


def test_a_broken_calibration_is_found():
    with pytest.warns(UserWarning, match="exchangeable"):  # the last rows are covered less than promised, too
        found = aptset.audit(Broken(GaussianNB()), *rows(), alpha=0.1, repetitions=20)
    (verdict,) = found.verdicts.values()
    assert not verdict.kept
    assert verdict.chance < 1e-6
    assert "LESS than the promised 90 %" in repr(found)


def test_wandering_counts_reorderings():
    values = np.array([0.1, 0.9, 0.3, 0.7, 0.2])
    centred = values - values.mean()

    def reach(order):
        return np.abs(np.cumsum(centred[list(order)])).max()

    found = reach(range(5))
    share = np.mean([reach(order) >= found - 1e-12 for order in itertools.permutations(range(5))])
    estimate = path_test(values[:, None], np.random.default_rng(0), permutations=20_000)
    # A share of 20,000 random reorderings is this far from the share of all in fewer than one of a million cases.
    assert abs(estimate - share) < 5 * (0.25 / 20_000) ** 0.5 + 1e-4


def test_wandering_of_exchangeable_values_gives_a_p_value():
    """Exactly valid: a share t of p-values is at most t; more than 40 of 300 below 0.05 has probability below 1e-6."""
    generator = np.random.default_rng(1)
    found = [path_test(generator.exponential(size=(40, 2)), generator, permutations=99) for _ in range(300)]
    assert stats.binom.sf(40, 300, 0.05) < 1e-6
    assert sum(p <= 0.05 for p in found) <= 40


def drifting(n=600):
    X, y = rows(n, seed=3)
    late = np.arange(n) > 0.7 * n
    return X, np.where(late, np.random.default_rng(0).integers(3, size=n), y)


def test_drift_along_the_order_is_found_and_mixing_hides_it():
    X, y = drifting()
    with pytest.warns(UserWarning, match="do not look exchangeable"):
        found = aptset.audit(GaussianNB(), X, y, repetitions=20, calibrations="split")
    assert found.drift.warning
    assert found.drift.p_order <= 0.001
    assert found.drift.p_last < 1e-6
    assert found.verdicts["split"].kept, "random splits are exchangeable by construction"
    order = np.random.default_rng(6).permutation(len(y))
    mixed = aptset.audit(GaussianNB(), X[order], y[order], repetitions=20, calibrations="split")
    assert not mixed.drift.warning


def test_drift_along_a_column_of_times():
    X, y = drifting()
    order = np.random.default_rng(5).permutation(len(y))
    times = [f"2026-01-01 {minute // 60:02}:{minute % 60:02}" for minute in range(len(y))]
    with pytest.warns(UserWarning, match="do not look exchangeable"):
        found = aptset.audit(
            GaussianNB(),
            X[order],
            y[order],
            repetitions=10,
            calibrations="split",
            time=np.array(times, dtype=object)[order],
        )
    assert found.drift.warning


def test_intervals_of_means_over_splits():
    values = np.array([0.3, 0.5, 0.1, 0.2, np.nan])
    found = resampled_mean(values, 0.25, 0.9)
    spread = stats.t(3).ppf(0.95) * np.sqrt((1 / 4 + 1 / 3) * np.var(values[:4], ddof=1))
    assert (float(found), found.low, found.high) == pytest.approx((0.275, 0.275 - spread, 0.275 + spread))
    assert resampled_mean(np.array([0.3]), 0.25, 0.9).high == np.inf
    assert np.isnan(resampled_mean(np.array([]), 0.25, 0.9))


def test_paired_means_count_every_row_once():
    total, times = np.array([2.0, 0.0, 3.0, 1.0]), np.array([2.0, 0.0, 1.0, 1.0])
    found = paired_mean(total, times, 0.9)
    weight, values = np.array([0.5, 0.25, 0.25]), np.array([1.0, 3.0, 1.0])
    error = np.sqrt(3 / 2 * np.sum((weight * (values - 1.5)) ** 2))
    half = stats.t(2).ppf(0.95) * error
    assert (float(found), found.low, found.high, found.n) == pytest.approx((1.5, 1.5 - half, 1.5 + half, 3))
    assert np.isinf(paired_mean(np.ones(1), np.ones(1), 0.9).high)


def test_paired_intervals_hold_for_rows_with_values_of_their_own():
    """Values of rows with mean 0.2, each seen a few times: 2000 intervals, 5 standard deviations, false alarm 3e-7.

    Student's law is approximate for values this skewed: 0.94 is what 100 rows of them are good for.
    """
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        times = generator.binomial(20, 0.3, size=100).astype(float)
        found = paired_mean(times * generator.binomial(1, 0.2, size=100), times, 0.95)
        hits += found.low <= 0.2 <= found.high
    assert hits > 0.94 * 2000 - 5 * (2000 * 0.94 * 0.06) ** 0.5
