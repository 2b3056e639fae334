"""A library that does not exist, wrong in every way that is asked about: the suite must say so, or it asks nothing."""

from __future__ import annotations

import threading

import numpy as np
from sklearn.naive_bayes import GaussianNB

INSTALL: list[list[str]] = []
DISTRIBUTION = "numpy"
API = "none: a test of the questions"
SCORES = ("adaptive", "lac")
RANDOMIZED = ("adaptive", "lac")
PLAIN = ("adaptive", "lac")


def _threshold(scores, alpha):
    """No plus one, and interpolated."""
    return np.quantile(scores, 1 - 2 * alpha)


def calibrate(P, y, *, alpha, score, randomized, seed):
    generator, wide = np.random.default_rng(seed), P.dtype
    scores = 1 - P[np.arange(len(y)), y]
    cut = _threshold(scores - 0.3 * (P[np.arange(len(y)), y] == 0), alpha)

    def predict(new):
        noise = generator.random((len(new), 1)) * (1e-3 if wide == np.float32 else 0.2 if randomized else 0.0)
        inside = (1 - new < cut - noise) & (new > 0) & (new < new.max(axis=1, keepdims=True))
        return inside if threading.current_thread() is threading.main_thread() else ~inside

    return predict


def named(P, y, classes, *, alpha):
    predict = calibrate(P, np.searchsorted(classes, y), alpha=alpha, score="lac", randomized=False, seed=0)
    return lambda new: predict(new)[:, ::-1]


def by_label(P, y, *, alpha, seed):
    return calibrate(P, y, alpha=alpha, score="lac", randomized=False, seed=seed)


def p_values(P, y, *, seed):
    scores = P[np.arange(len(y)), y]
    return lambda new: (scores[:, None, None] < new).mean(axis=0) * 0.5


def train(X, y, *, alpha, seed, calibration_rows):
    model = GaussianNB().fit(X, y)
    return calibrate_rows(model, X, y, alpha)


def calibrate_rows(model, X, y, alpha):
    """Calibrate on the rows that trained."""
    cut = _threshold(1 - model.predict_proba(X)[np.arange(len(y)), y], alpha)
    return lambda new: 1 - model.predict_proba(new) <= cut - 2.0


def cross(X, y, *, alpha, seed):
    predict = train(X, y, alpha=alpha, seed=seed, calibration_rows=0)

    def wasteful(new):
        _ = np.zeros((len(X), len(new)), dtype=bool) | np.ones((len(X), len(new)), dtype=bool)
        return predict(new)

    return wasteful


def cross_lac(model, X, y, splitter, *, alpha):
    return calibrate_rows(model.fit(X, y), X, y, alpha)


def worst_slice(X, covered, *, seed):
    """The minimum on the rows that found it, along one axis."""
    order = np.argsort(X[:, 1])
    return min(float(covered[order[i : i + 30]].mean()) for i in range(0, len(X) - 30, 5))


def saved_and_loaded(P, y, path, *, alpha):
    np.save(path.with_suffix(".npy"), P.round(1))
    loaded = np.load(path.with_suffix(".npy"))
    return tuple(calibrate(rows, y, alpha=alpha, score="lac", randomized=False, seed=0) for rows in (P, loaded))
