"""MAPIE: APS on 1000 labels, alpha = 0.001: float32 probabilities, and the same numbers as float64."""

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.base import BaseEstimator, ClassifierMixin


class Given(ClassifierMixin, BaseEstimator):
    """Its input is its output."""

    classes_ = np.arange(1000)
    __sklearn_is_fitted__, fit = (lambda self: True), (lambda self, X, y: self)
    predict, predict_proba = (lambda self, X: X.argmax(axis=1)), (lambda self, X: X)


P, sets = np.random.default_rng(0).dirichlet(np.full(1000, 0.05), size=6000).astype(np.float32), []
y = (P[:2000].cumsum(axis=1) < np.linspace(0, 0.999, 2000)[:, None]).sum(axis=1)
for rows in (P, P.astype(np.float64)):
    made = SplitConformalClassifier(Given(), 0.999, "aps", prefit=True, random_state=0).conformalize(rows[:2000], y)
    sets.append(made.predict_set(rows[2000:])[1][:, :, 0])
print("rows with another set:", (sets[0] != sets[1]).any(axis=1).sum(), "of 4000")
