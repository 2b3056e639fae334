"""P-values and probabilities that come with sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.tables import is_table, matrix_of_table

Evidence = tuple[NDArray[np.float64], NDArray[Any] | None, NDArray[np.int64] | None]


def check_evidence(sets: Any, p_values: Any, probabilities: Any, alpha: float | None) -> Evidence:
    """Return p-values, probabilities, and the label that empty sets got, if they did; refuse what does not fit."""
    shape = (len(sets), len(sets.classes))
    found = _check_matrix(p_values, shape, "p_values").astype(np.float64, copy=False)
    chances = None if probabilities is None else _check_matrix(probabilities, shape, "probabilities")
    if alpha is None:
        raise ValueError("alpha must be given with p_values: the level of the sets, such as alpha=0.1.")
    mask, members = found > alpha, sets.mask
    differ = np.flatnonzero((mask != members).any(axis=1))
    if len(differ) == 0:
        return found, chances, None
    if mask[differ].any() or (members[differ].sum(axis=1) != 1).any():
        raise ValueError(
            f"p_values must exceed alpha={alpha:g} exactly for the labels in the sets; row {differ[0]} differs. "
            "Pass the p-values (predict_p) of the rows, in the order of the columns sets.classes, and the sets' alpha."
        )
    likely = found if chances is None else chances
    filled = np.argmax(likely, axis=1).astype(np.int64)
    filled[differ] = np.argmax(members[differ], axis=1)
    return found, chances, filled


def _check_matrix(values: Any, shape: tuple[int, int], name: str) -> NDArray[Any]:
    found: NDArray[Any] | None = matrix_of_table(values)[0] if is_table(values) else np.asarray(values)
    if found is None or found.shape != shape or found.dtype.kind not in "fiu":
        came = "a frame that does not hold numbers only" if found is None else f"{found.dtype} of shape {found.shape}"
        raise ValueError(f"{name} must be a matrix of numbers (rows, classes) = {shape}; got {came}.")
    if len(found) and not (found.min() >= 0 and found.max() <= 1):
        raise ValueError(f"{name} must be between 0 and 1; got {found.min():g} to {found.max():g}.")
    return found


def check_reportable(evaluation: Any) -> Any:
    """Return the rows of an evaluation that a report can be made of."""
    if evaluation.evidence is None:
        raise ValueError(
            "evaluation must know the p-values; this one holds sets only. Pass p_values=classifier.predict_p(X) to "
            "evaluate, or the classifier itself: aptset.report(classifier, X, y)."
        )
    if evaluation.n == 0:
        raise ValueError("evaluation must have at least one row; got none.")
    return evaluation.evidence


def check_report_source(source: Any, X: Any, y: Any, is_evaluation: bool, is_known: bool) -> None:
    """Refuse what no report can be made of."""
    if not is_known:
        raise TypeError(
            "source must be an Evaluation, a fitted ConformalClassifier or a Calibration; got "
            f"{type(source).__name__}. Wrap a model in aptset.ConformalClassifier and fit it."
        )
    if is_evaluation and (X is not None or y is not None):
        raise TypeError("X and y must be left out for an Evaluation, which has its rows. Pass them to evaluate.")
    if not is_evaluation and (X is None or y is None):
        raise TypeError(
            "X and y must be given: test rows (for a Calibration their probabilities) and their true labels, none of "
            "which trained or calibrated."
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
