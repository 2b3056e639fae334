"""What a report is made from, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


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
