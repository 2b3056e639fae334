"""Questions about what stands around the sets: the worst slice, and files."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from conformance import data
from conformance.answers import FAIL, LEVEL, PASS, Answer, Question


def worst_slice(adapter: Any, size: float) -> Answer:
    """Coverage 0.9 everywhere must come out as 0.9 on average; a slab with 0.3 must be found."""
    draws = int(600 * size)
    even, planted = [], []
    for number, generator in enumerate(data.repetitions(50, draws)):
        X = generator.random((300, 2))
        even.append(adapter.worst_slice(X, generator.random(300) < 0.9, seed=number))
        if number < 20:
            covered = generator.random(300) < np.where(X[:, 0] > 0.7, 0.3, 0.95)
            planted.append(adapter.worst_slice(X, covered, seed=number))
    mean, found = float(np.mean(even)), float(np.mean(planted))
    half = math.sqrt(math.log(2 / LEVEL) / (2 * draws))
    verdict = PASS if abs(mean - 0.9) <= half and found < 0.5 else FAIL
    words = f"even: mean {mean:.3f} [{mean - half:.3f}, {mean + half:.3f}] of {draws}, truth 0.9"
    return Answer(verdict, f"{words}; planted slab of 0.3 in 0.95: mean {found:.3f} of {len(planted)}, below 0.5 asked")


def files(adapter: Any, size: float) -> Answer:
    """The library's own way to save and load."""
    generator = np.random.default_rng(51)
    P, y = data.smooth(200, generator)
    new, _ = data.smooth(300, generator)
    with tempfile.TemporaryDirectory() as folder:
        before, after = adapter.saved_and_loaded(P, y, Path(folder, "file"), alpha=0.1)
        wrong = (before(new) != after(new)).any(axis=1)
    return Answer.exact(int(wrong.sum()), 300, "sets differ after loading")


QUESTIONS = [
    Question(
        "worst slice",
        "Coverage of the worst slice is measured on rows that did not find it, and finds a planted one",
        ("worst_slice",),
        worst_slice,
    ),
    Question(
        "save and load",
        "Saved and loaded by a function of its own, the sets stay the same",
        ("saved_and_loaded",),
        files,
    ),
]
