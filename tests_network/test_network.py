"""The quantile network, where torch is installed: its law, its recipe, its manners."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from aptset.core.runner import run_tasks
from aptset.experiments import baselines as network_module
from aptset.experiments.baselines import ConformalQuantileClassifier, NetworkQuantiles
from aptset.experiments.designs import Cell, make_box


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


class Watched(NetworkQuantiles):
    """Notes with what each training run started, and on how many rows."""

    def _epochs(self, network, features, target, level, max_steps):
        state = {name: value.clone() for name, value in network.state_dict().items()}
        self.__dict__.setdefault("runs_", []).append((state, len(target), max_steps))
        yield from super()._epochs(network, features, target, level, max_steps)


@pytest.mark.parametrize(
    ("judged", "epochs"),
    [
        ([(0.9, 3.0), (0.8, 2.0), (0.5, 1.0), (0.9, 2.5)], 2),  # the narrowest that holds 80 %
        ([(0.9, 1.0), (0.9, 2.0), (0.9, 1.0), (0.9, 3.0)], 1),  # the first of equal ones
        ([(0.7, 3.0), (0.7, 2.0), (0.7, 1.0), (0.7, 0.5)], 4),  # none does: all of them
    ],
)
def test_the_epoch_is_chosen_and_training_starts_again(judged, epochs, monkeypatch):
    told = iter(judged)
    monkeypatch.setattr(network_module, "_judge", lambda *_: next(told))
    found = Watched(epochs=4, random_state=0).fit(*sample(200, 0))
    (start, n_choosing, _), (again, n_all, steps) = found.runs_
    assert (n_choosing, n_all) == (190, 200)
    assert steps == found.n_steps_ == epochs * 3
    assert all(torch.equal(start[name], again[name]) for name in start)
    assert any(not torch.equal(start[name], value) for name, value in found.network_.state_dict().items())


def test_the_optimiser_is_the_papers(monkeypatch):
    asked = []
    adam = torch.optim.Adam

    def watched(parameters, **settings):
        asked.append(settings)
        return adam(parameters, **settings)

    monkeypatch.setattr(torch.optim, "Adam", watched)
    NetworkQuantiles(epochs=1, random_state=0).fit(*sample(100, 0))
    assert len(asked) == 2, "one for each run"
    assert all({"lr": 5e-4, "weight_decay": 1e-6}.items() <= settings.items() for settings in asked)


def test_held_out_judgement():
    network = NetworkQuantiles(epochs=1, random_state=0).fit(*sample(100, 0)).network_
    X, y = (torch.as_tensor(values, dtype=torch.float32) for values in sample(50, 1))
    low, high = np.sort(network(X).detach().numpy(), axis=1).T
    coverage, width = network_module._judge(network, X, y)
    assert coverage == pytest.approx(np.mean((y.numpy() >= low) & (y.numpy() <= high)))
    assert width == pytest.approx(np.mean(high - low), rel=1e-5)


def test_threads_change_nothing():
    X, y = sample(300, 0)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(NetworkQuantiles(epochs=10, random_state=0).fit(X, y).predict(X))
            assert torch.get_num_threads() == threads, "the setting is put back"
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


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


def test_a_cell_is_what_the_library_gives_on_any_number_of_workers(tmp_path):
    cells = [Cell("model2", 90, 300, "Oracle", "CQC", repetition) for repetition in range(2)]
    sample, seed = cells[0].sample(), cells[0]._seed("Oracle", "CQC")
    box = make_box("Oracle", 4, sample.model)
    direct = ConformalQuantileClassifier(box, random_state=seed).fit(sample.X, sample.y).predict_set(sample.X_test)
    one, two = (run_tasks(cells, tmp_path / str(jobs), jobs) for jobs in (1, 2))
    assert str([done.rows for done in one]) == str([done.rows for done in two])
    assert one[0].rows[0]["size"] == direct.sizes.mean()
    assert one[0].rows[0]["coverage"] == direct.covers(sample.y_test).mean()


@parametrize_with_checks([NetworkQuantiles(epochs=3)])
def test_scikit_learn_agrees(estimator, check):
    if check.func.__name__ != "check_array_api_input":
        check(estimator)
