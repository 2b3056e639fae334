"""Rows and labels of streams."""

import numpy as np

N_CLASSES = 3
# Rows whose sums, and u whose products, are exact in float64: scores then are the fractions of the definition. No two
# masses are equal, so their order is known.
EXACT_ROWS = np.array([[10, 5, 1], [1, 13, 2], [3, 5, 8], [2, 4, 10], [6, 3, 7]]) / 16
LABELS = np.array(["ape", "bee", "cat", "dog"])


def draw(generator, n):
    """Exact rows with an u each, and labels that follow them roughly."""
    rows = EXACT_ROWS[generator.integers(len(EXACT_ROWS), size=n)]
    labels = (rows.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)
    return rows, labels, generator.integers(1, 64, size=n) / 64


def stream(n, seed=0, n_classes=4):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet([1.0] * n_classes, size=n)
    return probabilities, (probabilities.cumsum(axis=1) > generator.random((n, 1))).argmax(axis=1)
