"""What people pass: frames, sparse rows, texts, weights, models with ways of their own."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline

from aptset import ConformalClassifier

X, Y = load_iris(return_X_y=True)


NAMES = load_iris().target_names[Y]


def fitted(model=None, y=NAMES, **settings):
    return ConformalClassifier(model or GaussianNB(), random_state=0, **settings).fit(X, y)


@pytest.mark.parametrize("kind", ["strings", "objects", "bools", "gaps", "floats"])
def test_labels_of_any_kind(kind):
    labels = {
        "strings": NAMES,
        "objects": NAMES.astype(object),
        "bools": Y > 0,
        "gaps": np.array([-7, 3, 100])[Y],
        "floats": np.array([0.0, 1.0, 5.0])[Y],
    }[kind]
    classifier = fitted(y=labels)
    sets = classifier.predict_set(X)
    assert sets.classes.tolist() == sorted(set(labels.tolist()))
    assert sets.covers(labels).mean() > 0.8
    assert type(sets[0].tolist()[0]) is type(labels.tolist()[0])


class Recorder(GaussianNB):
    """Remembers the weights it was fitted with."""

    def fit(self, X, y, sample_weight=None):
        self.weights_ = sample_weight
        self.rows_ = X
        return super().fit(X, y, sample_weight)


def test_sample_weight_follows_its_rows():
    weights = np.arange(1.0, 151.0)
    data = np.column_stack([X, weights])
    classifier = ConformalClassifier(Recorder(), random_state=0).fit(data, Y, sample_weight=weights)
    np.testing.assert_array_equal(classifier.models_[0].weights_, classifier.models_[0].rows_[:, -1])
    assert ConformalClassifier(Recorder(), random_state=0).fit(data, Y, sample_weight=None).models_[0].weights_ is None


def test_metadata_routing():
    weights = np.arange(1.0, 151.0)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = ConformalClassifier(Recorder().set_fit_request(sample_weight=True), random_state=0)
        assert len(asked.fit(X, Y, sample_weight=weights).models_[0].weights_) == 75
        refused = ConformalClassifier(Recorder().set_fit_request(sample_weight=False), random_state=0)
        with pytest.raises(TypeError, match="unexpected argument"):
            refused.fit(X, Y, sample_weight=weights)
        asked.set_score_request(sample_weight=True)
        search = GridSearchCV(asked, {"estimator__var_smoothing": [1e-9]}).fit(X, Y, sample_weight=weights)
        assert len(search.best_estimator_.models_[0].weights_) == 75


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({f"f{j}": X[:, j] for j in range(4)})
    labels = frames.Series(NAMES)
    classifier = ConformalClassifier(GaussianNB(), random_state=0).fit(frame, labels)
    expected = fitted()
    assert classifier.predict_set(frame) == expected.predict_set(X), "the content counts, not what holds it"
    # Older versions of scikit-learn do not know the names of polars' columns.
    names = getattr(classifier.models_[0], "feature_names_in_", None)
    np.testing.assert_array_equal(getattr(classifier, "feature_names_in_", None), names)
    assert not hasattr(classifier.fit(X, NAMES), "feature_names_in_"), "nothing stays from an earlier fit"


def test_frame_with_categories_and_missing_values():
    pd = pytest.importorskip("pandas")
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))  # older pandas shares the memory of X
    frame["kind"] = pd.Categorical(generator.choice(["x", "y"], size=150))
    frame.loc[::7, "a"] = np.nan
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5)
    classifier = ConformalClassifier(model, random_state=0).fit(frame, NAMES)
    distinct = frame.drop_duplicates()
    assert classifier.predict_set(distinct.iloc[::-1]) == classifier.predict_set(distinct)[::-1]


def test_sparse_rows_and_texts():
    dense = np.random.default_rng(0).poisson(0.5, size=(150, 12)).astype(float)
    expected = ConformalClassifier(MultinomialNB(), random_state=0).fit(dense, NAMES).predict_set(dense)
    for kind in (sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array):
        classifier = ConformalClassifier(MultinomialNB(), random_state=0).fit(kind(dense), NAMES)
        assert classifier.predict_set(kind(dense)) == expected
    texts = [" ".join(f"w{j}" for j in row.nonzero()[0]) + " end" for row in dense]
    classifier = ConformalClassifier(make_pipeline(CountVectorizer(), MultinomialNB()), random_state=0).fit(
        texts, NAMES
    )
    whole = classifier.predict_set(texts)
    assert [classifier.predict_set([text])[0].tolist() for text in texts[:20]] == [row.tolist() for row in whole[:20]]


def test_rows_of_lists_do_not_depend_on_their_neighbours():
    generator = np.random.default_rng(0)
    tokens = [[f"w{j}" for j in generator.integers(9, size=generator.integers(1, 4))] for _ in range(120)]
    labels = NAMES[np.arange(120) % 150]
    model = make_pipeline(CountVectorizer(analyzer=lambda row: row), MultinomialNB())
    classifier = ConformalClassifier(model, random_state=0).fit(tokens, labels)
    tokens = [row for i, row in enumerate(tokens) if row not in tokens[:i]]
    with pytest.warns(UserWarning, match=r"copies of others.*ids=.*randomized=False"):
        whole = classifier.predict_set(tokens)
    alone = [classifier.predict_set([row])[0].tolist() for row in tokens]
    assert alone == [row.tolist() for row in whole]


def test_calibrated_classifier_as_estimator():
    model = CalibratedClassifierCV(RidgeClassifier(), cv=3)
    assert ConformalClassifier(model, random_state=0).fit(X, NAMES).predict_set(X).covers(NAMES).mean() > 0.8
