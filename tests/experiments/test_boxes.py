"""The black boxes have the paper's settings and its clipping."""

import numpy as np
import pytest

from aptset.experiments.datasets import Mixed, Multinomial
from aptset.experiments.designs import clip, make_box


def test_settings_on_simulated_data():
    model = Mixed()
    forest = make_box("RFC", 4, model)
    wanted = {"n_estimators": 1000, "max_depth": 5, "max_features": None}
    assert wanted.items() <= forest.estimator.get_params().items()
    machine = make_box("SVC", 4, model)
    assert {"kernel": "linear", "C": 1.0, "probability": True}.items() <= machine.estimator.get_params().items()
    assert forest.floor == machine.floor == pytest.approx(1e-5 / 4)


def test_settings_on_real_data():
    network = make_box("NNet", 10, None)
    wanted = {"hidden_layer_sizes": (64,), "learning_rate_init": 0.01, "batch_size": 128, "max_iter": 20}
    assert {**wanted, "activation": "relu", "solver": "adam"}.items() <= network.estimator.get_params().items()
    forest = make_box("RFC", 10, None)
    wanted = {"n_estimators": 100, "min_samples_leaf": 3, "max_features": "sqrt", "max_depth": None}
    assert wanted.items() <= forest.estimator.get_params().items()
    assert network.floor == forest.floor == pytest.approx(0.1 / 10)


def test_clipping_by_definition():
    np.testing.assert_allclose(clip(np.array([[0.0, 0.25, 0.75]]), 0.1), [[0.1 / 1.1, 0.25 / 1.1, 0.75 / 1.1]])


@pytest.mark.parametrize("name", ["NNet", "SVC", "RFC"])
def test_a_label_that_never_occurred_gets_the_floor(name):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(150, 3)), generator.integers(3, size=150) + 1  # labels 1, 2, 3 of 0..4
    box = make_box(name, 5, None).set_params(estimator__random_state=0).fit(X, y)
    found = box.predict_proba(X)
    assert found.shape == (150, 5)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    total = found[:, 0] / box.floor  # the floor over the sum after clipping
    assert (found[:, 0] == found[:, 4]).all()
    assert ((total > 0.9) & (total <= 1)).all()
    assert (box.predict(X) == np.argmax(found, axis=1)).all()


def test_the_oracle_knows_the_truth():
    model = Multinomial.draw(np.random.default_rng(0))
    X = model.draw_features(20, np.random.default_rng(1))
    box = make_box("Oracle", 10, model).fit(X, np.zeros(20))
    truth = np.clip(model.probabilities(X), 1e-6, 1)
    np.testing.assert_allclose(box.predict_proba(X), truth / truth.sum(axis=1, keepdims=True))
    assert box.predict_proba(X).min() >= 0.9e-6
