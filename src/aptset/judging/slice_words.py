"""A slice in words that a person would use: "smoker is no", "admitted before March 2023"."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from aptset.judging.features import Feature
from aptset.kernels.formula import Floats

_SHORT = 90  # days; a shorter time is told by its days


def in_words(feature: Feature, inside: Floats, overall: float, everywhere: Callable[[], Floats]) -> str:
    """Return one sentence about a feature among the rows of a slice, and among all rows, whose mean is known."""
    if feature.kind == "value":
        return _of_value(feature, float(inside.mean()), float(overall))
    low, high = (float(value) for value in np.quantile(inside, [0.1, 0.9]))
    if feature.kind == "date":
        return f"{feature.column} {_of_time(low, high, everywhere())}"
    way = "low" if inside.mean() < overall else "high"
    return f"{feature.column} is {way}: mostly {low:.3g} to {high:.3g} (on average {overall:.3g} in all rows)"


def _of_value(feature: Feature, here: float, overall: float) -> str:
    how = "is" if here >= overall else "is never" if here == 0 else "is rarely"
    return f"{feature.column} {how} {feature.value} ({100 * here:.0f} % of them, {100 * overall:.0f} % of all)"


def _of_time(low: float, high: float, everywhere: Floats) -> str:
    """Return a stretch of time; one that reaches an end of all times is told by its other end."""
    first, last = np.quantile(everywhere, [0.15, 0.85])
    if low <= first and high < last:
        return f"before {_moment(high, high - low)}"
    if high >= last and low > first:
        return f"after {_moment(low, high - low)}"
    return f"between {_moment(low, high - low)} and {_moment(high, high - low)}"


def _moment(days: float, length: float) -> str:
    day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=days)
    return f"{day.day} {day:%B %Y}" if length < _SHORT else f"{day:%B %Y}"
