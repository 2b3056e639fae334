"""The simulated models are the paper's."""

import numpy as np
import pytest
from scipy.stats import binom

from aptset.experiments.datasets import MODELS, Mixed, Multinomial, draw_labels


def test_model_1_is_a_softmax_of_ten_features():
    model = Multinomial.draw(np.random.default_rng(0))
    X = model.draw_features(50, np.random.default_rng(1))
    assert X.shape == (50, 10)
    found = model.probabilities(X)
    for x, row in zip(X, found, strict=True):
        weights = [np.exp(sum(x[k] * model.beta[k, j] for k in range(10))) for j in range(10)]
        np.testing.assert_allclose(row, np.array(weights) / sum(weights), rtol=1e-9)


def test_model_1_features_and_fresh_coefficients():
    model = Multinomial.draw(np.random.default_rng(0))
    X = model.draw_features(20_000, np.random.default_rng(1))
    assert set(X[:, 0]) == {1.0, -8.0}
    # Law: Binomial(20000, 1/5); false alarm 1e-8 with a fixed seed.
    low, high = binom.interval(1 - 1e-8, 20_000, 0.2)
    assert low <= (X[:, 0] == 1).sum() <= high
    assert abs(X[:, 1:].mean()) < 6 / (9 * 20_000) ** 0.5
    assert not np.array_equal(model.beta, Multinomial.draw(np.random.default_rng(2)).beta)


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ((-1, 1, 1, 2, 0.3), (1 / 4, 1 / 4, 1 / 4, 1 / 4)),
        ((-1, -1, -1, 0, 0.3), (1 / 4, 1 / 4, 1 / 4, 1 / 4)),
        ((1, -1, -1, 3, 0.3), (1 / 2, 1 / 2, 0, 0)),
        ((1, -1, 1, 0, -2.0), (0, 0, 1 / 2, 1 / 2)),
        ((1, 1, 1, 0, 0.3), (9 / 10, 1 / 30, 1 / 30, 1 / 30)),
        ((1, 1, -1, 2, 0.3), (1 / 30, 1 / 30, 9 / 10, 1 / 30)),
    ],
)
def test_model_2_case_by_case(x, expected):
    np.testing.assert_allclose(Mixed().probabilities(np.array([x], dtype=float))[0], expected, rtol=1e-15)


def test_model_2_features():
    X = Mixed().draw_features(20_000, np.random.default_rng(3))
    assert X.shape == (20_000, 5)
    low, high = binom.interval(1 - 1e-8, 20_000, 0.25)
    for column in (0, 1):
        assert set(X[:, column]) == {-1.0, 1.0}
        assert low <= (X[:, column] == -1).sum() <= high
    for label in range(4):
        assert low <= (X[:, 3] == label).sum() <= high
    low, high = binom.interval(1 - 1e-8, 20_000, 0.5)
    assert low <= (X[:, 2] == -1).sum() <= high


@pytest.mark.parametrize("name", MODELS)
def test_labels_follow_the_probabilities(name):
    generator = np.random.default_rng(4)
    model = MODELS[name].draw(generator)
    probabilities = model.probabilities(model.draw_features(1, generator))
    labels = draw_labels(np.repeat(probabilities, 20_000, axis=0), generator)
    for label, p in enumerate(probabilities[0]):  # law: Binomial(20000, p); false alarm 1e-8 each
        low, high = binom.interval(1 - 1e-8, 20_000, p)
        assert low <= (labels == label).sum() <= high
