"""MAPIE: SplitConformalClassifier on a fitted model, CrossConformalClassifier for folds (agg_scores="crossval")."""

from __future__ import annotations

import numpy as np
from mapie.classification import CrossConformalClassifier, SplitConformalClassifier
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from conformance.adapters.models import Given

INSTALL = [["mapie"]]
DISTRIBUTION = "MAPIE"
API = (
    "SplitConformalClassifier(prefit=True), with chance: include_last_label='randomized'; "
    "CrossConformalClassifier, agg_scores='crossval'"
)
SCORES = ("lac", "adaptive")
RANDOMIZED = ("adaptive",)
PLAIN = ("lac", "adaptive")
WHY_NOT = {
    "worst slice": "worst_slab_coverage is, as documented, the lowest coverage on the rows that found it",
}
_NAMES = {"lac": "lac", "adaptive": "aps"}


def _split(model, X, y, alpha, score, randomized, seed):
    made = SplitConformalClassifier(
        model, round(1 - alpha, 12), _NAMES[score], prefit=True, random_state=seed
    ).conformalize(X, y)
    settings = {"include_last_label": "randomized" if randomized else True} if score == "adaptive" else None
    return lambda new: made.predict_set(new, settings)[1][:, :, 0].astype(bool)


def calibrate(P, y, *, alpha, score, randomized, seed):
    return _split(Given(np.arange(P.shape[1])), P, y, alpha, score, randomized, seed)


def named(P, y, classes, *, alpha):
    return _split(Given(classes), P, y, alpha, "lac", False, 0)


def train(X, y, *, alpha, seed, calibration_rows):
    model = GaussianNB().fit(X[:-calibration_rows], y[:-calibration_rows])
    return _split(model, X[-calibration_rows:], y[-calibration_rows:], alpha, "adaptive", True, seed)


def cross(X, y, *, alpha, seed):
    folds = KFold(5, shuffle=True, random_state=seed)
    made = CrossConformalClassifier(
        GaussianNB(), round(1 - alpha, 12), "aps", cv=folds, random_state=seed
    ).fit_conformalize(X, y)
    settings = {"include_last_label": "randomized"}
    return lambda new: made.predict_set(new, settings, agg_scores="crossval")[1][:, :, 0].astype(bool)


def cross_lac(model, X, y, splitter, *, alpha):
    made = CrossConformalClassifier(model, round(1 - alpha, 12), "lac", cv=splitter).fit_conformalize(X, y)
    return lambda new: made.predict_set(new, agg_scores="crossval")[1][:, :, 0].astype(bool)
