"""What a table must be that a model is trained on, and new rows for it: labels, and features that are numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def check_target(path: Path, target: str, labels: Any) -> None:
    """Refuse rows without a label."""
    if None in labels:
        raise ValueError(
            f"{path}, row {labels.index(None)}, column {target!r}: the label is missing. Drop such rows first."
        )


def check_finite_features(features: Any) -> None:
    """Refuse infinite numbers, which no model takes; missing ones are filled later."""
    for name in features.select_dtypes("number").columns:
        wrong = np.isinf(features[name].to_numpy())
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"row {row}, column {name!r}: numbers must be finite; got {features[name].iloc[row]}. "
                "Leave the cell empty if the value is missing."
            )


def check_no_regression(path: Path, target: str, values: Any, labels: Any) -> None:
    """Refuse a target that measures instead of naming: many numbers, hardly any of them twice."""
    import pyarrow as pa

    is_float, is_whole = pa.types.is_floating(values.type), pa.types.is_integer(values.type)
    if not (is_float or is_whole or pa.types.is_decimal(values.type)):
        return
    known = [label for label in labels if label is not None]
    distinct, has_parts = len(set(known)), any("." in label for label in known)
    if distinct > (20 if has_parts else max(50, len(labels) // 2)):
        raise ValueError(
            f"{path}: --target {target} must be labels; it has {distinct} different values, numbers: a regression "
            "problem. Cut it into classes first, or write a letter in front if the numbers are names."
        )


def check_number_columns(path: Path, table: Any, names: Sequence[str]) -> None:
    """Refuse columns that were numbers when a model was trained and are none now."""
    import pyarrow as pa

    for name in names:
        kind = table[name].type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_duration, pa.types.is_null)
        if not any(test(kind) for test in tests):
            raise ValueError(
                f"{path}: column {name!r} must hold numbers, as it did when the model was trained; it holds {kind}."
            )
