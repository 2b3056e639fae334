"""The worst slice in words: which features, which values."""

from __future__ import annotations

from typing import Any

import numpy as np

from aptset.judging.features import features_of
from aptset.judging.worst_slice import WorstSlice
from aptset.reports.words import number


def slice_in_words(worst: WorstSlice | None, X: Any) -> dict[str, Any] | None:
    """Return the share of the rows in the slice, and a sentence for each of the features that weigh most."""
    if worst is None:
        return None
    inside = np.flatnonzero(worst.contains(X))
    matrix = features_of(X, worst.names).matrix
    sentences = []
    for name, _ in worst.top_features():
        column = matrix[:, [worst.names.index(name)]]
        values = np.asarray(column.todense() if hasattr(column, "todense") else column).ravel()
        sentences.append(_sentence(name, values[inside], values))
    return {"share": f"{100 * worst.share:.3g} %", "features": sentences}


def _sentence(name: str, inside: Any, everywhere: Any) -> str:
    if "=" in name and np.isin(everywhere, [0.0, 1.0]).all():  # one value of a category
        return f"{name} holds for {100 * inside.mean():.3g} % of them ({100 * everywhere.mean():.3g} % overall)"
    low, high = np.quantile(inside, [0.1, 0.9])
    way = "low" if inside.mean() < everywhere.mean() else "high"
    mostly = f"mostly {number(low)} to {number(high)}"
    return f"{name} is {way}: {number(inside.mean())} on average ({number(everywhere.mean())} overall), {mostly}"
