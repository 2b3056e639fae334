"""Plain numpy to measure against: sort-based split sets, and the loops of the paper's code for CV+ and worst slices."""

from __future__ import annotations

import numpy as np

ALPHA = 0.1
DELTA = 0.1


def rank_of(n: int, alpha: float) -> int:
    return int(np.ceil(round((1 - alpha) * (n + 1), 9)))


def sorted_scores(p: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of each row and the score of every label in that order."""
    order = np.argsort(-p, axis=1)
    ordered = np.take_along_axis(p, order, axis=1).astype(np.float64)
    return order, np.cumsum(ordered, axis=1) - u[:, None] * ordered


def sort_calibrate(p: np.ndarray, labels: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Scores of the true labels, sorted."""
    order, scores = sorted_scores(p, u)
    return np.sort(scores[order == labels[:, None]])


def sort_predict(p: np.ndarray, u: np.ndarray, calibrated: np.ndarray, alphas: list[float]) -> list[np.ndarray]:
    """Masks at each level from one sort."""
    order, scores = sorted_scores(p, u)
    masks = []
    for alpha in alphas:
        mask = np.empty(p.shape, dtype=bool)
        np.put_along_axis(mask, order, scores <= calibrated[rank_of(len(calibrated), alpha) - 1], axis=1)
        masks.append(mask)
    return masks


def all_scores(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Scores of every label: one gather per row and label, as in the paper's code."""
    order = np.argsort(-p, axis=1)
    ordered = np.take_along_axis(p, order, axis=1)
    total = ordered.cumsum(axis=1)
    scores = np.empty_like(p)
    for label in range(p.shape[1]):
        rank = [np.where(row == label)[0][0] for row in order]
        upto = np.array([total[i, r] for i, r in enumerate(rank)])
        own = np.array([ordered[i, r] for i, r in enumerate(rank)])
        scores[:, label] = upto - u * own
    return scores


def direct_counts(own: list[np.ndarray], new: list[np.ndarray], u: np.ndarray) -> np.ndarray:
    """CV+ by one comparison per held-out sample and label."""
    counts = np.zeros(new[0].shape)
    for scores, p in zip(own, new, strict=True):
        of_new = all_scores(p, u)
        for label in range(p.shape[1]):
            for score in scores:
                counts[:, label] += score < of_new[:, label]
    return counts


def direct_worst_slice(covered: np.ndarray, X: np.ndarray, directions: np.ndarray) -> float:
    """Least mean over all slabs: per direction and per start a cumulative mean over all ends."""
    n = len(covered)
    least = int(np.ceil(DELTA * n))
    best = 1.0
    for v in directions:
        ordered = covered[np.argsort(X @ v)].astype(float)
        for start in range(n - least + 1):
            means = np.cumsum(ordered[start:]) / np.arange(1, n - start + 1)
            best = min(best, means[least - 1 :].min())
    return best
