"""Scorers for model selection: pass them as ``scoring`` to GridSearchCV, cross_validate and friends."""

from __future__ import annotations

from typing import Any

from aptset.judging.metrics import coverage, mean_size, size_given_coverage
from aptset.judging.worst_slice import worst_slice_coverage
from aptset.sets import PredictionSets
from aptset.validation.outcomes import check_can_predict_sets


def predict_set_of(estimator: Any, X: Any) -> tuple[PredictionSets, Any]:
    """Return the sets of a ConformalClassifier, also one in pipelines and searches, and the features it saw."""
    while not hasattr(estimator, "predict_set"):
        if hasattr(estimator, "steps"):
            X, estimator = estimator[:-1].transform(X) if len(estimator) > 1 else X, estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            break
    check_can_predict_sets(estimator)
    return estimator.predict_set(X), X


def negative_mean_size(estimator: Any, X: Any, y: Any) -> float:
    """Score by the mean size of the sets: smaller sets, larger score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    >>> grid = {"estimator__var_smoothing": [1e-9, 1.0]}
    >>> search = GridSearchCV(classifier, grid, scoring=aptset.negative_mean_size, cv=3)
    >>> search.fit(*load_iris(return_X_y=True)).best_params_
    {'estimator__var_smoothing': 1e-09}
    """
    return -float(mean_size(predict_set_of(estimator, X)[0]))


def negative_size_given_coverage(estimator: Any, X: Any, y: Any) -> float:
    """Score by the mean size of the sets that hold the true label: smaller sets, larger score."""
    return -float(size_given_coverage(predict_set_of(estimator, X)[0], y))


def coverage_score(estimator: Any, X: Any, y: Any) -> float:
    """Score by the coverage of the sets."""
    return float(coverage(predict_set_of(estimator, X)[0], y))


def worst_slice_score(estimator: Any, X: Any, y: Any) -> float:
    """Score by the held-out worst-slice coverage of the sets."""
    sets, features = predict_set_of(estimator, X)
    return float(worst_slice_coverage(sets, y, features))
