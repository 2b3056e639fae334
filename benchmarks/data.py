"""What the workloads run on: softmax rows, peaked and flat, and the shared scores of real networks when present."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "scores"
KINDS = {"peaked": {10: 3.0, 1000: 6.0}, "flat": {10: 1.0, 1000: 1.0}}


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities, in place."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits


def rows(n: int, n_classes: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (float32) and labels drawn from them."""
    generator = np.random.default_rng([seed, n_classes])
    matrix = softmax(generator.standard_normal((n, n_classes), dtype=np.float32) * np.float32(spread))
    labels = np.empty(n, dtype=np.int64)
    step = max(1, 10_000_000 // n_classes)
    for start in range(0, n, step):
        running = np.cumsum(matrix[start : start + step], axis=1)
        drawn = generator.random((len(running), 1)) * running[:, -1:]
        labels[start : start + step] = (running < drawn).sum(axis=1)
    return matrix, np.minimum(labels, n_classes - 1)


def of_kind(kind: str, n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a named kind."""
    return rows(n, n_classes, KINDS[kind][n_classes], seed)


def shared() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the scores of real networks: name -> (probabilities, labels); empty if they are not there."""
    found = {}
    for path in sorted(SHARED.glob("*.npz")) if SHARED.is_dir() else []:
        with np.load(path) as arrays:
            matrix, labels = _matrix_of(arrays), _labels_of(arrays)
        if matrix is not None and labels is not None and len(labels) == len(matrix):
            found[f"{path.stem}, {len(matrix):,} x {matrix.shape[1]}"] = (matrix, labels)
    return found


def _matrix_of(arrays: np.lib.npyio.NpzFile) -> np.ndarray | None:
    for name in arrays.files:
        values = arrays[name]
        if values.ndim == 2 and values.dtype.kind == "f":
            is_probability = values.min() >= 0 and values.max() <= 1
            return np.ascontiguousarray(values if is_probability else softmax(values.astype(np.float32)))
    return None


def _labels_of(arrays: np.lib.npyio.NpzFile) -> np.ndarray | None:
    whole = [arrays[name] for name in arrays.files if arrays[name].ndim == 1 and arrays[name].dtype.kind in "iu"]
    return whole[0].astype(np.int64) if whole else None
