"""Compare a quick run with the one that is kept: ratios, since machines differ, and only what got much worse."""

from __future__ import annotations

from typing import Any

WORSE = 1.5
_PER_ROW = "one row"


def ratios(results: dict[str, Any]) -> dict[str, float]:
    """Return our time for each workload, in streams of its own run; for one row, in the time of `predict_set`."""
    lines = [line for line in results["lines"] if line["who"] == "aptset"]
    row = next((line["seconds"] for line in lines if line["workload"].startswith("predict_set, one row")), None)
    found: dict[str, float] = {}
    for line in lines:
        if _PER_ROW in line["workload"] and row:
            ratio = line["seconds"] / row
        elif line["streams"]:
            ratio = line["streams"]
        else:
            continue
        found[line["workload"]] = min(ratio, found.get(line["workload"], float("inf")))
    return found


def worse(now: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """Return a sentence for each workload that takes more than 1.5 times what it took, in its own unit."""
    before = ratios(kept)
    return [
        f"{workload}: {ratio:.3g} instead of {before[workload]:.3g} ({ratio / before[workload]:.1f} times)"
        for workload, ratio in ratios(now).items()
        if workload in before and ratio > WORSE * before[workload]
    ]
