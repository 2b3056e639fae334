"""What is judged: outcomes, slices, evidence."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core import validate
from aptset.core.devices import on_host
from aptset.core.labels import as_labels, as_objects, check_length, with_one_missing
from aptset.core.tables import is_table, matrix_of_table, plain_list
from aptset.core.validate import check_sample_size
from aptset.kernels.blocks import all_finite


class Checked(NamedTuple):
    """P-values, probabilities if there are any, and the label that empty sets got, if they did."""

    p_values: NDArray[np.float64]
    probabilities: NDArray[Any] | None
    filled: NDArray[np.int64] | None


def check_needs_p_values(p_values: Any, **others: Any) -> None:
    """Refuse what means something only beside p-values."""
    given = [name for name, value in others.items() if value is not None]
    if p_values is None and given:
        raise ValueError(f"p_values must be given with {given[0]}, which says how they came about; got none.")


def check_rows_of_calibration(n: Any, p_values: NDArray[np.float64]) -> int:
    """Return the number of calibration rows; refuse one that these p-values cannot come from."""
    size = check_sample_size(n)
    if size < 1:
        raise ValueError(f"n must be at least 1, the number of calibration rows; got {size}.")
    counts = p_values * (size + 1)
    off = np.abs(counts - np.rint(counts)) > 1e-6 * (size + 1)
    if off.any():
        raise ValueError(
            f"n must be the number of rows that calibrated: p-values are then multiples of 1 / (n + 1). Got n={size} "
            f"and a p-value {p_values[off][0]:.6g}. Leave n out for groups and for other calibrations than one split."
        )
    return size


def check_evidence(
    sets: Any, p_values: Any, probabilities: Any, alpha: float | None, allow_empty: bool | None
) -> Checked:
    """Return p-values, probabilities, and the label that empty sets got, if they did; refuse what does not fit."""
    shape = (len(sets), len(sets.classes))
    values = _check_matrix(p_values, shape, "p_values").astype(np.float64, copy=False)
    chances = None if probabilities is None else _check_matrix(probabilities, shape, "probabilities")
    if alpha is None:
        raise ValueError("alpha must be given with p_values: the level of the sets, such as alpha=0.1.")
    mask, members = values > alpha, sets.mask
    differ = np.flatnonzero((mask != members).any(axis=1))
    if allow_empty is None:
        allow_empty = len(differ) == 0
    if mask[differ].any() or (members[differ].sum(axis=1) != 1).any() or (allow_empty and len(differ)):
        raise ValueError(
            f"p_values must exceed alpha={alpha:g} exactly for the labels in the sets; row {differ[0]} differs. "
            "Pass what p_values gives for the rows, in the order of the columns sets.classes, and the sets' alpha."
        )
    if allow_empty:
        return Checked(values, chances, None)
    if chances is None:
        raise ValueError(
            "probabilities must be given for sets that are never empty: an empty set gets its most likely label, which "
            "p-values do not tell. Pass probabilities=classifier.predict_proba(X)."
        )
    if not members.any(axis=1).all():
        raise ValueError("allow_empty must be True for sets of which some are empty; got False.")
    filled = np.argmax(chances, axis=1).astype(np.int64)
    filled[differ] = np.argmax(members[differ], axis=1)
    return Checked(values, chances, filled)


def _check_matrix(values: Any, shape: tuple[int, int], name: str) -> NDArray[Any]:
    matrix: NDArray[Any] | None = matrix_of_table(values)[0] if is_table(values) else np.asarray(on_host(values))
    if matrix is None or matrix.shape != shape or matrix.dtype.kind not in "fiu":
        came = "a frame that does not hold numbers only"
        came = came if matrix is None else f"{matrix.dtype} of shape {matrix.shape}"
        raise ValueError(f"{name} must be a matrix of numbers (rows, classes) = {shape}; got {came}.")
    if np.isnan(matrix).any():
        raise ValueError(f"{name} must not have missing values (NaN); row {np.argwhere(np.isnan(matrix))[0][0]} has.")
    if len(matrix) and not (matrix.min() >= 0 and matrix.max() <= 1):
        raise ValueError(f"{name} must be between 0 and 1; got {matrix.min():g} to {matrix.max():g}.")
    return matrix


def check_reportable(evaluation: Any) -> Any:
    """Return the rows of an evaluation that a report can be made of."""
    if evaluation.evidence is None:
        raise ValueError(
            "evaluation must know the p-values; this one holds sets only. Pass p_values=classifier.p_values(X) to "
            "evaluate, or the classifier itself: aptset.report(classifier, X, y)."
        )
    if evaluation.n == 0:
        raise ValueError("evaluation must have at least one row; got none.")
    return evaluation.evidence


def check_level(level: Any, alpha: Fraction | None) -> float:
    """Return the coverage that labels should reach: as given, or twice the misses promised."""
    if level is None:
        return max(0.0, float(1 - 2 * (Fraction(1, 10) if alpha is None else alpha)))
    way_out = "Pass level=0.8, for instance."
    return validate.number(level, "level", "a coverage in [0, 1]", lambda share: 0 <= share <= 1, way_out)


def check_confidence(confidence: Any) -> float:
    """Return the confidence of an interval."""
    return validate.share(confidence, "confidence", way_out="For 95 % intervals pass 0.95.")


def check_by(by: Any, labels: Any) -> NDArray[Any]:
    """Return the group of each row: its true label, or what was passed."""
    truth = as_labels(labels, "labels")
    if isinstance(by, str):
        if by != "label":
            raise ValueError(f"by must be 'label' or an array with one value per row; got {by!r}.")
        return _without_missing(truth)
    if np.ndim(by) == 0 or getattr(by, "ndim", 1) != 1 or is_table(by):
        raise ValueError("by must be 'label' or 1-D, with one value per row.")
    if isinstance(by, np.ndarray) and by.dtype.kind in _NEVER_MISSING:
        check_length(by, len(truth), "by")
        return _without_missing(by)
    groups = with_one_missing(plain_list(by))
    check_length(groups, len(truth), "by")
    if any(issubclass(kind, list | tuple | dict | set | np.ndarray) for kind in set(map(type, groups))):
        raise TypeError("by must hold one plain value per row, no lists or tuples.")
    return as_objects(groups)


_NEVER_MISSING = "biuU"  # kinds of arrays


def _without_missing(values: NDArray[Any]) -> NDArray[Any]:
    """Return values among which every missing one is the same: numbers and texts as they are, others as objects."""
    return values if values.dtype.kind in _NEVER_MISSING else as_objects(with_one_missing(values.tolist()))


def check_bins(bins: Any) -> NDArray[np.int64]:
    """Return the smallest size of each class of sizes."""
    starts = np.asarray(bins)
    if (
        starts.ndim != 1
        or starts.dtype.kind not in "iu"
        or len(starts) == 0
        or (np.diff(starts) <= 0).any()
        or starts[0] != 0
    ):
        raise ValueError(f"bins must be whole numbers that start at 0 and rise, e.g. [0, 1, 2, 4]; got {bins!r}.")
    return starts.astype(np.int64)


def check_features(
    matrix: Any, names: list[str], wanted: list[str] | None, n_rows: int | None, left_out: Sequence[str] = ()
) -> Any:
    """Return a matrix of finite numbers with the right rows and columns."""
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
    if not all_finite(values):
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


def check_delta(delta: Any) -> Fraction:
    """Return the least share of points in a slab, exactly as written."""
    rule = "in (0, 1], the least share of the points in a slab"
    validate.number(delta, "delta", rule, lambda share: 0 < share <= 1)
    return Fraction(str(delta))


def check_directions(directions: Any, n_features: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return unit vectors: random ones, or those that were passed."""
    if isinstance(directions, int | np.integer) and not isinstance(directions, bool):
        if directions < 1:
            raise ValueError(f"directions must be at least 1; got {directions}.")
        vectors = generator.normal(size=(int(directions), n_features))
    else:
        try:
            vectors = np.array(directions, dtype=np.float64, ndmin=2)
        except (TypeError, ValueError) as error:
            raise TypeError(f"directions must be a whole number or a matrix of numbers; got {directions!r}.") from error
        if vectors.ndim != 2 or vectors.shape[1] != n_features or not np.isfinite(vectors).all():
            raise ValueError(
                f"directions must be finite, with one entry per feature ({n_features}); got {vectors.shape}."
            )
        if len(vectors) == 0 or (vectors == 0).all(axis=1).any():
            raise ValueError("directions must not be empty or zero.")
        return vectors  # as they are: dividing by a length would tear exact ties apart
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = vectors / norms
    return unit


