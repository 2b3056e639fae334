"""Features of rows as numbers, for finding slices: arrays as they are, categories as one column per value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aptset.core.devices import on_host
from aptset.core.labels import hashable
from aptset.core.tables import is_table, iterate_columns, names_of_columns
from aptset.kernels.blocks import all_finite, looked_up, over_blocks, over_numbers, shared_out, width_of
from aptset.kernels.formula import Floats
from aptset.kernels.long_arrays import sum_rows
from aptset.kernels.slabs import project as project_rows

MOST_VALUES = 50  # of a text that slices are made of; one of more values is a name, an id or prose
_ROWS_OF_A_SUM, _CELLS_OF_A_ROW = 2**14, 8


@dataclass(frozen=True)
class Feature:
    """One column of the matrix: a number or a date of a column of X, or whether that has a certain value."""

    name: str
    column: str
    kind: Literal["number", "date", "value"]
    value: str = ""


@dataclass(frozen=True)
class Features:
    """A numeric matrix (dense or sparse), what its columns are, and what stands for gaps."""

    matrix: Any
    columns: list[Feature]
    fill: dict[str, float]
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns; values of texts appear as "column=value"."""
        return [feature.name for feature in self.columns]

    def some(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows of the matrix."""
        return self.matrix[rows] if hasattr(self.matrix, "tocsr") else looked_up(self.matrix, rows)

    def means(self, rows: NDArray[np.intp]) -> Floats:
        """Return the mean of each feature over some rows."""
        if not len(rows):
            return np.full(len(self.columns), np.nan)
        if hasattr(self.matrix, "tocsr"):
            return np.asarray(self.matrix[rows].mean(axis=0)).ravel()
        return _mean_of(len(rows), lambda start, stop: sum_rows(self.matrix, rows[start:stop]))

    @cached_property
    def overall(self) -> Floats:
        """The mean of each feature over all rows."""
        if hasattr(self.matrix, "tocsr"):
            return np.asarray(self.matrix.mean(axis=0)).ravel()
        return _mean_of(len(self.matrix), lambda start, stop: sum_rows(self.matrix[start:stop]))

    @cached_property
    def spread(self) -> Floats:
        """The standard deviation of each feature over all rows."""
        mean = self.overall
        if not hasattr(self.matrix, "tocsr"):
            away = _mean_of(len(self.matrix), lambda start, stop: sum_rows(self.matrix[start:stop], mean=mean))
            return np.asarray(np.sqrt(away))
        n, coordinates = self.matrix.shape[0], self.matrix.tocoo()
        away = (coordinates.data - mean[coordinates.col]) ** 2 - mean[coordinates.col] ** 2
        total = np.bincount(coordinates.col, weights=away, minlength=len(mean)) + n * mean**2
        return np.asarray(np.sqrt(np.maximum(total / n, 0.0)))

    def of(self, number: int, rows: NDArray[np.intp] | None = None) -> Floats:
        """Return one column, of some rows or of all."""
        if not hasattr(self.matrix, "tocsr"):
            return np.asarray(self.matrix[:, number] if rows is None else self.matrix[rows, number])
        column = self.matrix[:, [number]] if rows is None else self.matrix[rows][:, [number]]
        return np.asarray(column.todense() if hasattr(column, "todense") else column, dtype=np.float64).ravel()


def check_features(
    matrix: Any,
    names: list[str],
    wanted: list[str] | None,
    n_rows: int | None,
    left_out: Sequence[str] = (),
    is_finite: bool = False,
) -> Any:
    """Return a matrix of finite numbers with the right rows and columns; ``is_finite`` where that was looked at."""
    if not hasattr(matrix, "tocsr") and (matrix.ndim != 2 or matrix.dtype.kind not in "fiub"):
        raise TypeError(f"X must be a matrix of numbers or a data frame; got dtype {matrix.dtype}, {matrix.ndim}-D.")
    matrix = matrix.astype(np.float64, copy=False)
    if len(set(names)) != len(names):
        raise ValueError("X must have distinct column names (values of text columns appear as column=value).")
    if matrix.shape[0] == 0:
        raise ValueError("X must have at least one row.")
    if n_rows is not None and matrix.shape[0] != n_rows:
        raise ValueError(f"X must have one row per set: {n_rows} sets, but {matrix.shape[0]} rows came.")
    if matrix.shape[1] == 0:
        why = f": numbers, dates or texts of few values; left out {', '.join(left_out[:5])}" if left_out else ""
        raise ValueError(f"X must have at least one column to look for slices in{why}.")
    values = matrix.data if hasattr(matrix, "tocsr") else matrix
    if not is_finite and not all_finite(values):
        raise ValueError("X must be finite to look for slices. Replace infinite values first.")
    missing = [name for name in wanted or [] if name not in names]
    if missing:
        raise ValueError(f"X must have the columns of the slice; {missing[:5]} are missing.")
    return matrix


def check_projections(projections: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse projections that overflow."""
    if not all_finite(np.ravel(projections)):
        raise ValueError("X must have values whose sums stay finite; these overflow. Rescale the columns first.")
    return projections


def project(matrix: Any, vectors: Floats) -> Floats:
    """Return v.x for each vector and row, (vectors, rows).

    Terms are added feature by feature, so a row gets the same bits alone and in any batch (a BLAS product may not), and
    points that tie exactly stay tied wherever the slab is looked for, judged or asked about.
    """
    if hasattr(matrix, "tocsr"):
        return check_projections(np.ascontiguousarray((matrix @ vectors.T).T))
    projections = np.empty((len(vectors), len(matrix)))

    def work(start: int, stop: int) -> None:
        _project_block(matrix[start:stop], vectors, projections[:, start:stop])

    over_blocks(len(matrix), shared_out(len(matrix), max(1, len(matrix)), sum(vectors.shape)), work)
    return projections


def _project_block(matrix: Floats, vectors: Floats, projections: Floats) -> None:
    """Write the projections of some rows, and refuse those that overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        for vector, projection in zip(vectors, projections, strict=True):
            project_rows(matrix, vector, projection)
            check_projections(projection)


def rows_within(matrix: Any, vector: Floats, low: float, high: float) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Tell which rows have low <= v.x <= high; return the numbers of those that do, upward, as well."""
    if hasattr(matrix, "tocsr"):
        (whole,) = project(matrix, vector[None, :])
        flags = np.asarray((whole >= low) & (whole <= high))
        return flags, np.flatnonzero(flags)
    inside = np.empty(len(matrix), dtype=np.bool_)

    def work(start: int, stop: int) -> NDArray[np.intp]:
        projections = np.empty((1, stop - start))
        _project_block(matrix[start:stop], vector[None, :], projections)
        np.logical_and(projections[0] >= low, projections[0] <= high, out=inside[start:stop])
        return np.flatnonzero(inside[start:stop]) + start

    step = shared_out(len(matrix), max(1, len(matrix)), len(vector) + 1)
    return inside, np.concatenate(over_blocks(len(matrix), step, work))


def _mean_of(n: int, sums: Callable[[int, int], Floats]) -> Floats:
    """Return the mean of each column of n rows, added up some at a time: as many each time, whoever adds them up."""

    def add_up(start: int, stop: int) -> list[Floats]:
        step = _ROWS_OF_A_SUM
        return [sums(first, min(first + step, stop)) for first in range(start, stop, step)]

    whole = -(-shared_out(n, n, _CELLS_OF_A_ROW) // _ROWS_OF_A_SUM) * _ROWS_OF_A_SUM  # sums in a block
    several = over_blocks(n, whole, add_up)
    return np.asarray(np.sum([total for totals in several for total in totals], axis=0) / n)


def features_of(
    X: Any, names: list[str] | None = None, n_rows: int | None = None, fill: dict[str, float] | None = None
) -> Features:
    """Return X as features; ``names`` asks for certain columns, in that order, ``fill`` says what stands for gaps.

    Where a number or a date is missing, the median of the others stands in, and a column of its own says so.
    """
    made = _Columns(set(names or []), dict(fill or {}))
    matrix = made.of_table(X) if is_table(X) else made.of_array(X)
    made_names = [feature.name for feature in made.features]
    matrix = check_features(matrix, made_names, names, n_rows, made.left_out, made.is_finite)
    features = made.features
    if names is not None:
        places = [made_names.index(name) for name in names]
        matrix, features = matrix[:, places], [features[place] for place in places]
    return Features(matrix, features, made.fill, tuple(made.left_out))


def can_be_sliced(X: Any, n_rows: int) -> bool:
    """Tell whether slices can be looked for in X: numbers and categories, without gaps."""
    try:
        features_of(X, None, n_rows)
    except (TypeError, ValueError, AttributeError):
        return False
    return True


def _has_gaps(matrix: NDArray[Any]) -> bool:
    """Tell whether a number is missing."""
    have_gaps = over_numbers(len(matrix), lambda start, stop: np.isnan(matrix[start:stop]).any(), width_of(matrix))
    return any(have_gaps)


class _Columns:
    """Makes the columns of the matrix one by one."""

    def __init__(self, wanted: set[str], fill: dict[str, float]) -> None:
        self.wanted, self.fill = wanted, fill
        self.features: list[Feature] = []
        self.left_out: list[str] = []
        self.is_finite = False  # not looked at, or not so
        self._made: list[Floats] = []

    def of_array(self, X: Any) -> Any:
        """Return numbers as they are, gaps filled."""
        matrix = X.tocsr() if hasattr(X, "tocsr") else np.asarray(on_host(X))
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        names = [f"x{j}" for j in range(matrix.shape[1] if matrix.ndim == 2 else 0)]
        is_wanted = any(name.endswith("=missing") for name in self.wanted)
        is_plain = matrix.ndim == 2 and matrix.dtype.kind == "f" and not hasattr(X, "tocsr")
        # One look tells of most arrays that they have neither gaps nor infinities; wider floats are rounded later.
        self.is_finite = is_plain and matrix.dtype.itemsize <= 8 and all_finite(matrix)
        if is_plain and (is_wanted or (not self.is_finite and _has_gaps(matrix))):
            for j, name in enumerate(names):
                self._number(name, matrix[:, j], "number")
            return np.column_stack(self._made)
        self.features = [Feature(name, name, "number") for name in names]
        return matrix

    def of_table(self, X: Any) -> NDArray[Any]:
        """Return numbers and dates as they are, gaps filled; a column per value for anything else."""
        real = [str(name) for name in names_of_columns(X)]
        for name, column in zip(real, iterate_columns(X), strict=True):
            if isinstance(column, np.ndarray):
                self._number(name, column, "number")
                continue
            present = [hashable(value) for value in column]
            known = [value for value in present if value is not None]
            if known and all(isinstance(value, date) for value in known):
                days = np.array(present, dtype="datetime64[us]")
                numbers = np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86_400e6)
                self._number(name, numbers, "date")
            else:
                self._values(name, ["missing" if value is None else str(value) for value in present], real)
        return np.column_stack(self._made) if self._made else np.empty((len(X), 0))

    def _number(self, name: str, column: NDArray[Any], kind: Literal["number", "date"]) -> None:
        numbers = column.astype(np.float64)
        gaps = np.isnan(numbers)
        if gaps.any():
            if name not in self.fill:
                self.fill[name] = float(np.median(numbers[~gaps])) if not gaps.all() else 0.0
            numbers = np.where(gaps, self.fill[name], numbers)
        self._add(Feature(name, name, kind), numbers)
        if gaps.any() or f"{name}=missing" in self.wanted:
            self._add(Feature(f"{name}=missing", name, "value", "missing"), gaps)

    def _values(self, name: str, present: list[str], real: list[str]) -> None:
        """Make one column for each value, also for wanted values that do not occur here."""
        more = {other.removeprefix(f"{name}=") for other in self.wanted - set(real) if other.startswith(f"{name}=")}
        distinct = sorted({*present, *more})
        if len(distinct) > MOST_VALUES and not more:
            self.left_out.append(f"{name} ({len(distinct)} different values)")
            return
        values = np.array(present, dtype=object)
        for value in distinct:
            self._add(Feature(f"{name}={value}", name, "value", value), values == value)

    def _add(self, feature: Feature, column: NDArray[Any]) -> None:
        self.features.append(feature)
        self._made.append(np.asarray(column, dtype=np.float64))


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
