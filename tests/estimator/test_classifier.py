"""The scikit-learn face."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import aptset
from aptset import ConformalClassifier, Split
from aptset.estimator.fitting import steady

X, Y = load_iris(return_X_y=True)


NAMES = load_iris().target_names[Y]


def fitted(model=None, y=NAMES, **settings):
    return ConformalClassifier(model or GaussianNB(), random_state=0, **settings).fit(X, y)


CHECKED = [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(random_state=0), MultinomialNB()]


@pytest.mark.parametrize("model", CHECKED, ids=str)
def test_scikit_learn_checks(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed on purpose what warns
        results = check_estimator(ConformalClassifier(model, random_state=0), on_fail=None, on_skip=None)
    left = [(r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"]
    # The array API check runs only under SCIPY_ARRAY_API=1.
    assert [name for name, *_ in left] in ([], ["check_array_api_input"]), left
    assert len(results) > 40


def test_what_a_user_sees():
    classifier = fitted()
    sets = classifier.predict_set(X)
    assert sets[0].tolist() == ["setosa"]
    assert set(classifier.predict(X)) == {"setosa", "versicolor", "virginica"}
    assert classifier.predict_proba(X).shape == classifier.p_values(X).shape == (150, 3)
    assert classifier.score(X, NAMES) == np.mean(classifier.predict(X) == NAMES)
    assert classifier.n_calibration_ == 75
    assert classifier.n_features_in_ == 4
    np.testing.assert_array_equal(sets.mask, classifier.p_values(X) > 0.1)
    for alpha, some in zip((0.05, 0.3), classifier.predict_set(X, [0.05, 0.3]), strict=True):
        assert some == classifier.predict_set(X, alpha)


def test_before_fit():
    for method in ("predict_set", "predict", "predict_proba", "p_values"):
        with pytest.raises(NotFittedError):
            getattr(ConformalClassifier(GaussianNB()), method)(X)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_share_of_rows_that_calibrates(share):
    assert fitted(calibration=Split(share=share)).n_calibration_ == round(150 * share)


def test_split_is_random_and_seeded():
    def rows(seed):
        (fold,) = Split().folds(None, np.zeros(20), np.random.default_rng(seed))
        assert sorted([*fold.train_rows(20), *fold.held_out]) == list(range(20))
        return tuple(fold.held_out)

    assert rows(0) == rows(0) != rows(1)
    assert Split(share=0.999).folds(None, np.zeros(2), np.random.default_rng(0))[0].held_out.size == 1


def test_frozen_model_calibrates_on_every_row_and_keeps_its_class_order():
    class Reversed(ClassifierMixin, BaseEstimator):
        """A model whose classes_ are not sorted."""

        def fit(self, X, y):
            self.inner_ = GaussianNB().fit(X, y)
            self.classes_ = self.inner_.classes_[::-1]
            return self

        def predict_proba(self, X):
            return self.inner_.predict_proba(X)[:, ::-1]

    plain = ConformalClassifier(FrozenEstimator(GaussianNB().fit(X, NAMES)), random_state=0).fit(X, NAMES)
    reverse = ConformalClassifier(FrozenEstimator(Reversed().fit(X, NAMES)), random_state=0).fit(X, NAMES)
    assert plain.n_calibration_ == 150
    assert plain.predict_set(X) == reverse.predict_set(X)
    np.testing.assert_array_equal(plain.p_values(X), reverse.p_values(X))


def test_frozen_model_is_not_refitted():
    model = GaussianNB().fit(X[:100:2], NAMES[:100:2])  # has never seen virginica
    classifier = ConformalClassifier(FrozenEstimator(model), random_state=0).fit(X, NAMES)
    assert classifier.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert (classifier.predict_proba(X)[:, 2] == 0).all()
    assert model.classes_.tolist() == ["setosa", "versicolor"]
    assert classifier.predict_set(X, 0.01).covers(NAMES).mean() > 0.95, "a class without mass is covered all the same"
    one = ConformalClassifier(FrozenEstimator(model), random_state=0).fit(X[:60], NAMES[:60])
    assert one.classes_.tolist() == ["setosa", "versicolor"]


def test_class_missing_from_the_training_part():
    """A class with one sample, which is held out in some of the splits."""
    labels = NAMES.copy().astype(object)
    labels[0] = "rare"
    missing = 0
    for seed in range(12):
        classifier = ConformalClassifier(LogisticRegression(max_iter=1000), random_state=seed).fit(X, labels)
        missing += "rare" not in classifier.models_[0].classes_
        assert classifier.predict_proba(X).shape == (150, 4)
        assert classifier.predict_set(X, 0.5).sizes.max() <= 4
    assert 0 < missing < 12


def test_training_part_with_one_class_only():
    labels = np.array(["a"] * 39 + ["b"])
    known = {"classes": ["a", "b"], "random_state": 1}
    with pytest.warns(UserWarning, match="only the class 'a'.*a constant model is used instead"):
        classifier = ConformalClassifier(LogisticRegression(), **known).fit(X[:40], labels)
    sets = classifier.predict_set(X[:40])
    assert (sets.mask[:, 0] | (sets.sizes == 0)).all()
    assert classifier.n_features_in_ == 4
    tree = ConformalClassifier(DecisionTreeClassifier(), **known).fit(X[:40], labels)
    assert isinstance(tree.models_[0].model, DecisionTreeClassifier), "a model that copes with one class is kept"


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(max_iter=2000),
        make_pipeline(StandardScaler(), LogisticRegression()),
        GaussianNB(),
        RandomForestClassifier(n_estimators=10),
        MLPClassifier((16,), max_iter=20),
        DecisionTreeClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_row_independence(model):
    """On the rows that were calibrated on too, where one label stands exactly at the threshold."""
    data, labels = make_classification(400, n_features=20, n_informative=8, n_classes=4, random_state=0)
    classifier = ConformalClassifier(model, random_state=0).fit(data, labels)
    whole = classifier.predict_set(data, [0.1, 0.3])
    order = np.random.default_rng(0).permutation(400)
    for moved, expected in zip(classifier.predict_set(data[order], [0.1, 0.3]), whole, strict=True):
        assert moved == expected[order]
    for size in (1, 7, 150):
        parts = [classifier.predict_set(data[i : i + size]) for i in range(0, 400, size)]
        assert [row.tolist() for part in parts for row in part] == [row.tolist() for row in whole[0]]


def test_last_bits_of_a_model_do_not_count():
    """Probabilities that differ by a few steps of rounding become the same number, but for 2^-17 of them or so."""
    p = np.random.default_rng(0).random(200_000)
    other = np.nextafter(np.nextafter(p, 1), 1)
    assert (steady(p) != steady(other)).sum() < 40
    np.testing.assert_allclose(steady(p), p, rtol=2.0**-32)


def test_random_state_reaches_model_split_and_key():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5))
    first, second = (ConformalClassifier(model, random_state=4).fit(X, NAMES) for _ in range(2))
    assert first.fitted_.rule.key == second.fitted_.rule.key
    assert first.predict_set(X) == second.predict_set(X)
    assert model[-1].random_state is None, "the user's estimator is left as it is"
    fresh = ConformalClassifier(model).fit(X, NAMES)
    assert fresh.fitted_.rule.key != ConformalClassifier(model).fit(X, NAMES).fitted_.rule.key
    assert fresh.predict_set(X) == fresh.predict_set(X)
    kept = fresh.fitted_.rule.key
    assert fresh.fit(X, NAMES).fitted_.rule.key != kept, "a fresh key for every fit"


def test_pipeline_clone_grid_search_pickle():
    pipeline = make_pipeline(StandardScaler(), ConformalClassifier(LogisticRegression(), random_state=0)).fit(X, NAMES)
    assert pipeline.predict(X).shape == (150,)
    assert len(pipeline[-1].predict_set(pipeline[:-1].transform(X))) == 150
    search = GridSearchCV(
        ConformalClassifier(GaussianNB(), random_state=0),
        {"estimator__var_smoothing": [1e-9, 1e-3], "conformity": ["adaptive", aptset.Homogeneous()]},
    ).fit(X, NAMES)
    assert search.best_score_ > 0.9
    assert cross_val_score(clone(search.best_estimator_), X, NAMES).mean() > 0.9
    classifier = fitted()
    assert pickle.loads(pickle.dumps(classifier)).predict_set(X) == classifier.predict_set(X)


def test_memory_is_bounded_by_pieces(limits):
    classifier = fitted()
    expected, p_values = classifier.predict_set(X, [0.05, 0.2]), classifier.p_values(X)
    limits(chunk_cells=40)
    assert classifier.predict_set(X, [0.05, 0.2]) == expected
    np.testing.assert_array_equal(classifier.p_values(X), p_values)


def test_deterministic_and_never_empty():
    deterministic = fitted(randomized=False)
    assert deterministic.predict_set(X) == fitted(randomized=False).predict_set(X)
    assert (deterministic.predict_set(X).sizes >= 1).all()
    sets = fitted(allow_empty=False).predict_set(X, 0.5)
    assert (sets.sizes >= 1).all()
    assert (fitted().predict_set(X, 0.5).sizes == 0).any()
    with pytest.raises(ValueError, match="randomized=False"):
        deterministic.predict_set(X, u=np.zeros(150))
    own = ConformalClassifier(GaussianNB(), random_state=0).fit(X, NAMES, u=np.full(150, 0.5))
    assert own.predict_set(X, u=np.zeros(150)).sizes.sum() <= own.predict_set(X, u=np.ones(150)).sizes.sum()


def test_settings_changed_after_fit_wait_for_the_next_fit():
    for settings in ({"randomized": False}, {"randomized": True}):
        classifier = fitted(**settings)
        expected = classifier.predict_set(X)
        changed = classifier.set_params(randomized=not settings["randomized"], conformity="homogeneous", groups="label")
        assert changed.predict_set(X) == expected
