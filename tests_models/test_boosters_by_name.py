"""Boosters get their columns by name, in the types of fit: LightGBM takes them by position, and says nothing."""

import json

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from xgboost import XGBClassifier

from aptset import ConformalClassifier, load

generator = np.random.default_rng(0)
Y = generator.integers(3, size=600)
FRAME = pd.DataFrame(
    {
        "a": generator.normal(size=600) + Y,
        "b b": generator.integers(0, 40, size=600) - 5 * Y,
        "colour": pd.Categorical(generator.choice(["red", "green", "blue"], size=600), ["green", "red", "blue"]),
        "d": generator.normal(size=600) * 9,
    }
)
FRAME.loc[::7, "d"] = np.nan
NEW = FRAME[400:]
MODELS = {
    "xgboost": lambda: XGBClassifier(n_estimators=8, max_depth=3, enable_categorical=True),
    "lightgbm": lambda: LGBMClassifier(n_estimators=8, num_leaves=8, verbose=-1),
    "catboost": lambda: CatBoostClassifier(
        iterations=8, depth=3, verbose=0, allow_writing_files=False, cat_features=["colour"]
    ),
    "a pipeline": lambda: make_pipeline(FunctionTransformer(), LGBMClassifier(n_estimators=8, verbose=-1)),
}


def as_sent():
    """Return the new rows in the ways in which a service gets them."""
    texts = NEW.assign(colour=NEW["colour"].astype(str))[NEW.columns[::-1]]
    sent = json.loads(texts.assign(extra="x").to_json(orient="records", double_precision=15))
    exact = [
        {**record, "a": float(a), "d": None if d != d else float(d)}
        for record, a, d in zip(sent, NEW["a"], NEW["d"], strict=True)
    ]
    return {
        "shuffled": NEW[["d", "colour", "b b", "a"]],
        "with more": NEW.assign(extra=1)[["extra", "colour", "b b", "d", "a"]],
        "texts": texts,
        "records": exact,
        "other categories": texts.assign(colour=texts["colour"].astype("category")),
    }


@pytest.mark.parametrize("name", MODELS)
def test_every_way_is_the_same_row(name, tmp_path):
    classifier = ConformalClassifier(MODELS[name](), random_state=0).fit(FRAME[:400], Y[:400])
    probabilities, p_values = classifier.predict_proba(NEW), classifier.p_values(NEW)
    for way, rows in as_sent().items():
        assert np.array_equal(classifier.predict_proba(rows), probabilities), way
        assert np.array_equal(classifier.p_values(rows), p_values), way
    one = as_sent()["records"][0]
    assert np.array_equal(classifier.p_values([one])[0], p_values[0]), "a row alone has few categories"
    classifier.save(tmp_path / "folder")
    assert np.array_equal(load(tmp_path / "folder").p_values(as_sent()["records"]), p_values)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_a_fitted_booster_gets_its_own_order(name):
    names = ["d", "b b", "a"]
    model = (
        MODELS[name]() if name != "catboost" else CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False)
    )
    model.fit(FRAME[:200][names], Y[:200])
    classifier = ConformalClassifier(FrozenEstimator(model), random_state=0).fit(FRAME[200:400], Y[200:400])
    assert classifier.feature_names_in_.tolist() == names
    assert np.allclose(classifier.predict_proba(NEW), model.predict_proba(NEW[names]), atol=1e-7)
    assert np.allclose(classifier.predict_proba(NEW[["a", "b b", "d"]]), model.predict_proba(NEW[names]), atol=1e-7)
    with pytest.raises(ValueError, match="every column that fit saw; 'd' is missing"):
        ConformalClassifier(FrozenEstimator(model)).fit(FRAME[["a", "b b"]], Y)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_a_booster_that_was_fitted_on_arrays_goes_by_position(name):
    names = ["a", "b b", "d"]
    model = (
        MODELS[name]() if name != "catboost" else CatBoostClassifier(iterations=8, verbose=0, allow_writing_files=False)
    )
    model.fit(FRAME[:200][names].to_numpy(), Y[:200])
    values = NEW[names].to_numpy()
    classifier = ConformalClassifier(FrozenEstimator(model), random_state=0).fit(
        FRAME[200:400][names].to_numpy(), Y[200:400]
    )
    assert np.allclose(classifier.predict_proba(values), model.predict_proba(values), atol=1e-7)
