"""The arguments of the compiled loops, as ``c/compiled.c`` reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aptset.kernels.engines.seam import Calibrated, Columns, Groups
from aptset.kernels.formula import Floats, Weights
from aptset.kernels.rowhash import Words, column_keys

if TYPE_CHECKING:
    from aptset.kernels.places import Rows

_NO_WEIGHTS = Weights().flat  # of a score that the loops do not know


def job_of(rows: Rows, noted: Words | None) -> tuple[object, ...]:
    """Return the arguments that every loop over probabilities takes first (``JOB_FORMAT`` in ``c/compiled.c``)."""
    values, weights = rows.probabilities, rows.formula.weights
    flat = _NO_WEIGHTS if weights is None else weights.flat
    keys = column_keys(rows.key, values.shape[1])
    return values, values.shape[1], flat, keys, rows.key, rows.tolerance, rows.seeds, rows.u, noted


_WIDEST_TILE = 40  # WIDEST_TILE in c/tile.h: narrow rows come out in order anyhow


def room_for_members(rows: Rows) -> Columns:
    """Return room in the smallest type for a column: what waits to be joined then takes little memory."""
    n_rows, n_columns = rows.probabilities.shape
    width = 1 if n_columns <= _WIDEST_TILE else 2 if n_columns <= 2**16 else 4
    return np.empty(n_rows * n_columns, dtype=f"u{width}" if width < 4 else np.int32)


def known_of(calibrated: Calibrated, row_groups: Groups) -> tuple[object, ...]:
    """Return what is known of the calibration scores, but for the bits of rounding (``KNOWN_FORMAT``)."""
    of_columns = None if calibrated.of_columns is None else calibrated.of_columns.astype(np.int32)
    return calibrated.scores, calibrated.offsets, row_groups, of_columns, *calibrated.index


def at_cells(thresholds: Floats) -> tuple[object, ...]:
    """Return the arguments of a threshold for every cell: whether rows, and labels, have their own."""
    return np.ascontiguousarray(thresholds), len(thresholds) > 1, thresholds.shape[1] > 1


def wanted_at(thresholds: Floats, at_least: int) -> tuple[object, ...]:
    """Return the arguments that say where to cut (``WANTED_FORMAT`` in ``c/compiled.c``)."""
    n_thresholds = thresholds.shape[1]
    return thresholds, n_thresholds, n_thresholds if len(thresholds) > 1 else 0, at_least
