"""Somebody who comes from another library: its keywords are answered, its names are known, a fitted model is kept."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import aptset

X = np.random.default_rng(0).normal(size=(200, 2))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=200) > 0).astype(int)
P = np.column_stack([1 / (1 + np.exp(X[:, 0])), 1 - 1 / (1 + np.exp(X[:, 0]))])

KEYWORDS = [
    ({"confidence_level": 0.9}, "confidence_level=0.9 is alpha=0.1 here"),
    ({"confidence": 0.95}, "confidence=0.95 is alpha=0.05 here"),
    ({"significance": 0.2}, "significance=0.2 is alpha=0.2 here"),
    ({"prefit": True}, "FrozenEstimator"),
    ({"conformity_score": "lac"}, "conformity_score is conformity here"),
    ({"class_cond": True}, "class_cond=True is groups='label' here"),
    ({"smoothing": False}, "smoothing=False is randomized=False here"),
    ({"seed": 7}, "seed=7 is random_state=7 here"),
    ({"cv": 5}, "cv is calibration here"),
]


@pytest.mark.parametrize(("keyword", "answer"), KEYWORDS, ids=lambda one: str(one))
def test_the_keywords_of_others_are_answered(keyword, answer):
    with pytest.raises(TypeError, match=re.escape(answer)):
        aptset.ConformalClassifier(LogisticRegression(), **keyword)
    with pytest.raises(TypeError, match=re.escape(answer)):
        aptset.calibrate(P, Y, **keyword)


def test_any_other_keyword_is_refused_as_ever_and_parameters_are_known():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        aptset.ConformalClassifier(LogisticRegression(), colour=1)
    classifier = aptset.ConformalClassifier(LogisticRegression(), alpha=0.2)
    assert clone(classifier).alpha == 0.2
    assert set(classifier.get_params(deep=False)) >= {"estimator", "alpha", "conformity", "weights"}


@pytest.mark.parametrize("name", ["APS", "Aps", "RAPS", "LAC", "Adaptive", "TopK", "THR"])
def test_scores_are_known_by_their_names_in_any_case(name):
    known = aptset.calibrate(P, Y, conformity=name, random_state=0)
    assert known.conformity == aptset.calibrate(P, Y, conformity=name.lower(), random_state=0).conformity
    with pytest.raises(ValueError, match="conformity must be one of"):
        aptset.calibrate(P, Y, conformity="APSE")


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())])
def test_a_fitted_model_that_would_be_trained_anew_gets_one_warning_with_the_way_out(model):
    fitted = model.fit(X[:100], Y[:100])
    with pytest.warns(UserWarning, match=r"To keep the fitted model, pass sklearn\.frozen\.FrozenEstimator") as said:
        aptset.ConformalClassifier(fitted, calibration="cv+", random_state=0).fit(X[100:], Y[100:])
    assert len(said) == 1
    assert "clone(estimator)" in str(said[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aptset.ConformalClassifier(FrozenEstimator(fitted), random_state=0).fit(X[100:], Y[100:])
        aptset.ConformalClassifier(clone(fitted), random_state=0).fit(X[100:], Y[100:])
        again = aptset.ConformalClassifier(clone(fitted), random_state=0).fit(X[100:], Y[100:])
        again.fit(X, Y)
        cross_val_score(again, X, Y, cv=3)
        stateless = make_pipeline(FunctionTransformer(), LogisticRegression())
        aptset.ConformalClassifier(stateless, random_state=0).fit(X, Y)
