"""Laws of the paper's score: uniform given x under the oracle, tight coverage for models that give zeros."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import aptset

FALSE_ALARM = 1e-6  # of each check below, over the draw of the fixed seeds


@pytest.mark.parametrize("row", [[0.3, 0.6, 0.1], [0.25] * 4, [0.5, 0.5, 0.0], [0.97, 0.01, 0.01, 0.01]])
def test_scores_are_uniform_given_x_under_the_oracle(row):
    generator = np.random.default_rng(0)
    n = 20_000
    labels = generator.choice(len(row), p=row, size=n)
    scores = aptset.adaptive_scores(np.tile(row, (n, 1)), labels, generator.random(n), random_state=0)
    assert stats.kstest(scores, "uniform").pvalue > FALSE_ALARM


def test_scores_with_keyed_u_are_uniform_and_unrelated_to_the_label():
    generator = np.random.default_rng(1)
    p = generator.dirichlet(np.ones(4), size=20_000)
    labels = (generator.random((len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    scores = aptset.adaptive_scores(p, labels, random_state=0)
    assert stats.kstest(scores, "uniform").pvalue > FALSE_ALARM
    assert stats.kruskal(*(scores[labels == y] for y in range(4))).pvalue > FALSE_ALARM
    assert stats.spearmanr(scores, p.max(axis=1)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "model",
    [KNeighborsClassifier(n_neighbors=1), DecisionTreeClassifier(random_state=0), GaussianNB()],
    ids=["1-nearest-neighbour", "decision tree", "naive Bayes"],
)
@pytest.mark.parametrize("conformity", ["adaptive", "homogeneous"])
def test_coverage_is_exact_at_both_ends(model, conformity):
    """Law: scores are almost surely distinct, so the mean coverage over splits is k / (n + 1) exactly.

    One split has variance c(1-c)(1/(n+2) + 1/m) (Beta-binomial); the test allows 5 standard errors, false alarm 6e-7.
    """
    X, y = make_classification(
        30_000, n_features=8, n_informative=6, n_classes=8, n_clusters_per_class=1, flip_y=0.3, random_state=0
    )
    repetitions, n, m, alpha = 60, 200, 200, 0.1
    coverages = []
    for r in range(repetitions):
        rows = np.arange(500 * r, 500 * (r + 1))
        classifier = aptset.ConformalClassifier(
            model, calibration=aptset.Split(share=2 / 3), conformity=conformity, random_state=r
        ).fit(X[rows[:300]], y[rows[:300]])
        assert classifier.n_calibration_ == n
        sets = classifier.predict_set(X[rows[300:]], alpha)
        coverages.append(sets.covers(y[rows[300:]]).mean())
    c = aptset.conformal_rank(n, alpha) / (n + 1)
    error = (c * (1 - c) * (1 / (n + 2) + 1 / m) / repetitions) ** 0.5
    assert abs(np.mean(coverages) - c) < 5 * error


def test_deterministic_variant_covers_and_is_never_empty():
    generator = np.random.default_rng(2)
    p = generator.dirichlet(np.ones(4), size=4000)
    labels = (generator.random((len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    calibration = aptset.calibrate(p[:2000], labels[:2000], randomized=False)
    sets = calibration.predict_set(p[2000:], alpha=0.1)
    assert (sets.sizes >= 1).all()
    # Coverage given the calibration is at least Beta(1801, 200): 5 standard deviations with 2000 test rows.
    assert sets.covers(labels[2000:]).mean() > 0.9 - 5 * (0.09 * (1 / 2002 + 1 / 2000)) ** 0.5
    # The deterministic sets take labels until their sum reaches the threshold.
    threshold = calibration.threshold(0.1)
    reached = [np.sort(row)[::-1][:size].sum() for row, size in zip(p[2000:], sets.sizes, strict=True)]
    before = [np.sort(row)[::-1][: size - 1].sum() for row, size in zip(p[2000:], sets.sizes, strict=True)]
    assert all(b <= threshold + 1e-12 for b in before)
    assert all(r > threshold - 1e-12 for r in reached)
