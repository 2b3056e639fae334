"""Every model is trained on 0, 1, ..., all of them present, and users only meet their own labels."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset
from aptset import ConformalClassifier


class Picky(ClassifierMixin, BaseEstimator):
    """A naive Bayes that takes only 0, 1, ..., as XGBoost does, and notes what it was watched on."""

    def fit(self, X, y, eval_set=None):
        wanted = np.arange(len(np.unique(y)))
        if not (np.issubdtype(np.asarray(y).dtype, np.integer) and np.array_equal(np.unique(y), wanted)):
            raise ValueError(f"Invalid classes: expected {wanted}, got {np.unique(y)}")
        self.watched_ = [np.asarray(y) for _, y in eval_set or []]
        self.classes_, self.model_ = wanted, GaussianNB().fit(X, y)
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def predict(self, X):
        return self.model_.predict(X)


X, codes = load_iris(return_X_y=True)
LABELS = {
    "texts": np.array(["sétosa", "a", "b"])[codes],
    "gaps": np.array([7, -3, 100])[codes],
    "objects": np.array(["sétosa", "a", "b"], dtype=object)[codes],
    "numbers with points": np.array([0.5, 1.5, 2.5])[codes].astype(object).astype(str),
    "booleans": codes == 1,
}


@pytest.mark.parametrize("calibration", ["split", "cv+"])
@pytest.mark.parametrize("kind", LABELS)
def test_sets_are_those_of_a_model_that_takes_any_labels(kind, calibration):
    y = LABELS[kind]
    settings = {"random_state": 0, "calibration": calibration}
    picky = ConformalClassifier(Picky(), **settings).fit(X, y)
    plain = ConformalClassifier(GaussianNB(), **settings).fit(X, y)
    assert picky.classes_.tolist() == sorted(set(y.tolist()))
    assert np.array_equal(picky.p_values(X), plain.p_values(X))
    assert np.array_equal(picky.predict(X), plain.predict(X))
    assert all(set(model.classes_.tolist()) <= set(y.tolist()) for model in picky.models_)


@pytest.mark.filterwarnings("ignore:a new row carries")
@pytest.mark.parametrize("calibration", ["split", "cv+", "jackknife+"])
def test_a_label_that_misses_a_fold_leaves_no_gap(calibration):
    y = codes.copy()[::3]
    y[7] = 1
    y = np.where(y == 2, 6, y)
    y[3] = 4  # once: some fold trains without it, and 6 is then the number 2
    classifier = ConformalClassifier(Picky(), calibration=calibration, random_state=0).fit(X[::3], y)
    assert classifier.classes_.tolist() == [0, 1, 4, 6]
    assert {tuple(model.classes_.tolist()) for model in classifier.models_} >= {(0, 1, 6)}
    assert classifier.predict_proba(X).shape == (150, 4)


class Network(ClassifierMixin, BaseEstimator):
    """A model with a fixed number of outputs, as networks have; it may be told its labels."""

    def __init__(self, outputs=4, classes=None):
        self.outputs, self.classes = outputs, classes

    def fit(self, X, y):
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        self.model_ = GaussianNB().fit(X, y)
        return self

    def predict_proba(self, X):
        found = np.full((len(X), self.outputs), 0.01)
        found[:, self.model_.classes_] = 0.5 * self.model_.predict_proba(X)
        return found / found.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore:a new row carries")
@pytest.mark.parametrize("rare", [0, 1, 2, 3], ids=lambda rare: f"label {rare} is rare")
@pytest.mark.parametrize("kind", ["numbers", "texts", "told"])
def test_outputs_of_a_network_that_nothing_trained_are_left_out(kind, rare):
    y = np.array([k for k in range(4) if k != rare])[codes]
    y[0] = rare
    labels = np.array(list("abcd")) if kind == "texts" else np.arange(4)
    told = labels.tolist() if kind == "told" else None
    settings = {"calibration": "jackknife+", "random_state": 0}
    network = ConformalClassifier(Network(classes=told), **settings).fit(X[::3], labels[y[::3]])
    plain = ConformalClassifier(GaussianNB(), **settings).fit(X[::3], labels[y[::3]])
    lone = network.models_[0]  # whichever fold holds the one row of the rare label out
    for model, other in zip(network.models_, plain.models_, strict=True):
        if len(other.classes_) == 3 and not (kind == "told" and rare == 3):  # there numbers and labels are the same
            lone = model
            assert model.classes_.tolist() == other.classes_.tolist()
            assert np.allclose(model.predict_proba(X), other.predict_proba(X))
    assert len(lone.classes_) == 3 or (kind == "told" and rare == 3)
    assert network.predict_proba(X).shape == (150, 4)
    assert (network.predict(X) == labels[y]).mean() > 0.9


def test_settings_that_name_labels_keep_their_meaning():
    y = LABELS["texts"]
    weights = {"sétosa": 1.0, "a": 50.0, "b": 0.1, "never": 3.0}
    model = make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights))
    classifier = ConformalClassifier(model, random_state=0).fit(X, y)
    fold = classifier.models_[0]
    known = {label: weights[label] for label in set(y.tolist())}
    wanted = make_pipeline(StandardScaler(), LogisticRegression(class_weight=known))
    rows = np.flatnonzero(~np.isin(np.arange(150), _held_out(classifier)))
    wanted.fit(X[rows], y[rows])
    assert np.allclose(fold.predict_proba(X), wanted.predict_proba(X), atol=1e-6)
    assert model.named_steps["logisticregression"].class_weight == weights  # the user's own object is as it was
    constant = ConformalClassifier(DummyClassifier(strategy="constant", constant="b"), random_state=0).fit(X, y)
    assert set(constant.predict(X)) == {"b"}


def _held_out(classifier):
    """Return the rows that calibrate, drawn as fit draws them."""
    from aptset.estimator.learning import prepare

    _, training, _ = prepare(classifier, X, LABELS["texts"], None, None, None, {})
    return training.folds[0].held_out


def test_rows_that_a_model_is_watched_on_are_encoded_too():
    y = LABELS["gaps"]
    watched = np.append(y[:4], 55)  # 55 trains nothing: it cannot be a number
    classifier = ConformalClassifier(Picky(), random_state=0).fit(X, y, eval_set=[(X[:5], watched)])
    (seen,) = classifier.models_[0].watched_
    assert classifier.models_[0].labels[seen].tolist() == y[:4].tolist()


def test_a_model_that_knows_its_labels_by_itself_stays_as_it_is():
    class Trained(Picky):
        def fit(self, X, y, eval_set=None):
            self.model_ = GaussianNB().fit(*load_iris(return_X_y=True))
            self.classes_ = np.array(["sétosa", "a", "b"])
            return self

    classifier = ConformalClassifier(Trained(), random_state=0).fit(X, LABELS["texts"])
    assert isinstance(classifier.models_[0], Trained)
    assert (classifier.predict(X) == LABELS["texts"]).mean() > 0.9


@pytest.mark.filterwarnings("ignore:a new row carries")
@pytest.mark.parametrize("error", [ValueError("needs 2 classes"), RuntimeError("Target contains one unique value")])
def test_one_label_in_the_rows_that_train_gives_a_constant_model(error):
    class Refuses(GaussianNB):
        def fit(self, X, y):
            if len(set(y)) == 1:
                raise error
            return super().fit(X, y)

    y = np.array(["a", *["b"] * 9])
    with pytest.warns(UserWarning, match="a constant model is used instead"):
        classifier = ConformalClassifier(Refuses(), calibration="jackknife+", random_state=0).fit(X[:10], y)
    assert classifier.classes_.tolist() == ["a", "b"]


class Changes(GaussianNB):
    """Its constructor changes what it is given, so that scikit-learn cannot clone it; CatBoost does so."""

    def __init__(self, columns=()):
        super().__init__()
        self.columns = list(columns)

    def get_params(self, deep=True):
        return {"columns": list(self.columns)}


def test_a_model_that_cannot_be_cloned_is_built_from_its_settings_or_named():
    with pytest.raises(RuntimeError, match="Cannot clone"):
        clone(Changes(["a"]))
    classifier = ConformalClassifier(Changes(["a"]), random_state=0).fit(X, codes)
    assert classifier.models_[0].columns == ["a"]
    inside = ConformalClassifier(make_pipeline(StandardScaler(), Changes(["a"])), random_state=0).fit(X, codes)
    assert inside.models_[0][-1].columns == ["a"]

    order = np.random.default_rng(0).permutation(150)
    audited = aptset.audit(Changes(["a"]), X[order], codes[order], repetitions=2, calibrations="split")
    assert audited.repetitions == 2

    class Unknown(Changes):
        def get_params(self, deep=True):
            return {"columns": list(self.columns), "gone": 1}

    with pytest.raises(TypeError, match=r"that scikit-learn can clone; got Unknown.*cat_features=\[...\]"):
        ConformalClassifier(Unknown(["a"]), random_state=0).fit(X, codes)