def check_counts(covered: Any, m: Any) -> tuple[int, int]:
    """Return how many rows are covered, and of how many."""
    if np.ndim(covered) == 1:
        flags = np.asarray(covered)
        if flags.dtype != np.bool_:
            raise TypeError(f"covered must be a count or a boolean per row; got dtype {flags.dtype}.")
        if m is not None and m != len(flags):
            raise ValueError(f"m must be the number of rows, {len(flags)}; got {m}. It may be left out here.")
        covered, m = int(flags.sum()), len(flags)
    for name, value in (("covered", covered), ("m", m)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be a whole number; got {value!r}.")
    if m < 1 or not 0 <= covered <= m:
        raise ValueError(f"covered must be between 0 and m, and m at least 1; got covered={covered}, m={m}.")
    return int(covered), int(m)


def check_size_exists(n: int, alpha: Any, within: Any) -> int:
    """Return a number of samples; refuse one that nobody will ever have, nor floats tell from its neighbour."""
    if n > 2**50:
        raise ValueError(
            "alpha must be in (0, 1) and within wide enough for fewer than 2^50 calibration samples; got "
            f"alpha={alpha}, within={within}. Pass larger ones."
        )
    return n


def check_can_predict_sets(estimator: Any) -> None:
    """Refuse a model without prediction sets."""
    if not hasattr(estimator, "predict_set"):
        raise TypeError(
            f"estimator must have predict_set; got {type(estimator).__name__}. Wrap it in aptset.ConformalClassifier."
        )


_NEEDS = {
    "curve": "p_values: pass p_values=classifier.p_values(X) to evaluate",
    "by_group": "groups: pass groups=... to evaluate",
    "size_by_group": "groups: pass groups=... to evaluate",
}


def check_what_is_needed(kind: Any, known: list[str]) -> None:
    """Say what is missing for a figure that there would be."""
    if isinstance(kind, str) and kind not in known and kind in _NEEDS:
        raise ValueError(f"kind {kind!r} needs {_NEEDS[kind]}. Without it there are {', '.join(known)}.")
