"""P-values and probabilities that come with sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.tables import is_table, matrix_of_table
from aptset.validation.settings import check_sample_size


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
    found = _check_matrix(p_values, shape, "p_values").astype(np.float64, copy=False)
    chances = None if probabilities is None else _check_matrix(probabilities, shape, "probabilities")
    if alpha is None:
        raise ValueError("alpha must be given with p_values: the level of the sets, such as alpha=0.1.")
    mask, members = found > alpha, sets.mask
    differ = np.flatnonzero((mask != members).any(axis=1))
    if allow_empty is None:
        allow_empty = len(differ) == 0
    if mask[differ].any() or (members[differ].sum(axis=1) != 1).any() or (allow_empty and len(differ)):
        raise ValueError(
            f"p_values must exceed alpha={alpha:g} exactly for the labels in the sets; row {differ[0]} differs. "
            "Pass what p_values gives for the rows, in the order of the columns sets.classes, and the sets' alpha."
        )
    if allow_empty:
        return Checked(found, chances, None)
    if chances is None:
        raise ValueError(
            "probabilities must be given for sets that are never empty: an empty set gets its most likely label, which "
            "p-values do not tell. Pass probabilities=classifier.predict_proba(X)."
        )
    if not members.any(axis=1).all():
        raise ValueError("allow_empty must be True for sets of which some are empty; got False.")
    filled = np.argmax(chances, axis=1).astype(np.int64)
    filled[differ] = np.argmax(members[differ], axis=1)
    return Checked(found, chances, filled)


def _check_matrix(values: Any, shape: tuple[int, int], name: str) -> NDArray[Any]:
    found: NDArray[Any] | None = matrix_of_table(values)[0] if is_table(values) else np.asarray(values)
    if found is None or found.shape != shape or found.dtype.kind not in "fiu":
        came = "a frame that does not hold numbers only" if found is None else f"{found.dtype} of shape {found.shape}"
        raise ValueError(f"{name} must be a matrix of numbers (rows, classes) = {shape}; got {came}.")
    if np.isnan(found).any():
        raise ValueError(f"{name} must not have missing values (NaN); row {np.argwhere(np.isnan(found))[0][0]} has.")
    if len(found) and not (found.min() >= 0 and found.max() <= 1):
        raise ValueError(f"{name} must be between 0 and 1; got {found.min():g} to {found.max():g}.")
    return found


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


def check_report_source(source: Any, X: Any, y: Any, is_evaluation: bool, is_known: bool) -> None:
    """Refuse what no report can be made of."""
    if not is_known:
        raise TypeError(
            "source must be an Evaluation, a fitted ConformalClassifier, a Calibration or a CrossCalibration; got "
            f"{type(source).__name__}. Wrap a model in aptset.ConformalClassifier and fit it."
        )
    if is_evaluation and (X is not None or y is not None):
        raise TypeError("X and y must be left out for an Evaluation, which has its rows. Pass them to evaluate.")
    if not is_evaluation and (X is None or y is None):
        raise TypeError(
            "X and y must be given: test rows (for a calibration their probabilities, of each fold if there are more) "
            "and their true labels, none of which trained or calibrated."
        )


def check_example_count(count: Any) -> int:
    """Return how many rows are shown."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 0 <= count <= 10_000:
        raise ValueError(f"examples must be a whole number from 0 to 10000; got {count!r}.")
    return int(count)


def check_page_path(path: Any) -> Path:
    """Return where the page goes."""
    found = Path(path)
    if found.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path must end in .html; got {str(path)!r}.")
    return found


def needs_jinja(error: ImportError) -> ImportError:
    """Return the error about a missing extra."""
    return ImportError(f"aptset.report needs jinja2 ({error}). Install it with: pip install 'aptset[report]'")


_NEEDS = {
    "curve": "p_values: pass p_values=classifier.p_values(X) to evaluate",
    "by_group": "groups: pass groups=... to evaluate",
    "size_by_group": "groups: pass groups=... to evaluate",
}


def check_what_is_needed(kind: Any, known: list[str]) -> None:
    """Say what is missing for a figure that there would be."""
    if isinstance(kind, str) and kind not in known and kind in _NEEDS:
        raise ValueError(f"kind {kind!r} needs {_NEEDS[kind]}. Without it there are {', '.join(known)}.")
