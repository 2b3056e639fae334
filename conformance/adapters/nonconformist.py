"""nonconformist: IcpClassifier with InverseProbabilityErrFunc (one minus the probability)."""

from __future__ import annotations

import numpy as np
from nonconformist.base import ClassifierAdapter
from nonconformist.icp import IcpClassifier
from nonconformist.nc import ClassifierNc, InverseProbabilityErrFunc
from sklearn.naive_bayes import GaussianNB

from conformance.adapters.models import Given

INSTALL = [["nonconformist"]]
DISTRIBUTION = "nonconformist"
API = "IcpClassifier(ClassifierNc(ClassifierAdapter(model), InverseProbabilityErrFunc())), with chance: smoothing=True"
SCORES = ("lac",)
RANDOMIZED = ("lac",)
PLAIN = ("lac",)
WHY_NOT = {
    "names": "InverseProbabilityErrFunc takes the label as the number of a column",
    "CV+ coverage": "nonconformist.acp imports sklearn.cross_validation, which scikit-learn no longer has",
    "CV+ definition": "nonconformist.acp imports sklearn.cross_validation, which scikit-learn no longer has",
    "CV+ memory": "nonconformist.acp imports sklearn.cross_validation, which scikit-learn no longer has",
}


def _icp(model, X, y, smoothing, condition=None):
    made = IcpClassifier(ClassifierNc(ClassifierAdapter(model), InverseProbabilityErrFunc()), condition, smoothing)
    made.calibrate(X, y)
    return made


def _given(P, y, smoothing, condition=None):
    return _icp(Given(np.arange(P.shape[1])), P, y, smoothing, condition)


def calibrate(P, y, *, alpha, score, randomized, seed):
    made = _given(P, y, randomized)
    return lambda new: _wide(made, new, made.predict(new, significance=alpha))


def by_label(P, y, *, alpha, seed):
    made = _given(P, y, True, lambda row: row[1])
    return lambda new: _wide(made, new, made.predict(new, significance=alpha))


def p_values(P, y, *, seed):
    made = _given(P, y, True)
    return lambda new: _wide(made, new, made.predict(new, significance=None))


def train(X, y, *, alpha, seed, calibration_rows):
    made = IcpClassifier(ClassifierNc(ClassifierAdapter(GaussianNB()), InverseProbabilityErrFunc()))
    made.fit(X[:-calibration_rows], y[:-calibration_rows])
    made.calibrate(X[-calibration_rows:], y[-calibration_rows:])
    return lambda new: _wide(made, np.zeros((len(new), 3)), made.predict(new, significance=alpha))


def _wide(made, new, answer):
    """Put the columns, one per class among the calibration labels, at their places; others have no answer."""
    wide = np.zeros((len(new), new.shape[1]), dtype=answer.dtype)
    wide[:, made.classes] = answer
    return wide
