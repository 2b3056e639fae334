"""Questions about CV+: its definition, its coverage, its memory."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from conformance import data
from conformance.answers import FAIL, PASS, Answer, Question, rank


def indicator(adapter: Any, size: float) -> Answer:
    """A label is in iff fewer than k calibration scores lie below the score that the model of *their* fold gives it."""
    generator = np.random.default_rng(40)
    X, y = data.blobs(200, generator)
    new, _ = data.blobs(400, generator)
    counts = np.zeros((400, 3), dtype=int)
    for train, held_out in KFold(5).split(X):
        model = GaussianNB().fit(X[train], y[train])
        scores = np.sort(1 - model.predict_proba(X[held_out])[np.arange(len(held_out)), y[held_out]])
        counts += np.searchsorted(scores, 1 - model.predict_proba(new), side="left")
    got = adapter.cross_lac(GaussianNB(), X, y, KFold(5), alpha=0.125)(new)
    wrong = (got != (counts < rank(200, Fraction(1, 8)))).any(axis=1)
    return Answer.exact(int(wrong.sum()), 400, "sets differ")


def coverage(adapter: Any, size: float) -> Answer:
    draws, found = int(400 * size), 0
    for number, generator in enumerate(data.repetitions(41, draws)):
        X, y = data.blobs(60, generator)
        found += bool(adapter.cross(X[:40], y[:40], alpha=0.1, seed=number)(X[40:])[0, y[40]])
    return Answer.at_least(found, draws, 0.8)


def memory(adapter: Any, size: float) -> Answer:
    """Four times the training rows: does the peak of a prediction grow with them?"""
    generator = np.random.default_rng(42)
    new, _ = data.blobs(2000, generator)
    peaks = []
    for n in (500, 2000):
        X, y = data.blobs(n, generator)
        predict = adapter.cross(X, y, alpha=0.1, seed=0)
        predict(new[:10])
        tracemalloc.start()
        predict(new)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    ratio = peaks[1] / peaks[0]
    words = f"{peaks[0]:.1f} MB with 500 rows, {peaks[1]:.1f} MB with 2000: times {ratio:.1f}, at most 2 asked"
    return Answer(PASS if ratio <= 2 else FAIL, words)


QUESTIONS = [
    Question(
        "CV+ definition",
        "CV+ sets from 1 - p with given folds are those of the definition, model of each fold by itself",
        ("cross_lac",),
        indicator,
    ),
    Question("CV+ coverage", "CV+ covers at least 1 - 2 alpha: 40 rows, alpha = 0.1", ("cross",), coverage),
    Question(
        "CV+ memory",
        "Peak memory of a CV+ prediction of 2000 rows does not grow with the training rows",
        ("cross",),
        memory,
    ),
]
