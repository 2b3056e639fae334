"""MAPIE: randomised APS sets of 300 rows, and of the same rows in reverse order; random_state=0."""

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin


class Given(ClassifierMixin, BaseEstimator):
    """Its input is its output."""

    classes_ = np.arange(5)
    __sklearn_is_fitted__, fit = (lambda self: True), (lambda self, X, y: self)
    predict, predict_proba = (lambda self, X: X.argmax(axis=1)), (lambda self, X: X)


P = np.random.default_rng(0).dirichlet(np.ones(5), size=800)
made = SplitConformalClassifier(Given(), 0.9, "aps", prefit=True, random_state=0).conformalize(
    P[:500], P[:500].argmax(axis=1)
)
chance = {"include_last_label": "randomized"}
forwards, backwards = made.predict_set(P[500:], chance)[1], made.predict_set(P[500:][::-1], chance)[1][::-1]
print("rows with another set:", (forwards != backwards).any(axis=(1, 2)).sum(), "of 300")
