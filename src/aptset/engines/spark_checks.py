"""What Spark frames and Spark ML's notes beside their columns must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_frame(frame: Any) -> None:
    """Refuse what is no frame of Spark."""
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(
            f"frame must be a DataFrame of Spark; got {type(frame).__name__}. Tables and frames on one machine go to "
            "aptset.calibrate_batches and aptset.predict_batches."
        )


def check_class_names(names: Sequence[str], width: int | None, labels: str) -> None:
    """Refuse names of indices that are not those of the probabilities."""
    if width is not None and len(names) != width:
        raise ValueError(
            f"classes must be passed: the indices of column {labels!r} have {len(names)} names, and rows have {width} "
            "probabilities. Pass the name of each of them, in order."
        )


def check_calibration(calibration: Any) -> Any:
    """Return the calibration of a model, which must have one."""
    if calibration is None:
        raise ValueError(
            "calibration must be there before there are sets; got None. Fit ConformalSets, or pass what "
            "aptset.spark.calibrate returned."
        )
    return calibration


def check_saved_class(found: str, wanted: str) -> None:
    """Refuse a folder that holds something else."""
    if found != wanted:
        raise ValueError(f"path must hold a {wanted}; it holds a {found}. Load it with that.")
