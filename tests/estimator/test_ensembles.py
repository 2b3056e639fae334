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
    ],
)
def test_what_has_no_bags_is_refused(estimator, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make(estimator).fit(X, Y)
