"""Out-of-bag calibration: the trees of one forest judge the rows that they never saw, and nothing is fitted twice."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aptset import ConformalClassifier

X, Y = load_wine(return_X_y=True)
Y = np.array(["red", "rosé", "white"])[Y]
TRAIN, NEW = np.arange(0, len(Y), 2), np.arange(1, len(Y), 2)
ENSEMBLES = [
    RandomForestClassifier(30, max_samples=0.5),
    ExtraTreesClassifier(30, bootstrap=True, max_samples=40),
    BaggingClassifier(GaussianNB(), n_estimators=30, max_features=0.5),
]


def make(ensemble, **settings):
    return ConformalClassifier(ensemble, calibration="out-of-bag", random_state=0, **settings)


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda ensemble: type(ensemble).__name__)
def test_members_speak_for_the_ensemble(ensemble):
    classifier = make(ensemble).fit(X[TRAIN], Y[TRAIN])
    (whole,) = {id(member.ensemble): member.ensemble for member in classifier.models_}.values()
    np.testing.assert_allclose(classifier.predict_proba(X[NEW]), whole.predict_proba(X[NEW]), atol=1e-9)
    assert (classifier.predict(X[NEW]) == whole.predict(X[NEW])).mean() > 0.95  # ties may fall either way
    assert classifier.guarantee(0.1) == 0.8
    assert ensemble.n_estimators == 30, "the user's estimator is left as it was"


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    u, u_new = np.linspace(0, 1, len(TRAIN)), np.linspace(1, 0, len(NEW))
    plain = make(RandomForestClassifier(30, random_state=0)).fit(X[TRAIN], Y[TRAIN], u=u)
    named = make(RandomForestClassifier(30, random_state=0)).fit(frame.iloc[TRAIN], Y[TRAIN], u=u)
    assert named.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(named.p_values(frame.iloc[NEW], u=u_new), plain.p_values(X[NEW], u=u_new))


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda ensemble: type(ensemble).__name__)
def test_columns_are_checked_as_the_ensemble_would(ensemble):
    names = [f"x{j}" for j in range(X.shape[1])]
    classifier = make(ensemble).fit(pd.DataFrame(X[TRAIN], columns=names), Y[TRAIN])
    frame = pd.DataFrame(X[NEW], columns=names)
    assert classifier.predict_set(frame[names[::-1]]) == classifier.predict_set(frame)
    with pytest.raises(ValueError, match=f"'{names[0]}' is missing"):
        classifier.predict_set(frame[names[1:]])
    with pytest.raises(ValueError, match=f"X has 2 features, but {type(ensemble).__name__}"):
        make(ensemble).fit(X[TRAIN], Y[TRAIN]).predict_set(X[NEW, :2])


@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda ensemble: type(ensemble).__name__)
def test_tables_of_arrow(ensemble):
    arrow = pytest.importorskip("pyarrow")
    names = [f"x{j}" for j in range(X.shape[1])]
    classifier = make(ensemble).fit(pd.DataFrame(X[TRAIN], columns=names), Y[TRAIN], ids=TRAIN)
    expected = classifier.p_values(pd.DataFrame(X[NEW], columns=names), ids=NEW)
    table = arrow.table(dict(zip(names, X[NEW].T, strict=True)))
    np.testing.assert_array_equal(classifier.p_values(table, ids=NEW), expected)


@pytest.mark.parametrize("weights", ["sample_weight", "class_weight"])
def test_bags_that_some_rows_come_into_more_often_are_refused(weights):
    """scikit-learn 1.9 draws bags by these weights, and the theorem is about rows that are drawn alike."""
    forest = RandomForestClassifier(30, class_weight="balanced" if weights == "class_weight" else None)
    params = {"sample_weight": np.ones(len(Y))} if weights == "sample_weight" else {}
    with pytest.raises(ValueError, match=f"must draw all rows alike .* with {weights}.*calibration='bootstrap'"):
        make(forest).fit(X, Y, **params)
    inside = RandomForestClassifier(30, class_weight="balanced_subsample")
    assert make(inside).fit(X, Y, sample_weight=None).guarantee(0.1) == 0.8


def test_the_forest_is_fitted_once(monkeypatch):
    fits = []
    fit = RandomForestClassifier.fit
    monkeypatch.setattr(RandomForestClassifier, "fit", lambda *args, **kwargs: fits.append(1) or fit(*args, **kwargs))
    make(ENSEMBLES[0]).fit(X[TRAIN], Y[TRAIN])
    assert len(fits) == 1


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (GaussianNB(), "got GaussianNB. Pass calibration='bootstrap'"),
        (make_pipeline(StandardScaler(), RandomForestClassifier()), "got Pipeline"),
        (ExtraTreesClassifier(), "Pass bootstrap=True"),
        (RandomForestClassifier(5), "n_estimators must be at least 10"),
        (RandomForestClassifier(max_samples=-1), "max_samples of the estimator must be .* got -1"),
        (BaggingClassifier(max_samples="half"), "max_samples of the estimator must be .* got 'half'"),
    ],
)
def test_what_has_no_bags_is_refused(estimator, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make(estimator).fit(X, Y)
