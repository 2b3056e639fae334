"""XGBoost, LightGBM, CatBoost and skorch, where they are installed: labels of every kind, folds, early stopping."""

import numpy as np
import pandas as pd
import pytest
import torch
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from skorch import NeuralNetClassifier
from xgboost import XGBClassifier

from aptset import ConformalClassifier


def network(units=3):
    return NeuralNetClassifier(torch.nn.Sequential(torch.nn.Linear(4, units), torch.nn.Softmax(-1)), verbose=0)


MODELS = {
    "xgboost": lambda: XGBClassifier(n_estimators=8, max_depth=2),
    "lightgbm": lambda: LGBMClassifier(n_estimators=8, num_leaves=4, verbose=-1),
    "catboost": lambda: CatBoostClassifier(iterations=8, depth=2, verbose=0, allow_writing_files=False),
    "skorch": network,
}


def sample(n, seed=0):
    generator = np.random.default_rng(seed)
    codes = generator.integers(3, size=n)
    X = generator.normal(size=(n, 4)) + 2 * np.eye(3, 4)[codes]
    return X.astype(np.float32), codes


LABELS = {
    "texts": np.array(["zèbre", "ape", "cat"]),
    "gaps": np.array([30, 7, 12]),
    "booleans": np.array([True, False, True]),
    "plain numbers": np.arange(3),
}


@pytest.mark.parametrize("calibration", ["split", "cv+"])
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", MODELS)
def test_any_labels(name, labels, calibration):
    X, codes = sample(300)
    y = LABELS[labels][codes]
    model = network(2) if name == "skorch" and labels == "booleans" else MODELS[name]()
    classifier = ConformalClassifier(model, calibration=calibration, random_state=0).fit(X, y)
    new, new_codes = sample(500, seed=1)
    truth = LABELS[labels][new_codes]
    sets = classifier.predict_set(new)
    # 300 calibration rows at most, 500 new ones: four standard deviations below 0.9, and CV+ misses at most twice that.
    assert sets.covers(truth).mean() > 0.9 - 4 * (0.09 * (1 / 150 + 1 / 500)) ** 0.5
    assert classifier.classes_.tolist() == sorted(set(y.tolist()))
    assert set(classifier.predict(new).tolist()) <= set(y.tolist())


@pytest.mark.filterwarnings("ignore:a new row carries", "ignore:The least populated class")
@pytest.mark.parametrize("calibration", ["split", "cv+", "jackknife+"])
@pytest.mark.parametrize("name", MODELS)
def test_a_rare_label_that_no_fold_need_train_on(name, calibration):
    X, codes = sample(40)
    y = codes * 3
    y[0] = 5
    model = network(4) if name == "skorch" else MODELS[name]()
    classifier = ConformalClassifier(model, calibration=calibration, random_state=0).fit(X, y)
    assert classifier.classes_.tolist() == [0, 3, 5, 6]
    assert classifier.predict_proba(X)[:, 2].min() >= 0


@pytest.mark.filterwarnings("ignore:a new row carries", "ignore:the training rows hold only the class")
@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_a_fold_with_one_label(name):
    X, _ = sample(12)
    y = np.array(["rare", *["common"] * 11])
    classifier = ConformalClassifier(MODELS[name](), calibration="jackknife+", random_state=0).fit(X, y)
    assert classifier.predict_proba(X).shape == (12, 2)


@pytest.mark.filterwarnings("ignore:a new row carries", "ignore:The least populated class")
def test_a_network_that_is_told_its_labels_keeps_them_apart():
    X, codes = sample(60)
    y = np.array([0, 2, 3])[codes]
    y[0] = 1
    model = network(4).set_params(classes=[0, 1, 2, 3], max_epochs=60, lr=0.3)
    classifier = ConformalClassifier(model, calibration="cv+", random_state=0).fit(X, y)
    assert (classifier.predict(X) == y).mean() > 0.8


def test_catboost_that_is_told_its_labels():
    X, codes = sample(120)
    model = MODELS["catboost"]().set_params(class_names=["a", "b", "c"])
    classifier = ConformalClassifier(model, random_state=0).fit(X, np.array(["a", "b", "c"])[codes])
    assert (classifier.predict(X) == np.array(["a", "b", "c"])[codes]).mean() > 0.7


def test_early_stopping_with_texts():
    X, codes = sample(200)
    y = LABELS["texts"][codes]
    watch = sample(60, seed=2)
    model = XGBClassifier(n_estimators=200, early_stopping_rounds=3)
    classifier = ConformalClassifier(model, random_state=0)
    classifier.fit(X, y, eval_set=[(watch[0], LABELS["texts"][watch[1]])], verbose=False)
    assert classifier.models_[0].best_iteration < 199


def test_catboost_takes_its_categories_either_way():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"colour": generator.choice(["red", "blue"], 200), "size": generator.normal(size=200)})
    y = np.where(frame["colour"] == "red", "warm", "cold")
    quiet = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    settled = ConformalClassifier(CatBoostClassifier(**quiet, cat_features=["colour"]), random_state=0).fit(frame, y)
    passed = ConformalClassifier(CatBoostClassifier(**quiet), random_state=0).fit(frame, y, cat_features=["colour"])
    assert np.array_equal(settled.p_values(frame), passed.p_values(frame))
