"""What is worth knowing about each row, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from aptset.data.sets import PredictionSets
from aptset.data.tables import Backend, make_table
from aptset.kernels.formula import Floats


def frame_of_rows(sets: PredictionSets, values: Floats, probabilities: Any, backend: Backend = "pandas") -> Any:
    """Return the most likely label with its probability and its p-value, and the set with its size."""
    chances = np.asarray(probabilities)
    first, rows = chances.argmax(axis=1), np.arange(len(chances))
    columns = {
        "prediction": sets.classes[first].tolist(),
        "probability": chances[rows, first],
        "p_value": values[rows, first],
        "size": sets.sizes,
        "labels": [row.tolist() for row in sets],
    }
    return make_table(columns, backend, sets.row_names)
