"""The law of realised coverage: the test against it, and the sample size from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import aptset


@given(n=st.integers(20, 300), m=st.integers(1, 300), data=st.data())
def test_p_values_are_the_tails_of_the_beta_binomial(n, m, data):
    count = data.draw(st.integers(0, m))
    k = aptset.conformal_rank(n, 0.1)
    law = stats.betabinom(m, k, n + 1 - k)
    found = aptset.coverage_test(count, m, n, 0.1)
    assert found.too_low == pytest.approx(sum(law.pmf(j) for j in range(count + 1)), abs=1e-9)
    assert found.too_high == pytest.approx(sum(law.pmf(j) for j in range(count, m + 1)), abs=1e-9)
    assert found.p_value == float(found) == pytest.approx(min(1, 2 * min(found.too_low, found.too_high)))
    assert found.expected == k / (n + 1)


def test_valid_calibration_is_rarely_called_invalid():
    """Law: under a valid calibration P(p <= 0.05) <= 0.05; the count among 2000 is below 5 standard deviations."""
    generator = np.random.default_rng(0)
    calls = 0
    for r in range(2000):
        p = generator.dirichlet(np.ones(3), size=160)
        y = (generator.random((160, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        sets = aptset.calibrate(p[:80], y[:80], random_state=r).predict_set(p[80:], 0.2)
        calls += aptset.coverage_test(sets.covers(y[80:]), n=80, alpha=0.2).p_value <= 0.05
    assert calls < 100 + 5 * (2000 * 0.05 * 0.95) ** 0.5


def test_an_inverted_rule_is_caught():
    assert aptset.coverage_test(8560, 10_000, 10_000, 0.1).too_low < 1e-9  # 0.856 at a 0.90 target
    assert aptset.coverage_test(9010, 10_000, 10_000, 0.1).p_value > 0.3


def test_too_few_calibration_samples():
    assert aptset.coverage_test(50, 50, 5, 0.1).p_value == 1.0
    assert aptset.coverage_test(49, 50, 5, 0.1).p_value == 0.0


@pytest.mark.parametrize(
    ("alpha", "within", "confidence"), [(0.1, 0.05, 0.95), (0.1, 0.01, 0.9), (0.05, 0.02, 0.99), (0.5, 0.2, 0.8)]
)
def test_sample_size_from_the_beta_law(alpha, within, confidence):
    def chance(n):
        k = aptset.conformal_rank(n, alpha)
        law = stats.beta(k, n + 1 - k)
        return law.cdf(1 - alpha + within) - law.cdf(1 - alpha - within)

    n = aptset.calibration_size(alpha, within, confidence)
    assert chance(int(n)) >= confidence
    assert chance(int(n) - 1) < confidence
    assert all(chance(m) >= confidence for m in range(int(n), int(n) + 200)), "and from there on"
    assert n.achieved == pytest.approx(chance(int(n)), abs=1e-9)
    assert isinstance(n, int)
    frame = n.plot().frame()
    assert np.trapezoid(frame["density"], frame["coverage"]) == pytest.approx(1, abs=0.01)


def test_bad_input():
    cases = [
        (lambda: aptset.coverage_test(5, 4, 10), ValueError, "between 0 and m"),
        (lambda: aptset.coverage_test(-1, 4, 10), ValueError, "between 0 and m"),
        (lambda: aptset.coverage_test(1.5, 4, 10), TypeError, "whole number"),
        (lambda: aptset.coverage_test(1, None, 10), TypeError, "m must be a whole number"),
        (lambda: aptset.coverage_test([1, 0], 2, 10), TypeError, "boolean per row"),
        (lambda: aptset.coverage_test([True], 2, 10), ValueError, "m must be the number of rows"),
        (lambda: aptset.coverage_test(1, 4), TypeError, "n must be"),
        (lambda: aptset.calibration_size(0.1, 0), ValueError, "within must be"),
        (lambda: aptset.calibration_size(0.1, 0.1, 1), ValueError, "confidence must be"),
        (lambda: aptset.calibration_size(1.1), ValueError, "alpha must be"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_tails_far_out_and_large_plans():
    found = aptset.coverage_test(1000, 1000, 1000, 0.1)
    assert found.too_high == pytest.approx(5.8e-32, rel=0.05)
    assert 3.4e5 < aptset.calibration_size(0.1, 0.001) < 3.5e5
    assert 3.4e7 < aptset.calibration_size(0.1, 0.0001) < 3.5e7
    assert (found.low, found.high) == tuple(stats.betabinom(1000, 901, 100).ppf([0.025, 0.975]) / 1000)
