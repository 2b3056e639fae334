"""nonconformist: n = 19, alpha = 0.3: another score than the k-th, k = ceil(0.7 * 20) = 14."""

import numpy as np
from nonconformist.base import ClassifierAdapter
from nonconformist.icp import IcpClassifier
from nonconformist.nc import ClassifierNc, InverseProbabilityErrFunc
from sklearn.base import BaseEstimator


class Given(BaseEstimator):
    """Its input is its output."""

    fit, predict_proba = (lambda self, X, y: self), (lambda self, X: X)


P = np.linspace([0.6, 0.4], [0.9, 0.1], 19)
made = IcpClassifier(ClassifierNc(ClassifierAdapter(Given()), InverseProbabilityErrFunc()), smoothing=False)
made.calibrate(P, np.zeros(19, dtype=int))
print("scores at most the threshold:", made.predict(P, significance=0.3)[:, 0].sum(), "instead of 14")
