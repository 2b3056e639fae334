"""coverforest: CoverForestClassifier, its own random forests; the adaptive score without a penalty."""

from __future__ import annotations

from coverforest import CoverForestClassifier

INSTALL = [["coverforest"]]
DISTRIBUTION = "coverforest"
API = (
    "CoverForestClassifier(method='split' or 'cv', k_init=1, lambda_init=0); with chance, its default, answers differ "
    "from process to process with equal seeds, so its numbers do too (the script of 'data, split' shows it)"
)
ONLY_DATA = True
SCORES = ()
RANDOMIZED = ()
PLAIN = ()
WHY_NOT = {"*": "takes no probabilities or models, trains forests of its own"}


def _fitted(X, y, alpha, seed, method, share=0.3, randomized=True):
    settings = {"n_estimators": 10, "k_init": 1, "lambda_init": 0, "randomized": randomized, "random_state": seed}
    made = CoverForestClassifier(method=method, cv=5, **settings)
    made.fit(X, y, alpha=alpha, calib_size=share)
    return lambda new: made.predict(new, alpha=alpha, binary_output=True, num_threads=1)[1].astype(bool)


def train(X, y, *, alpha, seed, calibration_rows, randomized=True):
    return _fitted(X, y, alpha, seed, "split", calibration_rows / len(y), randomized)


def cross(X, y, *, alpha, seed):
    return _fitted(X, y, alpha, seed, "cv")
