"""Scorers choose models inside scikit-learn's searches."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import aptset

X, Y = make_classification(600, n_features=6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0)


@pytest.mark.parametrize("scorer", [aptset.negative_mean_size, aptset.negative_size_given_coverage])
def test_the_model_with_the_smaller_sets_wins(scorer):
    classifier = aptset.ConformalClassifier(DummyClassifier(), random_state=0)
    search = GridSearchCV(classifier, {"estimator": [DummyClassifier(), GaussianNB()]}, scoring=scorer, cv=3)
    assert isinstance(search.fit(X, Y).best_params_["estimator"], GaussianNB)


def test_several_scorers_and_pipelines():
    model = make_pipeline(StandardScaler(), aptset.ConformalClassifier(LogisticRegression(), random_state=0))
    scoring = {"size": aptset.negative_mean_size, "coverage": aptset.coverage_score, "worst": aptset.worst_slice_score}
    found = cross_validate(model, X, Y, scoring=scoring, cv=3, error_score="raise")
    assert ((found["test_coverage"] > 0.7) & (found["test_coverage"] <= 1)).all()
    assert (found["test_size"] < 0).all()
    assert ((found["test_worst"] >= 0) & (found["test_worst"] <= 1)).all()
    model.fit(X, Y)
    sets = model[-1].predict_set(model[0].transform(X))
    assert aptset.coverage_score(model, X, Y) == sets.covers(Y).mean()
    assert aptset.negative_mean_size(model, X, Y) == -np.mean(sets.sizes)


def test_searches_and_nested_pipelines():
    classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    search = GridSearchCV(classifier, {"estimator__var_smoothing": [1e-9]}, scoring=aptset.negative_mean_size, cv=3)
    assert 0.7 < aptset.coverage_score(search.fit(X, Y), X, Y) <= 1
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), classifier)).fit(X, Y)
    assert aptset.negative_mean_size(nested, X, Y) < 0
    scores = cross_validate(search, X, Y, scoring=aptset.coverage_score, cv=2, error_score="raise")
    assert len(scores["test_score"]) == 2


def test_models_without_sets_are_refused():
    with pytest.raises(TypeError, match="Wrap it in aptset"):
        aptset.coverage_score(GaussianNB().fit(X, Y), X, Y)
