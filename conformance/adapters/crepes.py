"""crepes: ConformalClassifier on hinge scores (one minus the probability), WrapClassifier around a model."""

from __future__ import annotations

import numpy as np
from crepes import ConformalClassifier, WrapClassifier
from crepes.extras import hinge
from sklearn.naive_bayes import GaussianNB

from conformance.adapters.models import Given

INSTALL = [["crepes", "scikit-learn"]]
DISTRIBUTION = "crepes"
API = "ConformalClassifier on crepes.extras.hinge, with chance: smoothing=True; WrapClassifier"
SCORES = ("lac",)
RANDOMIZED = ("lac",)
PLAIN = ("lac",)
WHY_NOT = {"float32": "no adaptive score"}


def calibrate(P, y, *, alpha, score, randomized, seed):
    made = ConformalClassifier().fit(hinge(P, np.arange(P.shape[1]), y), seed=seed)
    confidence = round(1 - alpha, 12)
    return lambda new: made.predict_set(hinge(new), confidence=confidence, smoothing=randomized).astype(bool)


def named(P, y, classes, *, alpha):
    made = WrapClassifier(Given(classes))
    made.calibrate(P, y)
    confidence = round(1 - alpha, 12)
    return lambda new: np.asarray(made.predict_set(new, labels=False, confidence=confidence, smoothing=False)).astype(
        bool
    )


def by_label(P, y, *, alpha, seed):
    made = WrapClassifier(Given(np.arange(P.shape[1])))
    made.calibrate(P, y, class_cond=True, seed=seed)
    return lambda new: np.asarray(made.predict_set(new, labels=False, confidence=round(1 - alpha, 12))).astype(bool)


def p_values(P, y, *, seed):
    made = ConformalClassifier().fit(hinge(P, np.arange(P.shape[1]), y), seed=seed)
    return lambda new: made.predict_p(hinge(new))


def train(X, y, *, alpha, seed, calibration_rows):
    made = WrapClassifier(GaussianNB())
    made.fit(X[:-calibration_rows], y[:-calibration_rows])
    made.calibrate(X[-calibration_rows:], y[-calibration_rows:], seed=seed)
    return lambda new: np.asarray(made.predict_set(new, labels=False, confidence=round(1 - alpha, 12))).astype(bool)
