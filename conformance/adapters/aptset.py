"""aptset: calibrate, ConformalClassifier."""

from __future__ import annotations

import numpy as np
from sklearn.naive_bayes import GaussianNB

import aptset

INSTALL = [["."]]
DISTRIBUTION = "aptset"
API = "aptset.calibrate, aptset.ConformalClassifier"
SCORES = ("adaptive", "lac")
RANDOMIZED = ("adaptive", "lac")
PLAIN = ("adaptive", "lac")


def calibrate(P, y, *, alpha, score, randomized, seed):
    made = aptset.calibrate(P, y, conformity=score, randomized=randomized, random_state=seed)
    return lambda new: made.predict_mask(new, alpha)


def named(P, y, classes, *, alpha):
    made = aptset.calibrate(P, y, classes=classes, conformity="lac", randomized=False)
    return lambda new: made.predict_mask(new, alpha)


def by_label(P, y, *, alpha, seed):
    made = aptset.calibrate(P, y, groups="label", random_state=seed)
    return lambda new: made.predict_mask(new, alpha)


def p_values(P, y, *, seed):
    return aptset.calibrate(P, y, random_state=seed).p_values


def train(X, y, *, alpha, seed, calibration_rows):
    scheme = aptset.Split(calibration_rows / len(y))
    model = aptset.ConformalClassifier(
        GaussianNB(), calibration=scheme, alpha=alpha, classes=[0, 1, 2], random_state=seed
    )
    model.fit(X, y)
    return lambda new: model.predict_set(new).mask


def cross(X, y, *, alpha, seed):
    scheme = aptset.CVPlus(n_folds=5)
    model = aptset.ConformalClassifier(
        GaussianNB(), calibration=scheme, alpha=alpha, classes=[0, 1, 2], random_state=seed
    )
    model.fit(X, y)
    return lambda new: model.predict_set(new).mask


def cross_lac(model, X, y, splitter, *, alpha):
    scheme = aptset.CVPlus(splitter=splitter)
    made = aptset.ConformalClassifier(model, calibration=scheme, conformity="lac", randomized=False, alpha=alpha).fit(
        X, y
    )
    return lambda new: made.predict_set(new).mask


def worst_slice(X, covered, *, seed):
    sets = np.column_stack([covered, ~covered])
    labels = np.zeros(len(X), dtype=int)
    return float(aptset.worst_slice_coverage(sets, labels, X, directions=50, random_state=seed).coverage)


def saved_and_loaded(P, y, path, *, alpha):
    made = aptset.calibrate(P, y, random_state=0)
    made.save(path)
    loaded = aptset.load(path)
    return (lambda new: made.predict_mask(new, alpha)), (lambda new: loaded.predict_mask(new, alpha))
