"""W6: the share of a whole fit and predict that is not the model, and what a new process pays."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import aptset
from benchmarks.timing import in_new_process


def timed(kind: type, spent: list[float]) -> Any:
    """Return a model of this kind that adds up the seconds it works."""

    class Timed(kind):  # type: ignore[misc, valid-type]
        def fit(self, *arguments: Any, **settings: Any) -> Any:
            start = time.perf_counter()
            result = super().fit(*arguments, **settings)
            spent[0] += time.perf_counter() - start
            return result

        def predict_proba(self, *arguments: Any, **settings: Any) -> Any:
            start = time.perf_counter()
            result = super().predict_proba(*arguments, **settings)
            spent[0] += time.perf_counter() - start
            return result

    return Timed()


def share_outside(kind: type, n: int, rounds: int) -> dict[str, float]:
    """Return seconds in all and outside the model, in the round with the least outside."""
    generator = np.random.default_rng(0)
    X, X_new, weights = generator.normal(size=(n, 20)), generator.normal(size=(n, 20)), generator.normal(size=(20, 10))
    y = (X @ weights + generator.gumbel(size=(n, 10))).argmax(axis=1)
    found = []
    for _ in range(rounds):
        spent = [0.0]
        model = timed(kind, spent)  # making a class takes scikit-learn 2 ms, and is nobody's work here
        start = time.perf_counter()
        aptset.ConformalClassifier(model, random_state=0).fit(X, y).predict_set(X_new)
        seconds = time.perf_counter() - start
        found.append((seconds - spent[0], seconds))
    outside, seconds = min(found)
    return {"seconds": seconds, "outside": outside, "share": outside / seconds}


def run(quick: bool) -> dict[str, Any]:
    """Measure W6, imports and first calls."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    models = {
        kind.__name__: share_outside(kind, 100_000, 3 if quick else 7) for kind in (GaussianNB, LogisticRegression)
    }
    imports = {
        name: min(in_new_process("process", "import", name)["seconds"] for _ in range(3 if quick else 9))
        for name in ("numpy", "aptset")
    }
    firsts = [in_new_process("process", "first") for _ in range(3)]
    return {"models": models, "imports": imports, "first_call": min(firsts, key=lambda answer: answer["first"])}
