"""Scorers for model selection: pass them as ``scoring`` to GridSearchCV, cross_validate and friends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aptset import PredictionSets
from aptset.core import validate
from aptset.core.randomization import all_at_once
from aptset.metrics import METRICS
from aptset.metrics.outcome import Outcome


def predict_set_of(estimator: Any, X: Any) -> tuple[PredictionSets, Any]:
    """Return the sets of a ConformalClassifier, also one in pipelines and searches, and the features it saw."""
    while not hasattr(estimator, "predict_set"):
        if hasattr(estimator, "steps"):
            X, estimator = estimator[:-1].transform(X) if len(estimator) > 1 else X, estimator[-1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            break
    if not hasattr(estimator, "predict_set"):
        raise TypeError(
            f"estimator must have predict_set; got {type(estimator).__name__}. Wrap it in aptset.ConformalClassifier."
        )
    with all_at_once():
        return estimator.predict_set(X), X


@dataclass(frozen=True)
class MetricScorer:
    """Scores an estimator by a metric of its sets; larger is better. Made by :func:`scorer`."""

    metric: str

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score on some rows."""
        sets, features = predict_set_of(estimator, X)
        metric = METRICS[self.metric]
        value = metric.value(Outcome.of(sets, y), X=features)
        return value if metric.better == "higher" else -value


def scorer(metric: str) -> MetricScorer:
    """Return a scorer by any metric of an evaluation; where less is better, the sign is turned.

    Parameters
    ----------
    metric : str
        One of the metrics over all rows, such as "mean_size", "coverage_gap" or "singleton_rate".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    >>> scoring = {name: aptset.scorer(name) for name in ("coverage", "empty_rate")}
    >>> found = cross_validate(classifier, *load_iris(return_X_y=True), scoring=scoring, cv=3)
    >>> bool((found["test_coverage"] > 0.7).all() and (found["test_empty_rate"] <= 0).all())
    True
    """
    return MetricScorer(validate.one_of(metric, tuple(METRICS), "metric"))


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
    return MetricScorer("mean_size")(estimator, X, y)


def negative_size_given_coverage(estimator: Any, X: Any, y: Any) -> float:
    """Score by the mean size of the sets that hold the true label: smaller sets, larger score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    >>> scoring = aptset.negative_size_given_coverage
    >>> found = cross_val_score(classifier, *load_iris(return_X_y=True), scoring=scoring, cv=3)
    >>> bool((found < 0).all())
    True
    """
    return MetricScorer("size_given_coverage")(estimator, X, y)


def coverage_score(estimator: Any, X: Any, y: Any) -> float:
    """Score by the coverage of the sets.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    >>> found = cross_val_score(classifier, *load_iris(return_X_y=True), scoring=aptset.coverage_score, cv=3)
    >>> bool((found > 0.7).all())
    True
    """
    return MetricScorer("coverage")(estimator, X, y)


def worst_slice_score(estimator: Any, X: Any, y: Any) -> float:
    """Score by the held-out worst-slice coverage of the sets.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0)
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = cross_val_score(classifier, X, y, scoring=aptset.worst_slice_score, cv=3)
    >>> bool((found <= 1).all())
    True
    """
    return MetricScorer("worst_slice")(estimator, X, y)
