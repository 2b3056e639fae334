"""Questions about single rows, numbers and threads, all exact."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from conformance import data
from conformance.answers import Answer, Question


def predictor(adapter: Any, score: str, randomized: bool, rows: int, generator: np.random.Generator) -> Any:
    """Return a predictor and new rows for it: probabilities, or data for a library that only takes these."""
    if getattr(adapter, "ONLY_DATA", False):
        X, y = data.blobs(500 + rows, generator)
        settings = {"alpha": 0.1, "seed": 0, "calibration_rows": 200, "randomized": randomized}
        return adapter.train(X[:500], y[:500], **settings), X[500:]
    P, y = data.smooth(500, generator)
    new, _ = data.smooth(rows, generator)
    return adapter.calibrate(P, y, alpha=0.1, score=score, randomized=randomized, seed=0), new


def independence(adapter: Any, size: float) -> Answer:
    """Sets with chance where the library has them, else without: a row in a batch, in another order, and alone."""
    generator = np.random.default_rng(30)
    score = (*adapter.RANDOMIZED, *adapter.SCORES, "")[0]
    predict, new = predictor(adapter, score, score in (*adapter.RANDOMIZED, ""), 300, generator)
    order = generator.permutation(300)
    together, shuffled = predict(new), np.empty_like(predict(new))
    shuffled[order] = predict(new[order])
    alone = np.vstack([predict(new[i : i + 1]) for i in range(300)])
    wrong = (together != shuffled).any(axis=1) | (together != alone).any(axis=1)
    return Answer.exact(int(wrong.sum()), 300, "rows get another set in another batch or order")


def float32(adapter: Any, size: float) -> Answer:
    """The same numbers as float32 and as float64, 1000 labels, alpha = 0.001."""
    generator = np.random.default_rng(31)
    P = generator.dirichlet(np.full(1000, 0.05), size=int(4000 * size) + 2000).astype(np.float32)
    P = np.maximum(P, np.float32(1e-30))
    y, randomized = data.drawn(P.astype(np.float64), generator), "adaptive" not in adapter.PLAIN
    masks = []
    for rows in (P, P.astype(np.float64)):
        for _ in data.repetitions(31, 1):
            predict = adapter.calibrate(
                rows[:2000], y[:2000], alpha=0.001, score="adaptive", randomized=randomized, seed=0
            )
            masks.append(predict(rows[2000:]))
    wrong = (masks[0] != masks[1]).any(axis=1)
    return Answer.exact(int(wrong.sum()), len(wrong), "sets differ")


def threads(adapter: Any, size: float) -> Answer:
    """One predictor, four threads: the sets of one thread."""
    predict, new = predictor(adapter, "lac", False, 2000, np.random.default_rng(32))
    parts = np.array_split(new, 40)
    wanted = [predict(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(predict, parts))
    wrong = sum(int((a != b).any(axis=1).sum()) for a, b in zip(wanted, got, strict=True))
    return Answer.exact(wrong, 2000, "sets differ")


QUESTIONS = [
    Question(
        "row independence",
        "Distinct rows get the same sets alone, in a batch and in another order (with chance where that is offered)",
        ("calibrate or data",),
        independence,
    ),
    Question(
        "float32",
        "float32 probabilities give the sets of the same numbers in float64 (adaptive score, 1000 labels)",
        ("adaptive",),
        float32,
    ),
    Question("threads", "Four threads with one predictor give the sets of one thread", ("plain lac or data",), threads),
]
