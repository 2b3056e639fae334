"""Models without one row each by one fit: the same as fits without the row, or refused."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset
from aptset.estimator import downdates, leave_one_out
from aptset.estimator.downdates import InexactError
from aptset.estimator.leave_one_out import LeaveOneOut

MODELS = [
    KNeighborsClassifier(4),
    KNeighborsClassifier(3, weights="distance", algorithm="brute"),
    KNeighborsClassifier(5, p=1, algorithm="ball_tree"),
    GaussianNB(),
    GaussianNB(var_smoothing=0.05),
    MultinomialNB(alpha=0.5),
    BernoulliNB(binarize=1.5, fit_prior=False),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="eigen"),
    QuadraticDiscriminantAnalysis(tol=1e-9),
]
DATA = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


def subclass_of(model):
    """Return the same model as a subclass, which may do anything, and is fitted for every row."""
    kind = type("Own", (type(model),), {"__module__": __name__})
    globals()["Own"] = kind
    return kind(**model.get_params())


def rows_of(name, model, n=30, n_new=12):
    """Return rows that train, their labels, and new rows; few columns, so that every class spans them."""
    X, y = DATA[name](return_X_y=True)
    if name == "digits":
        X, y = X[y < 3], y[y < 3]
    columns = np.argsort(-X.std(axis=0) / (1 + X.max(axis=0)), kind="stable")[:3]
    order = np.random.default_rng(3).permutation(len(y))[: n + n_new]
    X, names = X[order][:, columns] + 0.0, np.array([f"class {label}" for label in range(9, -1, -1)])
    if name != "wine":  # rounded numbers are equally far from many others
        X += np.random.default_rng(4).normal(scale=0.01 * X.std(), size=X.shape)
    if isinstance(model, MultinomialNB):
        X = np.abs(np.rint(2 * X))
    return X[:n], names[y[order][:n]], X[n:]


def of_jackknife(model, **settings):
    return aptset.ConformalClassifier(model, calibration="jackknife+", random_state=0, **settings)


@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_sets_are_those_of_a_fit_for_every_row(model, name):
    X, y, new = rows_of(name, model)
    shortcut, refitted = of_jackknife(model).fit(X, y), of_jackknife(subclass_of(model)).fit(X, y)
    assert shortcut.fit_times_["fits"] == 3, shortcut.fit_times_
    assert refitted.fit_times_ == {"fits": 30, "road": "a fit for each fold: no formula is known for Own"}
    np.testing.assert_array_equal(shortcut.p_values(new), refitted.p_values(new))
    assert shortcut.predict_set(new, 0.2) == refitted.predict_set(new, 0.2)
    np.testing.assert_allclose(shortcut.predict_proba(new), refitted.predict_proba(new), atol=1e-9)
    assert shortcut.guarantee(0.1) == refitted.guarantee(0.1) == pytest.approx(0.8)


@pytest.mark.parametrize("model", [GaussianNB(), KNeighborsClassifier(4)], ids=str)
@pytest.mark.parametrize(
    "settings",
    [
        {"groups": "label"},
        {"groups": lambda X: np.where(X[:, 0] > 5, "high", "low"), "conformity": "margin"},
        {"weights": lambda X: 1 + (X[:, 0] > 5)},
        {"calibration": aptset.Minimax()},
        {"calibration": aptset.CVPlus(30), "randomized": False},
        {"classes": [f"class {label}" for label in range(10)]},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_everything_else_stays_as_it_is(model, settings):
    X, y, new = rows_of("iris", model)
    shortcut, refitted = (of_jackknife(m).set_params(**settings) for m in (model, subclass_of(model)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows are few for groups and weights
        shortcut.fit(X, y), refitted.fit(X, y)
        assert shortcut.fit_times_["fits"] == 3
        np.testing.assert_array_equal(shortcut.p_values(new), refitted.p_values(new))
        streamed = clone(shortcut).fit_predict_set(X, y, new, [0.2, 0.4])
        assert streamed == refitted.predict_set(new, [0.2, 0.4])


def test_sparse_rows_are_counted_as_they_are():
    X, y, new = rows_of("digits", MultinomialNB())
    for model in (MultinomialNB(), BernoulliNB()):
        dense, sparse = of_jackknife(model).fit(X, y), of_jackknife(model).fit(csr_matrix(X), y)
        assert sparse.fit_times_["fits"] == 3
        np.testing.assert_allclose(dense.predict_proba(new), sparse.predict_proba(csr_matrix(new)), atol=1e-12)


REFITTED = {
    "a pipeline": (make_pipeline(StandardScaler(), GaussianNB()), "no formula is known for Pipeline"),
    "a subclass": (subclass_of(GaussianNB()), "no formula is known for Own"),
    "priors": (GaussianNB(priors=[0.2, 0.3, 0.5]), "priors are given"),
    "no smoothing": (GaussianNB(var_smoothing=0.0), "nothing is added to variances"),
    "class priors": (MultinomialNB(class_prior=[0.2, 0.3, 0.5]), "priors are given"),
    "a function": (KNeighborsClassifier(4, weights=np.exp), "weights are a function"),
    "cosine": (KNeighborsClassifier(4, metric="cosine"), "another kind than Minkowski's"),
    "many neighbours": (KNeighborsClassifier(29), "hardly more rows than neighbours"),
    "priors of LDA": (LinearDiscriminantAnalysis(priors=[0.2, 0.3, 0.5]), "priors is given"),
    "shrinkage": (LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1), "shrinkage is given"),
    "reg_param": (QuadraticDiscriminantAnalysis(reg_param=0.1), "reg_param is given"),
}


@pytest.mark.parametrize("case", REFITTED)
def test_what_has_no_exact_formula_is_fitted_row_by_row(case):
    model, reason = REFITTED[case]
    X, y, new = rows_of("iris", model)
    classifier = of_jackknife(model).fit(X, y)
    assert classifier.fit_times_["fits"] == 30
    assert reason in classifier.fit_times_["road"]
    assert len(classifier.predict_set(new, 0.2)) == 12


def test_fit_parameters_float32_and_collinear_columns_are_fitted_row_by_row():
    X, y, _ = rows_of("iris", GaussianNB())
    weighted = of_jackknife(GaussianNB()).fit(X, y, sample_weight=np.arange(1.0, 31.0))
    assert "fit takes ['sample_weight']" in weighted.fit_times_["road"]
    assert "X is of float32" in of_jackknife(GaussianNB()).fit(X.astype(np.float32), y).fit_times_["road"]
    twice = np.column_stack([X, X[:, 0] + X[:, 1]])
    assert "collinear" in of_jackknife(LinearDiscriminantAnalysis()).fit(twice, y).fit_times_["road"]


def test_two_models_are_fitted_to_compare_with(monkeypatch):
    X, y, new = rows_of("iris", GaussianNB())
    expected = of_jackknife(subclass_of(GaussianNB())).fit(X, y).p_values(new)
    priors = downdates.Downdate.log_priors
    monkeypatch.setattr(downdates.Downdate, "log_priors", lambda self, rows: priors(self, rows) * 1.001)
    with pytest.warns(UserWarning, match="fitted one by one: a model without one row differs from its formula by"):
        classifier = of_jackknife(GaussianNB()).fit(X, y)
    assert classifier.fit_times_["fits"] == 30
    np.testing.assert_array_equal(classifier.p_values(new), expected)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[3], MODELS[7], MODELS[9]], ids=str)
def test_saved_pickled_and_asked_one_by_one(model, tmp_path):
    X, y, new = rows_of("iris", model)
    classifier = of_jackknife(model).fit(X, y)
    classifier.save(tmp_path / "folder")
    for other in (aptset.load(tmp_path / "folder"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(other.p_values(new), classifier.p_values(new))
        assert len(other.models_) == 30
        np.testing.assert_array_equal(other.models_[7].classes_, classifier.classes_)
    each = [one.predict_proba(new) for one in classifier.models_]
    np.testing.assert_allclose(np.mean(each, axis=0), classifier.predict_proba(new), atol=1e-9)
    assert classifier.models_[7].predict_proba(new).shape == (12, 3)
    crossed = aptset.ConformalClassifier(model, calibration="jackknife+", random_state=0).fit(X, y, ids=np.arange(30))
    said = [one.predict_proba(new) for one in crossed.models_]
    assert crossed.calibration_.predict_set(said, 0.3, ids=np.arange(12)) == crossed.predict_set(
        new, 0.3, ids=np.arange(12)
    )


def literally(model, X, y, new):
    """Return what fits without each row say of new rows and of the row itself."""
    K = y.max() + 1
    said, own = np.zeros((len(y), len(new), K)), np.zeros((len(y), K))
    for row in range(len(y)):
        fitted = clone(model).fit(np.delete(X, row, axis=0), np.delete(y, row))
        said[row][:, fitted.classes_] = fitted.predict_proba(new)
        own[row, fitted.classes_] = fitted.predict_proba(X[row : row + 1])[0]
    return said, own


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(MODELS),
    st.sampled_from(["grid", "copies", "scales", "outlier", "single", "plain"]),
    st.integers(2, 4),
)
def test_hostile_rows_are_as_fitted_or_refused(seed, model, kind, n_classes):
    generator = np.random.default_rng(seed)
    y = np.sort(np.concatenate([np.arange(n_classes), np.arange(n_classes), generator.integers(n_classes, size=20)]))
    X = generator.normal(size=(len(y), 2)) + 2 * generator.normal(size=(n_classes, 2))[y]
    new = generator.normal(size=(12, 2)) * 2
    if kind == "single":  # a class of one row is gone without it
        y = np.where(np.arange(len(y)) == len(y) - 1, n_classes, np.minimum(y, n_classes - 1))
    if kind == "grid":
        X, new = np.rint(X), np.rint(new)
    if kind == "copies":
        X[1::2] = X[:-1:2]
        new[:6] = X[:6]
    X, new = (part * [1, 1e5] + [0, 1e6] if kind == "scales" else part for part in (X, new))
    if kind == "outlier":
        X[0] = 1e4
    if isinstance(model, MultinomialNB):
        X, new = np.abs(X), np.abs(new)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(leave_one_out, "_MOST_TIES", 1.0)  # also where most rows are undecided, they are as fitted
        try:
            whole = LeaveOneOut.of(clone(model).fit(X, y), X, y, np.arange(len(y)))
        except (InexactError, ValueError, np.linalg.LinAlgError):
            return
        said, own = literally(model, X, y, new)
    np.testing.assert_allclose(whole.about(new)(np.arange(len(y))), said, rtol=0, atol=1e-9)
    np.testing.assert_allclose(whole.own(), own, rtol=0, atol=1e-9)


def test_equal_distances_between_classes_are_left_to_a_fit(monkeypatch):
    X = np.array([[x, 0.0] for x in range(12)] * 2)
    y = np.repeat([0, 1], 12)  # every row twice, once in each class: all votes are undecided
    model = KNeighborsClassifier(3).fit(X, y)
    with pytest.raises(InexactError, match="equally far"):
        LeaveOneOut.of(model, X, y, np.arange(24))
    apart, one_class = X**1.7, np.tile((np.arange(12) > 5).astype(int), 2)  # copies of one class decide everything
    whole = LeaveOneOut.of(model.fit(apart, one_class), apart, one_class, np.arange(24))
    monkeypatch.setattr(leave_one_out.NeighbourFormula, "_refitted", lambda *_: pytest.fail("no fit is needed"))
    assert whole.about(np.array([[2.2, 0.0], [9.3, 0.0]]))(np.arange(24)).shape == (24, 2, 2)


def test_memory_is_bounded_by_blocks(limits):
    X, y, new = rows_of("iris", GaussianNB())
    classifier = of_jackknife(GaussianNB()).fit(X, y)
    expected, mean = classifier.p_values(new), classifier.predict_proba(new)
    limits(neighbour_cells=100, chunk_cells=50)
    np.testing.assert_array_equal(classifier.p_values(new), expected)
    np.testing.assert_array_equal(classifier.predict_proba(new), mean)
