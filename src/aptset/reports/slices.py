"""The worst slice for the page: its share of the rows, and what sets them apart."""

from __future__ import annotations

from typing import Any

from aptset.judging.worst_slice import WorstSlice


def slice_in_words(worst: WorstSlice | None) -> dict[str, Any] | None:
    """Return the share of the rows in the slice, a sentence for each column that weighs most, and what was left out."""
    if worst is None:
        return None
    return {
        "share": f"{100 * worst.share:.3g} %",
        "features": list(worst.sentences),
        "worse": worst.is_worse_than_chance,
        "left_out": ", ".join(worst.left_out),
    }
