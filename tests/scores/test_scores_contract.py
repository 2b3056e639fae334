"""What every score of the table must obey, whatever it is."""

import itertools

import numpy as np
import pytest

import aptset
from aptset.kernels.rows import Rows, all_scores_of_block
from aptset.scores import SCORES
from aptset.scores.conformity import formula_of

EVERY = pytest.mark.parametrize("name", sorted(SCORES))
FAST = pytest.mark.parametrize("name", sorted(name for name in SCORES if hasattr(SCORES[name], "weights")))


def data(n=400, n_classes=6, seed=0, concentration=0.4):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(n_classes, concentration), size=n)
    probabilities[generator.random((n, n_classes)) < 0.1] = 0  # some zeros, and ties among them
    probabilities[:, 0] += 1e-3
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels = (generator.random((n, 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    return probabilities, labels


@FAST
def test_labels_without_mass_conform_least(name):
    probabilities, _ = data()
    for u in (None, np.zeros(400), np.ones(400)):
        scores, _ = all_scores_of_block(Rows(probabilities, formula_of(SCORES[name]()), 0, 1e-9, u=u).seeded(), 0, 400)
        order = np.lexsort((scores, -probabilities), axis=1)
        assert (np.diff(np.take_along_axis(scores, order, axis=1), axis=1) >= 0).all()
        largest = np.where(probabilities > 0, scores, -np.inf).max(axis=1, keepdims=True)
        assert (scores >= largest)[probabilities == 0].all()


@EVERY
@pytest.mark.parametrize("randomized", [True, False])
def test_sets_p_values_and_counts_agree_at_every_level(name, randomized):
    calibration_rows, labels = data(n=59)
    new, _ = data(n=80, seed=1)
    calibration = aptset.calibrate(calibration_rows, labels, conformity=name, randomized=randomized, random_state=0)
    p_values = calibration.p_values(new)
    # Every level at which a set changes, as float and as the p-value itself: 1/60 in floats is not 1/60.
    critical = {k / 60 for k in range(2, 60)} | {p for p in p_values.ravel().tolist() if 0.02 < p < 1}
    alphas = [*sorted(critical), 0.05, 0.1, 0.123, 0.5, 0.77, 0.99]
    for alpha, sets in zip(alphas, calibration.predict_set(new, alphas), strict=True):
        np.testing.assert_array_equal(sets.mask, p_values > alpha)
    # By hand, from the counting rule.
    u = np.ones(80) if not randomized else None
    rows = Rows(new, formula_of(SCORES[name]()), calibration.key, 1e-9, u=u).seeded()
    scores, _ = all_scores_of_block(rows, 0, 80)
    counts = (calibration.scores < scores[:, :, None]).sum(axis=2)
    np.testing.assert_allclose(p_values, (60 - counts) / 60, rtol=2.0**-51)
    for alpha in (0.1, 0.5):
        assert calibration.predict_set(new, alpha) == calibration.predict_set(new, [alpha, 0.2])[0], "one level or many"


@EVERY
def test_nested_in_alpha(name):
    probabilities, labels = data()
    calibration = aptset.calibrate(probabilities, labels, conformity=name, random_state=0)
    new, _ = data(seed=2)
    masks = [sets.mask for sets in calibration.predict_set(new, np.linspace(0.02, 0.98, 25))]
    for larger, smaller in itertools.pairwise(masks):
        assert (smaller <= larger).all()


@EVERY
@pytest.mark.parametrize("randomized", [True, False])
def test_row_independence(name, randomized, limits, monkeypatch):
    probabilities, labels = data()
    calibration = aptset.calibrate(probabilities, labels, conformity=name, randomized=randomized, random_state=0)
    new, _ = data(n=300, seed=3)
    whole, p_values = calibration.predict_set(new), calibration.p_values(new)
    order = np.random.default_rng(0).permutation(300)
    assert calibration.predict_set(new[order]) == whole[order]
    np.testing.assert_array_equal(calibration.p_values(new[order]), p_values[order])
    assert calibration.predict_set(new[:7]) == whole[:7]
    for i in range(0, 300, 37):
        assert calibration.predict_set(new[i : i + 1])[0].tolist() == whole[i].tolist()
    limits(block_cells=60)
    monkeypatch.setenv("APTSET_THREADS", "4")
    assert calibration.predict_set(new) == whole


@EVERY
def test_dtype_does_not_matter(name):
    generator = np.random.default_rng(0)
    rows = generator.multinomial(1024, [0.5, 0.3, 0.1, 0.07, 0.03], size=300) / 1024  # exact in every dtype
    labels = generator.integers(5, size=300)
    expected = aptset.calibrate(rows, labels, conformity=name, random_state=0)
    for dtype in (np.float16, np.float32, np.longdouble):
        found = aptset.calibrate(rows.astype(dtype), labels, conformity=name, random_state=0)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert found.predict_set(rows.astype(dtype), 0.2) == expected.predict_set(rows, 0.2)


@EVERY
def test_float32_equals_itself_widened(name):
    probabilities, labels = data()
    narrow = probabilities.astype(np.float32)
    found, expected = (
        aptset.calibrate(p, labels, conformity=name, random_state=0) for p in (narrow, narrow.astype(np.float64))
    )
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.predict_set(narrow) == expected.predict_set(narrow.astype(np.float64))


@EVERY
def test_coverage_obeys_the_beta_binomial_law(name):
    """Law: over m test rows after calibration on n, the count covered is Beta-binomial(m, k, n + 1 - k).

    Chi-square over 2000 repetitions in 12 bins; the p-value is above 1e-6 except once in a million.
    """
    from scipy import stats

    n, m, alpha, repetitions = 40, 25, 0.2, 2000
    generator = np.random.default_rng(sorted(SCORES).index(name))
    probabilities = generator.dirichlet(np.ones(5), size=(repetitions, n + m))
    labels = (generator.random((repetitions, n + m, 1)) > probabilities.cumsum(axis=2)[:, :, :-1]).sum(axis=2)
    covered = np.empty(repetitions, dtype=int)
    for r in range(repetitions):
        calibration = aptset.calibrate(probabilities[r, :n], labels[r, :n], conformity=name, random_state=r)
        covered[r] = calibration.predict_set(probabilities[r, n:], alpha).covers(labels[r, n:]).sum()
    k = aptset.conformal_rank(n, alpha)
    law = stats.betabinom(m, k, n + 1 - k)
    edges = np.unique(law.ppf(np.linspace(0, 1, 13)[1:-1]).astype(int))
    expected = np.diff(np.concatenate([[0], law.cdf(edges), [1]])) * repetitions
    observed = np.bincount(np.searchsorted(edges, covered), minlength=len(expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-6
