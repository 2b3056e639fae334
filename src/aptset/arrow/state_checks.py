"""What states must be, and how many rows, partitions and buckets there may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MOST_PARTITIONS = 2**22  # each has 2^40 numbers for its rows, which must stay below 2^63


def check_rows_found(n: int) -> None:
    """Refuse to calibrate on nothing."""
    if n == 0:
        raise ValueError("batches must have at least one row; got none.")


def check_state(state: Any) -> Any:
    """Return the state of all partitions, which must have one."""
    if state is None:
        raise ValueError("states must hold the state of every partition; got none. Run the search on each of them.")
    return state


def check_same_rows(is_same: bool, before: int, now: int) -> None:
    """Refuse rows that are others than those of the pass before."""
    if not is_same:
        raise ValueError(
            f"batches must give the same rows in every pass; the first had {before} rows, this one has {now}"
            f"{', others' if before == now else ''}. Give back the same rows in the same partitions each time (persist "
            "or cache what is computed), or pass resolution=2**-20, which takes one pass."
        )


def check_partition(partition: Any) -> None:
    """Refuse what is no number of a partition."""
    is_number = isinstance(partition, int | np.integer) and not isinstance(partition, bool)
    if partition is not None and not (is_number and 0 <= partition < _MOST_PARTITIONS):
        raise ValueError(f"partition must be a whole number from 0 to {_MOST_PARTITIONS - 1}; got {partition!r}.")


def check_once(partitions: NDArray[np.int64]) -> None:
    """Refuse to count a partition twice; their numbers stand upward."""
    twice = partitions[1:][partitions[1:] == partitions[:-1]]
    if len(twice):
        raise ValueError(
            f"states must count every partition once; partition {int(twice[0])} came twice. Keep the first state of a "
            "partition where tasks are run again."
        )


def check_all_partitions(partitions: NDArray[np.int64], wanted: int | None) -> None:
    """Refuse to go on without some of the partitions."""
    if wanted is not None and not np.array_equal(partitions, np.arange(wanted)):
        missing = np.setdiff1d(np.arange(wanted), partitions)[:6].tolist()
        extra = np.setdiff1d(partitions, np.arange(wanted))[:6].tolist()
        raise ValueError(
            f"states must hold every one of {wanted} partitions; missing {missing}, unknown {extra}. Run the search on "
            "each of them, with its number."
        )


def check_same_search(tokens: Sequence[str], wanted: str) -> None:
    """Refuse states that were made in another pass, or for another calibration."""
    other = [token for token in tokens if token != wanted]
    if other:
        raise ValueError(
            f"states must come from this pass of this search, {wanted}; got one of {other[0]}. Run the search of this "
            "pass on every partition."
        )


def check_names_travel(names: list[Any]) -> list[Any]:
    """Return names of groups that come back from Arrow as they are: groups that do not would be counted as one."""
    try:
        is_safe = pa.array(names).to_pylist() == names
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        is_safe = False
    if not is_safe:
        raise TypeError(
            "groups must be texts, numbers below 2**63, booleans or dates to go from worker to worker; got "
            f"{names[0]!r}. Cast the column to texts."
        )
    return names


def check_cells(n_cells: int, most: int) -> None:
    """Refuse a grid that would not fit into memory."""
    if n_cells > most:
        raise ValueError(
            f"resolution must leave at most {most} points of the grid with scores, in all groups; got {n_cells}. "
            "Pass a coarser one, or leave it out: thresholds are then exact, in several passes and bounded memory."
        )


def check_grid_scores(scores: NDArray[np.float64], resolution: float | None) -> None:
    """Refuse scores that are too large to be counted in steps of a grid."""
    if resolution is not None and len(scores) and float(np.abs(scores).max()) >= 2**62 * resolution:
        raise ValueError(
            f"resolution must be coarse enough for the scores; got {resolution!r} for a score of "
            f"{float(np.abs(scores).max()):.3g}. Pass a coarser one, or leave it out."
        )


def check_is_done(is_done: bool, passes: int) -> None:
    """Refuse thresholds before they are known."""
    if not is_done:
        raise ValueError(
            f"thresholds must be known before there is a calibration; after {passes} passes some are not. Run the "
            "search on every partition again, and advance it, until is_done."
        )


def check_bucket_count(buckets: Any) -> int:
    """Return how many buckets a pass may have."""
    if isinstance(buckets, bool) or not isinstance(buckets, int | np.integer) or not 2 <= buckets <= 2**26:
        raise ValueError(f"buckets must be a whole number from 2 to 2**26; got {buckets!r}. The default is 2**18.")
    return int(buckets)
