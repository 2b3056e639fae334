"""nonconformist: the model knows 4 labels, no calibration row has label 2, and so it is in no set."""

import numpy as np
from nonconformist.base import ClassifierAdapter
from nonconformist.icp import IcpClassifier
from nonconformist.nc import ClassifierNc, InverseProbabilityErrFunc
from sklearn.base import BaseEstimator


class Given(BaseEstimator):
    """Its input is its output."""

    fit, predict_proba = (lambda self, X, y: self), (lambda self, X: X)


P = np.random.default_rng(0).dirichlet(np.ones(4), size=300)
made = IcpClassifier(ClassifierNc(ClassifierAdapter(Given()), InverseProbabilityErrFunc()), smoothing=False)
made.calibrate(P, np.arange(300) % 2 + 2 * (np.arange(300) % 3 == 0) * (np.arange(300) % 2))
print("columns:", made.predict(P, significance=0.1).shape[1], "of 4; classes:", made.classes)
