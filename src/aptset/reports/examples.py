"""Rows to look at: some of every kind, drawn at random, with what is known about each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.tables import is_table, iterate_columns, names_of_columns
from aptset.metrics.evaluation_rows import Evidence

MOST_LABELS = 30
_MOST_FEATURES = 8
_MOST_TEXT = 120


def choose(evidence: Evidence, alpha: float, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return at most ``count`` rows: an equal part of each kind (empty, one label, large, missed, other) at random."""
    sizes, covered = evidence.sets.sizes, evidence.covered_at(alpha)
    large = sizes > max(1, 2 * sizes.mean())
    kinds = [~covered & (sizes > 0), sizes == 0, (sizes == 1) & covered, large & covered]
    chosen: list[int] = []
    for kind in kinds:
        rows = generator.permutation(np.flatnonzero(kind))[: count // 5]
        chosen.extend(rows.tolist())
    rest = np.setdiff1d(np.arange(len(sizes)), chosen)
    chosen.extend(generator.permutation(rest)[: max(0, count - len(chosen))].tolist())
    return np.sort(np.array(chosen, dtype=np.intp))


def describe(evidence: Evidence, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return for each row its number, true label, group, features in words, and its labels with both bars."""
    texts = _texts(evidence.X, rows)
    return [
        {
            "row": int(row),
            "truth": str(evidence.labels[row]),
            "truth_p": float(evidence.p_of_truth[row]),
            "column": int(evidence.columns[row]),
            "group": None if evidence.groups is None else str(evidence.groups[row]),
            "text": texts[number],
            **_labels(evidence, int(row)),
        }
        for number, row in enumerate(rows.tolist())
    ]


def _labels(evidence: Evidence, row: int) -> dict[str, Any]:
    """Return the labels with the largest p-values, most likely first."""
    p_values = evidence.p_values[row]
    likely = p_values if evidence.probabilities is None else evidence.probabilities[row].astype(np.float64)
    order = np.lexsort((-likely, -p_values))[:MOST_LABELS]
    order = order[np.lexsort((-p_values[order], -likely[order]))]
    columns: dict[str, Any] = {"labels": order.tolist(), "p": p_values[order].tolist()}
    if evidence.probabilities is not None:
        columns["probability"] = [float(f"{value:.4g}") for value in likely[order]]
    if evidence.most_likely is not None:
        columns["most_likely"] = int(evidence.most_likely[row])
    return columns


def _texts(X: Any, rows: NDArray[np.intp]) -> list[str]:
    """Return a few features of each row in words: columns of a table or a narrow array, or the row itself if a text."""
    if is_table(X):
        names = [str(name) for name in names_of_columns(X)][:_MOST_FEATURES]
        columns: list[Any] = [column for column, _ in zip(iterate_columns(X), names, strict=False)]
    elif getattr(X, "ndim", 1) == 2 and X.shape[1] <= _MOST_FEATURES and not hasattr(X, "tocsr"):
        names, columns = [f"x{j}" for j in range(X.shape[1])], list(np.asarray(X).T)
    elif isinstance(X, list | tuple | np.ndarray) and all(isinstance(X[row], str) for row in rows.tolist()):
        return [_short(X[row]) for row in rows.tolist()]
    else:
        return [""] * len(rows)
    return [
        ", ".join(f"{name} = {_short(column[row])}" for name, column in zip(names, columns, strict=True))
        for row in rows.tolist()
    ]


def _short(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
