"""Questions with statistical answers: one new row is looked at for each calibration, so that hits are binomial.

That row is the first of a batch of twenty: what a library does with a batch of one is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance import data
from conformance.answers import FAIL, PASS, Answer, Question, clopper_pearson

ALPHA, ROWS = 0.1, 39  # k = 36: scores without ties cover 36/40 = 0.9 exactly
BATCH = 20


def hits(adapter: Any, make: Callable[..., Any], score: str, randomized: bool, draws: int, seed: int) -> int:
    found = 0
    for number, generator in enumerate(data.repetitions(seed, draws)):
        P, y = make(ROWS + BATCH, generator)
        predict = adapter.calibrate(P[:ROWS], y[:ROWS], alpha=ALPHA, score=score, randomized=randomized, seed=number)
        found += bool(predict(P[ROWS:])[0, y[ROWS]])
    return found


def covered(make: Callable[..., Any], score: str, seed: int) -> Callable[[Any, float], Answer]:
    def ask(adapter: Any, size: float) -> Answer:
        draws, kinds = int(2000 * size), {"with chance": adapter.RANDOMIZED, "without": adapter.PLAIN}
        said = {
            kind: Answer.at_least(hits(adapter, make, score, kind == "with chance", draws, seed), draws, 1 - ALPHA)
            for kind, scores in kinds.items()
            if score in scores
        }
        verdict = FAIL if any(one.verdict == FAIL for one in said.values()) else PASS
        return Answer(verdict, "; ".join(f"{kind} {one.number}" for kind, one in said.items()))

    return ask


def two_sided(adapter: Any, size: float) -> Answer:
    """A good model: chance on one side only would cover far more, or less, than 0.9 to 0.925."""
    draws = int(4000 * size)
    found = hits(adapter, data.sharp, "adaptive", True, draws, 20)
    return Answer.at_least(found, draws, 1 - ALPHA, 1 - ALPHA + 1 / (ROWS + 1))


def by_label(adapter: Any, size: float) -> Answer:
    """One class is rare and the model hardly sees it: 39 calibration rows of it, one new row of it."""
    draws, found = int(2000 * size), 0
    for number, generator in enumerate(data.repetitions(21, draws)):
        P, y = data.smooth(200, generator)
        rare, _ = data.smooth(ROWS + BATCH, generator)
        rare = rare * np.where(np.arange(data.CLASSES) == 3, 0.2, 1.0)
        rare /= rare.sum(axis=1, keepdims=True)
        rows, labels = np.vstack([P[y != 3], rare[:ROWS]]), np.append(y[y != 3], np.full(ROWS, 3))
        found += bool(adapter.by_label(rows, labels, alpha=ALPHA, seed=number)(rare[ROWS:])[0, 3])
    return Answer.at_least(found, draws, 1 - ALPHA)


def p_values(adapter: Any, size: float) -> Answer:
    """With ties and zeros, P(p <= t) is at most t for the true label, at three levels."""
    draws, levels = int(3000 * size), (0.05, 0.1, 0.5)
    found = []
    for number, generator in enumerate(data.repetitions(22, draws)):
        P, y = data.zeros(ROWS + BATCH, generator)
        found.append(adapter.p_values(P[:ROWS], y[:ROWS], seed=number)(P[ROWS:])[0, y[ROWS]])
    words, verdict = [], PASS
    for level in levels:
        count = int((np.array(found) <= level).sum())
        low, high = clopper_pearson(count, draws)
        verdict = FAIL if low > level else verdict
        words.append(f"P(p <= {level:g}) {count / draws:.4f} [{low:.4f}, {high:.4f}]")
    return Answer(verdict, "; ".join(words))


def from_data(rows: int, calibration_rows: int, seed: int) -> Callable[[Any, float], Answer]:
    """Some rows train, some calibrate, and one more is looked at; draws that are refused by an error do not count."""

    def ask(adapter: Any, size: float) -> Answer:
        draws, hits, refused = int(2000 * size), 0, 0
        for number, generator in enumerate(data.repetitions(seed, draws)):
            X, y = data.blobs(rows + BATCH, generator)
            try:
                predict = adapter.train(X[:rows], y[:rows], alpha=ALPHA, seed=number, calibration_rows=calibration_rows)
                hits += bool(predict(X[rows:])[0, y[rows]])
            except (ValueError, RuntimeError):
                refused += 1
        if refused == draws:
            return Answer(PASS if calibration_rows < 9 else FAIL, f"refused in all of {draws} draws")
        given = Answer.at_least(hits, draws - refused, 1 - ALPHA)
        return Answer(given.verdict, given.number + (f"; refused in {refused} draws" if refused else ""))

    return ask


_MADE = {
    "distinct probabilities": data.smooth,
    "ties and zeros": data.zeros,
    "trees and one neighbour (all mass on one label)": data.one_hot,
    "a constant model": data.constant,
}
_WORDS = {"adaptive": "the adaptive score", "lac": "the score 1 - p"}
QUESTIONS = [
    *(
        Question(
            f"coverage, {score}, {words.split(' (')[0]}",
            f"Coverage with {_WORDS[score]} and {words}: n = {ROWS}, alpha = {ALPHA}",
            (score,),
            covered(make, score, 10 + number),
        )
        for score in ("adaptive", "lac")
        for number, (words, make) in enumerate(_MADE.items())
    ),
    Question(
        "two sides",
        "Randomised adaptive sets of a good model cover 0.9 to 0.925: chance on both sides",
        ("randomized adaptive",),
        two_sided,
    ),
    Question(
        "by label", "Class-conditional sets cover a rare class that the model hardly sees", ("by_label",), by_label
    ),
    Question("p-values", "p-values are super-uniform with ties and zeros", ("p_values",), p_values),
    Question(
        "data, split", "From data: 42 rows train, 18 calibrate, coverage of one more", ("train",), from_data(60, 18, 23)
    ),
    Question(
        "data, few rows",
        "From data: 26 rows train, 3 calibrate: coverage of one more, or a refusal",
        ("train",),
        from_data(29, 3, 24),
    ),
]
