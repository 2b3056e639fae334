"""MAPIE: with n = 299 and alpha = 0.19 the threshold is another score than the k-th, k = ceil(0.81 * 300) = 243."""

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin


class Given(ClassifierMixin, BaseEstimator):
    """Its input is its output."""

    classes_ = np.arange(2)
    __sklearn_is_fitted__, fit = (lambda self: True), (lambda self, X, y: self)
    predict, predict_proba = (lambda self, X: X.argmax(axis=1)), (lambda self, X: X)


p = (np.arange(299) + 600) / 1024
P = np.column_stack([p, 1 - p])
P[1::2], y = P[1::2, ::-1], np.arange(299) % 2
made = SplitConformalClassifier(Given(), 0.81, "lac", prefit=True).conformalize(P, y)
print("scores at most the threshold:", made.predict_set(P)[1][np.arange(299), y, 0].sum(), "instead of 243")
