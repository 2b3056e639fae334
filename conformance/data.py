"""Rows for the questions: probabilities of a model that is wrong in known ways, and true labels."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
CLASSES = 5


def drawn(P: Floats, generator: np.random.Generator) -> Labels:
    """Draw one label per row."""
    below = generator.random((len(P), 1)) > P.cumsum(axis=1)[:, :-1]
    return below.sum(axis=1).astype(np.int64)


def smooth(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """Distinct probabilities; one label in seven ignores them, so the model is wrong."""
    P = generator.dirichlet(np.full(CLASSES, 0.7), size=n)
    return P, _spoiled(drawn(P, generator), 0.15, generator)


def sharp(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """A good model: distinct probabilities, the first label is right in 19 of 20 rows."""
    P = np.sort(generator.dirichlet(np.full(CLASSES, 0.1), size=n) * 0.1, axis=1)
    P[:, -1] += 1 - P.sum(axis=1)
    P = generator.permuted(P, axis=1)
    return P, drawn(P, generator)


def zeros(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """Shares of ten votes, so ties and zeros; one label in five ignores them, and may have probability zero."""
    votes = generator.multinomial(10, generator.dirichlet(np.full(CLASSES, 0.3), size=n))
    P = votes / 10.0
    return P, _spoiled(drawn(P, generator), 0.2, generator)


def one_hot(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """A full-grown tree or a single neighbour: all mass on one label, right in 7 of 10 rows."""
    said = generator.integers(CLASSES, size=n)
    return np.eye(CLASSES)[said], _spoiled(said.astype(np.int64), 0.375, generator)


def constant(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """A model that knows nothing."""
    return np.full((n, CLASSES), 1.0 / CLASSES), generator.integers(CLASSES, size=n)


def dyadic(n: int, n_classes: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """Probabilities that are whole multiples of 1/256 and above zero: exact in float32, sums too; with many ties."""
    P = (1 + generator.multinomial(256 - n_classes, generator.dirichlet(np.ones(n_classes), size=n))) / 256.0
    return P, drawn(P, generator)


def blobs(n: int, generator: np.random.Generator) -> tuple[Floats, Labels]:
    """Features and labels: three clouds that overlap."""
    y = generator.integers(3, size=n)
    return np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[y] + generator.normal(size=(n, 2)), y


def _spoiled(y: Labels, share: float, generator: np.random.Generator) -> Labels:
    return np.where(generator.random(len(y)) < share, generator.integers(CLASSES, size=len(y)), y)


def repetitions(seed: int, count: int) -> Iterator[np.random.Generator]:
    """Yield a generator for each repetition, and seed what a library may draw from behind our back."""
    before = np.random.get_state()
    try:
        for number in range(count):
            np.random.seed((seed * 100_003 + number) % 2**32)
            if "torch" in sys.modules:
                sys.modules["torch"].manual_seed(seed * 100_003 + number)
            yield np.random.default_rng([seed, number])
    finally:
        np.random.set_state(before)
