"""Questions with exact answers: sets from one minus the probability are given by their definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from conformance import data
from conformance.answers import FAIL, PASS, Answer, Question, rank


def defined(P: np.ndarray, y: np.ndarray, P_new: np.ndarray, alpha: Fraction) -> np.ndarray:
    """Return the sets by definition: a label is in iff fewer than k calibration scores lie below its own."""
    scores = np.sort(1 - P[np.arange(len(y)), y])
    return np.searchsorted(scores, 1 - P_new, side="left") < rank(len(y), alpha)


def definition(adapter: Any, size: float) -> Answer:
    generator = np.random.default_rng(1)
    P, y = data.dyadic(199, 4, generator)
    P_new, _ = data.dyadic(2000, 4, generator)
    got = adapter.calibrate(P, y, alpha=0.125, score="lac", randomized=False, seed=0)(P_new)
    wrong = (got != defined(P, y, P_new, Fraction(1, 8))).any(axis=1)
    return Answer.exact(int(wrong.sum()), len(wrong), "sets differ")


def missing_class(adapter: Any, size: float) -> Answer:
    generator = np.random.default_rng(2)
    P, y = data.dyadic(400, 4, generator)
    P, y = P[y != 2], y[y != 2]
    P_new, _ = data.dyadic(1000, 4, generator)
    got = adapter.calibrate(P, y, alpha=0.125, score="lac", randomized=False, seed=0)(P_new)
    if got.shape != P_new.shape:
        return Answer(FAIL, f"sets have {got.shape[1]} labels instead of {P_new.shape[1]}")
    wrong = (got != defined(P, y, P_new, Fraction(1, 8))).any(axis=1)
    return Answer.exact(int(wrong.sum()), len(wrong), "sets differ")


ORDINARY = [(n, thousandths) for n in (19, 57, 100, 250) for thousandths in (50, 100, 200, 250, 300)]


def awkward(most: int = 10) -> list[tuple[int, int]]:
    """Return rows and levels (in thousandths) at which ceil((n + 1) * (1 - alpha)) in floating point is not k.

    Only those where alpha as it is typed and alpha as the nearest float agree about k.
    """
    found = []
    for thousandths in range(5, 301, 5):
        alpha, decimal = thousandths / 1000, Fraction(thousandths, 1000)
        for n in range(19, 3000):
            k = rank(n, decimal)
            if (n + 1) * (1000 - thousandths) % 1000 == 0 and math.ceil((n + 1) * (1 - alpha)) != k <= n:
                found += [(n, thousandths)] * (rank(n, Fraction(alpha)) == k)
    return found[:most]


def exact_rank(cases: list[tuple[int, int]]) -> Callable[[Any, float], Answer]:
    """Distinct scores, and new rows that have exactly these scores: k of them must be in."""

    def ask(adapter: Any, size: float) -> Answer:
        more = fewer = refused = 0
        for n, thousandths in cases:
            p = (np.random.default_rng(n).permutation(4000)[:n] + 48) / 4096
            y = np.arange(n) % 2
            P = np.where(y[:, None] == [0, 1], p[:, None], 1 - p[:, None])
            try:
                got = adapter.calibrate(P, y, alpha=thousandths / 1000, score="lac", randomized=False, seed=0)(P)
            except (ValueError, RuntimeError, IndexError):
                refused += 1
                continue
            inside, k = int(got[np.arange(n), y].sum()), rank(n, Fraction(thousandths, 1000))
            more, fewer = more + (inside > k), fewer + (inside < k)
        note = f": more than k scores in {more}, fewer in {fewer}" if more + fewer else ""
        note += f"; refused in {refused}" if refused else ""
        return Answer.exact(more + fewer, len(cases), "thresholds are another order statistic", note)

    return ask


def few_rows(adapter: Any, size: float) -> Answer:
    """Five rows cannot support 90 %: every label is in, or the library refuses."""
    generator = np.random.default_rng(3)
    P, _ = data.smooth(5, generator)
    y = np.arange(5)
    P_new, _ = data.smooth(200, generator)
    said = []
    for score in adapter.SCORES:
        try:
            got = adapter.calibrate(P, y, alpha=0.1, score=score, randomized=False, seed=0)(P_new)
        except (ValueError, RuntimeError, IndexError) as error:
            said.append(f"{score}: refused ({type(error).__name__})")
        else:
            said.append(f"{score}: {int((~got.all(axis=1)).sum())} of {len(got)} sets lack a label")
    return Answer(FAIL if any("lack" in one and ": 0 of" not in one for one in said) else PASS, "; ".join(said))


def names(adapter: Any, size: float) -> Answer:
    """Sets by name are the sets by number, for texts and for whole numbers with gaps, without chance."""
    generator, wrong = np.random.default_rng(4), 0
    P, y = data.dyadic(199, 4, generator)
    P_new, _ = data.dyadic(500, 4, generator)
    if getattr(adapter, "ONLY_DATA", False):  # such a library learns from the rows themselves
        settings = {"alpha": 0.125, "seed": 0, "calibration_rows": 60, "randomized": False}
        wanted = adapter.train(P, y, **settings)(P_new)
        by_name = lambda classes: adapter.train(P, classes[y], **settings)  # noqa: E731
    else:
        wanted = adapter.calibrate(P, y, alpha=0.125, score="lac", randomized=False, seed=0)(P_new)
        by_name = lambda classes: adapter.named(P, classes[y], classes, alpha=0.125)  # noqa: E731
    for classes in (np.array(["ant", "bee", "cat", "dog"]), np.array([2, 5, 7, 11])):
        wrong += int((by_name(classes)(P_new) != wanted).any(axis=1).sum())
    return Answer.exact(wrong, 2 * len(P_new), "sets differ")


QUESTIONS = [
    Question(
        "definition",
        "Sets from 1 - p are those of the definition (ties, no zeros; alpha = 1/8, n = 199)",
        ("plain lac",),
        definition,
    ),
    Question(
        "rank",
        "The threshold is the k-th smallest score, k = ceil((1 - alpha)(n + 1)): 20 pairs of n and alpha",
        ("plain lac",),
        exact_rank(ORDINARY),
    ),
    Question(
        "rank, awkward",
        "The same where ceil((n + 1) * (1 - alpha)) in floating point is not k, such as n = 299, alpha = 0.19",
        ("plain lac",),
        exact_rank(awkward()),
    ),
    Question("few rows", "5 calibration rows, alpha = 0.1: all labels, or a refusal", ("calibrate",), few_rows),
    Question(
        "missing class",
        "A class without calibration rows gets the sets of the definition",
        ("plain lac",),
        missing_class,
    ),
    Question(
        "names",
        "Labels that are texts, or numbers with gaps, give the same sets as 0, 1, 2, ...",
        ("named or data",),
        names,
    ),
]
