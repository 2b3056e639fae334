"""What all splits found: the distribution of every metric over them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aptset import ConformalClassifier, Estimate
from aptset.core.labels import columns_of
from aptset.core.tables import Backend, make_table
from aptset.metrics import OF_SPLITS, ON_REQUEST, Metric
from aptset.metrics.estimates import resampled_mean, resampled_share

Value = TypeVar("Value")


@dataclass(frozen=True)
class PartResult:
    """The test rows of one split with one label or in one group."""

    part: str  # "label" or "group"
    name: str
    rows: int
    covered: float  # of clusters their mean share times the rows
    size: float


@dataclass(frozen=True, eq=False)
class TestedRows:
    """The test rows of one split by number, with a value of each, and whether its set held the true label.

    Arrays where a split was just run, lists where it was read from a file.
    """

    __test__ = False  # its name is no order to pytest

    rows: Any
    values: Any
    hits: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TestedRows):
            return NotImplemented
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())


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
    over_clusters : bool
        Whether metrics are means of cluster means.
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
    over_clusters: bool = False

    def as_row(self) -> dict[str, Any]:
        """Return plain values and arrays, for a file."""
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
        The mean over the splits, and an interval that knows that splits share rows; those of all labels, or of all
        groups, hold at once, so that they hold for the lowest one, too.
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
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


_MOST_PARTS = 20  # labels or groups that are printed for each candidate: those with the lowest coverage


@dataclass(frozen=True, repr=False)
class Splits:
    """What every candidate did on every split."""

    candidates: list[str]
    results: list[SplitResult]
    test_share: float
    repetitions: int

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics that were measured, by the names of their columns."""
        known = OF_SPLITS | {metric.column: metric for metric in ON_REQUEST.values()}
        return {name: known[name] for name in known if name in self.results[0].metrics}

    def of(self, candidate: str) -> list[SplitResult]:
        """Return what a candidate did on the random splits, by repetition."""
        return [one for one in self.results if one.candidate == candidate and one.repetition >= 0]

    def in_order(self, candidate: str) -> SplitResult:
        """Return the split whose test rows are the last ones."""
        (result,) = (one for one in self.results if one.repetition < 0 and one.candidate == candidate)
        return result

    def tested(self, candidate: str) -> list[TestedRows]:
        """Return the test rows of a candidate one by one, by repetition, as far as they were written down."""
        return [one.tested for one in self.of(candidate) if one.tested is not None]

    def paired(self, first: str, second: str, what: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return for each row the sum of first minus second over the splits that tested it, and their number.

        ``what`` is "values", the sizes, or "hits", whether the set held the true label.
        """
        pairs = list(zip(self.tested(first), self.tested(second), strict=True))
        n = 1 + max(int(np.max(one.rows)) for one, _ in pairs)
        total, times = np.zeros(n), np.zeros(n)
        for one, other in pairs:
            total[one.rows] += np.asarray(getattr(one, what)) - np.asarray(getattr(other, what))
            times[one.rows] += 1
        return total, times

    def values(self, candidate: str, metric: str) -> NDArray[np.float64]:
        """Return a metric by repetition."""
        return np.array([one.metrics[metric] for one in self.of(candidate)], dtype=np.float64)

    def columns(self) -> dict[str, list[Any]]:
        """Return one row for each candidate and split."""
        results = [one for name in self.candidates for one in self.of(name)]
        names = ("candidate", "repetition", "rows", "covered")
        columns = {name: [getattr(one, name) for one in results] for name in names}
        return columns | {name: [one.metrics[name] for one in results] for name in self.metrics}

    def summary(self) -> Records[Distribution]:
        """Return the distribution of every metric, overall, by label and by group."""
        return Records(one for candidate in self.candidates for one in self._distributions(candidate))

    def _distributions(self, candidate: str) -> Iterator[Distribution]:
        for metric in self.metrics:
            yield self._distribution(candidate, "all", "", metric, self.values(candidate, metric))
        for part in ("label", "group"):
            by_name: dict[str, list[PartResult]] = {}
            for one in (one for result in self.of(candidate) for one in result.parts if one.part == part):
                by_name.setdefault(one.name, []).append(one)
            for name, parts in sorted(by_name.items()):
                shares = np.array([one.covered / one.rows for one in parts])
                sizes, n_parts = np.array([one.size for one in parts]), len(by_name)
                yield self._distribution(candidate, part, name, "coverage", shares, n_parts)
                yield self._distribution(candidate, part, name, "size", sizes, n_parts)

    def mean(self, values: NDArray[np.float64], metric: str, n_parts: int = 1) -> Estimate:
        """Return the mean of a metric over the splits; its interval knows that splits share rows.

        The intervals of so many parts hold at once (Bonferroni).
        """
        is_share = self.metrics[metric].unit == "share"
        return (resampled_share if is_share else resampled_mean)(values, self.test_share, 1 - 0.05 / n_parts)

    def _distribution(
        self, candidate: str, part: str, name: str, metric: str, values: NDArray[np.float64], n_parts: int = 1
    ) -> Distribution:
        mean = self.mean(values, metric, n_parts)
        kept = values[~np.isnan(values)]
        low, middle, high = np.quantile(kept, [0.05, 0.5, 0.95]).tolist() if len(kept) else [float("nan")] * 3
        ends = (float(mean), mean.low, mean.high, low, middle, high)
        return Distribution(candidate, part, name, metric, *ends, len(kept))

    def html(self) -> str:
        """Return the same numbers as :meth:`text` for notebooks."""
        from html import escape  # here, since it is slow to import

        return f"<pre>{escape(self.text())}</pre>"

    def text(self) -> str:
        """Return the distributions as a small table: mean, and where nine of ten splits lie."""
        lines, rows = [f"  {'':<44} {'mean':>8}   nine of ten splits"], self.summary()
        for candidate in self.candidates:
            of_candidate = [row for row in rows if row.candidate == candidate]
            overall = [row for row in of_candidate if row.part == "all"]
            parts = [row for row in of_candidate if row.part != "all" and row.metric == "coverage"]
            shown = set(map(id, sorted(parts, key=lambda row: float(row.mean))[:_MOST_PARTS]))
            lines.extend(_line(row) for row in [*overall, *(row for row in parts if id(row) in shown)])
            if len(parts) > _MOST_PARTS:
                lines.append(f"  {candidate}: {len(parts) - _MOST_PARTS} more, with higher coverage, in summary()")
        return "\n".join(lines)


def _line(row: Distribution) -> str:
    name = row.metric.replace("_", " ") if row.part == "all" else f"coverage of {row.part} {row.name}"
    title = f"{row.candidate}: {name}"
    return f"  {title[:44]:<44} {row.mean:>8.4g}   {row.q05:.4g} to {row.q95:.4g}"


def distribution(values: NDArray[np.float64], name: str) -> dict[str, Any]:
    """Return the share of splits with at most each value that occurs."""
    kept = np.sort(values[~np.isnan(values)])
    return {name: kept, "share": np.arange(1, len(kept) + 1) / max(1, len(kept))}


def laws_of(model: ConformalClassifier, y: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Return (test rows, calibration rows) of each part whose count has a Beta-binomial law; None if there is none.

    With a promise for every label, test rows with labels that no other row has are in no part.
    """
    held_out = model.calibration_.held_out
    if len(held_out.folds) > 1 or held_out.groups.by_row or held_out.clusters is not None:
        return None
    if held_out.groups.is_one:
        return [(len(y), held_out.n)]
    columns = columns_of(y, model.classes_)
    of_test = held_out.groups.ids_of_labels(None, columns[columns >= 0])
    known = [(int((of_test == group).sum()), int(size)) for group, size in enumerate(held_out.sizes.tolist())]
    return [law for law in known if law[0] > 0]
