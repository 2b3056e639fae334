"""What splits find, as named values: of one split, of a part of its rows, over all splits, between two candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from aptset.data.tables import Backend, make_table

Value = TypeVar("Value")


@dataclass(frozen=True)
class PartResult:
    """The test rows of one split with one label or in one group."""

    part: str  # "label" or "group"
    name: str
    rows: int
    covered: int
    size: float


@dataclass(frozen=True)
class TestedRows:
    """The test rows of one split by number, with a value of each, and whether its set held the true label."""

    __test__ = False  # its name is no order to pytest

    rows: list[int]
    values: list[float]
    hits: list[int]


@dataclass(frozen=True)
class SplitResult:
    """One candidate on one split.

    Attributes
    ----------
    candidate : str
        Its name.
    repetition : int
        The number of the split; -1 tests on the last rows.
    rows, covered : int
        Test rows, and how many of their sets hold the true label.
    promise : float
        What the calibration promises.
    laws : list of (test rows, calibration rows), or None
        Of each part whose count of covered rows is Beta-binomial; None if there is no such law.
    metrics : dict of float
        Every metric that splits show, by the name of its column.
    parts : list of PartResult
        By label and by group.
    tested : TestedRows or None
        The rows one by one, where something is to be said about them.
    monitor : str or None
        What a monitor says along the last rows, where these test after one split.
    """

    candidate: str
    repetition: int
    rows: int
    covered: int
    promise: float
    laws: list[tuple[int, int]] | None
    metrics: dict[str, float] = field(default_factory=dict)
    parts: list[PartResult] = field(default_factory=list)
    tested: TestedRows | None = None
    monitor: str | None = None

    def as_row(self) -> dict[str, Any]:
        """Return plain values for a file."""
        tested = None if self.tested is None else vars(self.tested)
        return {**vars(self), "parts": [vars(part) for part in self.parts], "tested": tested}

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> SplitResult:
        """Return what :meth:`as_row` wrote."""
        laws = None if row["laws"] is None else [(m, n) for m, n in row["laws"]]
        tested = None if row["tested"] is None else TestedRows(**row["tested"])
        parts = [PartResult(**part) for part in row["parts"]]
        return cls(**{**row, "laws": laws, "parts": parts, "tested": tested})


@dataclass(frozen=True)
class Distribution:
    """How a metric is distributed over the splits.

    Attributes
    ----------
    candidate : str
        Its name.
    part, name : str
        "all" and nothing, or "label" or "group" and which one.
    metric : str
        The metric.
    mean, low, high : float
        The mean over the splits, and an interval that knows that splits share rows.
    q05, median, q95 : float
        Quantiles of the splits.
    splits : int
        Splits with a value.
    """

    candidate: str
    part: str
    name: str
    metric: str
    mean: float
    low: float
    high: float
    q05: float
    median: float
    q95: float
    splits: int


@dataclass(frozen=True)
class Difference:
    """A candidate minus the best one, on the same splits, with both intervals; those of all pairs hold at once.

    Attributes
    ----------
    candidate, against, metric : str
        Who, minus whom, in what.
    difference, low, high : float
        On new rows, under the models of these splits.
    low_on_other_data, high_on_other_data : float
        For models from other data of this kind.
    """

    candidate: str
    against: str
    metric: str
    difference: float
    low: float
    high: float
    low_on_other_data: float
    high_on_other_data: float


class Records(tuple[Value, ...]):
    """Named values of one kind, which can be looked at as a table."""

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return a data frame with one row each."""
        names = [one.name for one in fields(self[0])] if self else []  # type: ignore[arg-type]
        return make_table({name: [getattr(value, name) for value in self] for name in names}, backend)

    def as_json(self) -> list[dict[str, Any]]:
        """Return plain values that JSON knows; what is not finite becomes None."""
        return [plain(vars(value)) for value in self]


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values that JSON knows; what is not finite becomes None."""
    return {name: None if _is_not_finite(value) else value for name, value in values.items()}


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
