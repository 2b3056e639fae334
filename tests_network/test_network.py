"""The quantile network, where torch is installed: its law, its recipe, its manners."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from aptset.baselines import ConformalQuantileClassifier, NetworkQuantiles
from aptset.experiments.cells import Cell


def sample(n, seed):
    generator = np.random.default_rng(seed)
    X = generator.random((n, 3))
    return X, X[:, 0] + generator.random(n)  # given x, uniform on [x0, x0 + 1]


def test_the_recipe_is_the_papers():
    network = NetworkQuantiles().set_params(epochs=1).fit(*sample(100, 0)).network_
    kinds = [type(layer).__name__ for layer in network]
    assert kinds == ["Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    assert [tuple(layer.weight.shape) for layer in network if hasattr(layer, "weight")] == [(64, 3), (64, 64), (2, 64)]
    assert {layer.p for layer in network if isinstance(layer, torch.nn.Dropout)} == {0.1}
    settings = NetworkQuantiles().get_params()
    wanted = {"alpha": 0.1, "epochs": 1000, "batch_size": 64, "learning_rate": 5e-4, "weight_decay": 1e-6}
    assert {**wanted, "held_out": 0.05}.items() <= settings.items()


def test_it_learns_conditional_quantiles():
    X, y = sample(2000, 0)
    network = NetworkQuantiles(epochs=150, random_state=0).fit(X, y)
    new, _ = sample(500, 1)
    low, high = network.predict(new).T
    assert (low <= high).all()
    # The truth is x0 + 0.1 and x0 + 0.9; a network that ignored x would be off by 0.25 on average.
    assert np.mean(np.abs(low - new[:, 0] - 0.1)) < 0.12
    assert np.mean(np.abs(high - new[:, 0] - 0.9)) < 0.12


def test_pinball_loss_gives_quantiles_of_a_constant():
    y = np.random.default_rng(0).random(3000)
    network = NetworkQuantiles(alpha=0.2, epochs=60, random_state=0).fit(np.ones((3000, 1)), y)
    np.testing.assert_allclose(network.predict(np.ones((1, 1)))[0], [0.2, 0.8], atol=0.06)


def test_steps_are_whole_epochs_of_the_choosing_run():
    X, y = sample(200, 0)
    network = NetworkQuantiles(epochs=30, random_state=0).fit(X, y)
    steps_of_an_epoch = -(-190 // 64)  # 5 % of the rows choose
    assert network.n_steps_ % steps_of_an_epoch == 0
    assert 0 < network.n_steps_ <= 30 * steps_of_an_epoch


def test_the_same_seed_gives_the_same_network_and_the_global_state_is_left_alone():
    X, y = sample(100, 0)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = NetworkQuantiles(epochs=5, random_state=3).fit(X, y).predict(X)
    assert torch.equal(torch.rand(3), expected)
    np.testing.assert_array_equal(first, NetworkQuantiles(epochs=5, random_state=3).fit(X, y).predict(X))
    assert not np.array_equal(first, NetworkQuantiles(epochs=5, random_state=4).fit(X, y).predict(X))


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_cqc_by_name(side):
    X, y = load_iris(return_X_y=True)
    found = ConformalQuantileClassifier(
        GaussianNB(), quantiles=NetworkQuantiles(epochs=20), side=side, random_state=0
    ).fit(X, y)
    assert found.predict_set(X).covers(y).mean() > 0.7
    assert isinstance(ConformalQuantileClassifier(GaussianNB(), alpha=0.2).fit(X, y).quantiles_, NetworkQuantiles)


def test_a_cell_of_the_experiments():
    rows = Cell("model2", 150, 300, "Oracle", "CQC", 0).run()
    assert rows[0]["method"] == "CQC"
    assert 0.6 < rows[0]["coverage"] <= 1


@parametrize_with_checks([NetworkQuantiles(epochs=3)])
def test_scikit_learn_agrees(estimator, check):
    if check.func.__name__ != "check_array_api_input":
        check(estimator)
