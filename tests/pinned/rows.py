"""The rows that pinned answers are about: smooth and ugly probabilities with labels, groups, weights and ids."""

from __future__ import annotations

import numpy as np

KINDS = ("smooth", "peaked", "ties", "zeros", "copies", "halves", "wide")
SEEDS = (0, 1)


def probabilities_of(kind: str, n: int, seed: int) -> np.ndarray:
    """Return probabilities of one kind; every kind has five columns, but "wide" has 130.

    Shares of whole numbers, one division each: the same bits on every machine.
    """
    generator = np.random.default_rng([seed, KINDS.index(kind), n])
    if kind in ("smooth", "peaked", "halves", "wide"):
        power = {"smooth": 1, "halves": 1, "peaked": 6, "wide": 4}[kind]
        whole = generator.integers(1, 1000, size=(n, 130 if kind == "wide" else 5)) ** power
        shares = whole / whole.sum(axis=1, keepdims=True)
        return shares.astype(np.float16) if kind == "halves" else shares
    eighths = generator.multinomial(8, [0.45, 0.25, 0.15, 0.1, 0.05], size=n) / 8
    if kind == "zeros":
        eighths[:, 2] = 0
        eighths[:, 0] = 1 - eighths[:, 1:].sum(axis=1)
        eighths[::7] = [-0.0, 1, 0, 0, 0]
    elif kind == "copies":
        eighths = eighths[generator.integers(0, 12, size=n)]
    return eighths


def labels_of(probabilities: np.ndarray, seed: int) -> np.ndarray:
    """Draw one label per row from its probabilities, a tenth of them anew."""
    generator = np.random.default_rng([seed, 99])
    p = np.asarray(probabilities, np.float64)
    y = (generator.random((len(p), 1)) * p.sum(axis=1, keepdims=True) > p.cumsum(axis=1)).sum(axis=1)
    y = np.minimum(y, p.shape[1] - 1)
    other = generator.random(len(p)) < 0.1
    return np.where(other, generator.integers(0, p.shape[1], len(p)), y)


def logits_of(n: int, seed: int, width: int = 6, dtype=np.float32) -> np.ndarray:
    """Return logits of one type, a few of them so far apart that their softmax is one-hot."""
    logits = np.random.default_rng([seed, 17]).integers(-4000, 4000, size=(n, width)) / 512
    logits[::11] *= 40
    return logits.astype(dtype)


def groups_of(n: int, seed: int) -> np.ndarray:
    """Return one of three groups per row."""
    return np.random.default_rng([seed, 5]).choice(["north", "south", "west"], size=n, p=[0.5, 0.3, 0.2])


def weights_of(n: int, seed: int) -> np.ndarray:
    """Return one importance weight per row."""
    return np.random.default_rng([seed, 6]).integers(1, 64, size=n) / 16


def memberships_of(n: int, seed: int) -> dict[str, np.ndarray]:
    """Return groups that overlap, as columns of flags; a row of none is in none."""
    generator = np.random.default_rng([seed, 7])
    return {"old": generator.random(n) < 0.4, "urban": generator.random(n) < 0.6}
