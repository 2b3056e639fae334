"""Audits and comparisons: candidates, rows, and what is said about data that drift."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.weight_checks import refuse_with_weights
from aptset.data.label_checks import check_length
from aptset.data.tables import plain_list


def check_repetitions(repetitions: Any) -> int:
    """Return the number of random splits."""
    if isinstance(repetitions, bool) or not isinstance(repetitions, int | np.integer) or repetitions < 2:
        raise ValueError(f"repetitions must be a whole number, at least 2; got {repetitions!r}. 100 is a good number.")
    return int(repetitions)


def check_seed(seed: Any) -> int:
    """Return the seed, from which every split draws its own numbers."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"random_state must be a whole number, not negative, so that runs can go on; got {seed!r}.")
    return int(seed)


def check_test_share(share: Any, n_rows: int) -> tuple[float, int]:
    """Return the share of the rows that test, and their number."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ValueError(f"test_share must be in (0, 1), the share of the rows that test; got {share!r}.")
    n_test = round(float(share) * n_rows)
    if n_test < 1 or n_rows - n_test < 2:
        raise ValueError(
            f"test_share must leave a row to test and two to train and calibrate; got {share} of {n_rows} rows."
        )
    return float(share), n_test


def check_unweighted(weights: Any) -> None:
    """Refuse a classifier with weights: its promise is about rows from elsewhere, which random splits never show."""
    if weights is not None:
        refuse_with_weights(
            "random splits test on rows from where the calibration rows come from, and weights point elsewhere. Draw a "
            "report on rows from there"
        )


def check_calibrations(calibrations: Any, known: Sequence[str]) -> list[Any]:
    """Return the calibrations to audit."""
    found = [calibrations] if isinstance(calibrations, str) or not isinstance(calibrations, Sequence) else calibrations
    for one in found:
        if isinstance(one, str) and one not in known:
            raise ValueError(f"calibrations must be among {', '.join(known)}; got {one!r}.")
    if len(found) == 0 or len({str(one) for one in found}) != len(found):
        raise ValueError(f"calibrations must be at least one, each once; got {calibrations!r}.")
    return list(found)


def check_candidates(candidates: Any) -> dict[str, Any]:
    """Return the models to compare, by name."""
    if not isinstance(candidates, Mapping) or len(candidates) < 2:
        came = f"{len(candidates)} of them" if isinstance(candidates, Mapping) else type(candidates).__name__
        raise ValueError(
            f'candidates must be a dictionary of at least two, {{"name": model, ...}}; got {came}. They may be one '
            "model with several settings, ConformalClassifier(model, ...); for one alone there is aptset.audit."
        )
    return {str(name): model for name, model in candidates.items()}


def check_same_level(levels: Mapping[str, Any]) -> None:
    """Refuse candidates that promise different things."""
    if len(set(levels.values())) > 1:
        came = ", ".join(f"{name} has {float(level):g}" for name, level in levels.items())
        raise ValueError(
            f"candidates must have the same alpha, or sizes cannot be compared; got {came}. Pass alpha= to compare."
        )


def check_times(time: Any, n_rows: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return the place of each row in time: ranks, ties at random; by default the order of the rows.

    Ties in the order of the rows would bring that order back in, which is another question.
    """
    if time is None:
        return np.arange(n_rows)
    values = plain_list(time)
    check_length(values, n_rows, "time")
    if any(value is None or value != value for value in values):
        raise ValueError("time must not have missing values. Drop these rows, or leave time out for the row order.")
    try:
        order = sorted(generator.permutation(n_rows).tolist(), key=values.__getitem__)
    except TypeError as error:
        raise TypeError(f"time must hold values that can be ordered, such as dates or numbers; {error}.") from error
    place = np.empty(n_rows, dtype=np.intp)
    place[order] = np.arange(n_rows)
    return place


def warn_drift(sentence: str) -> None:
    """Say that the data do not look exchangeable."""
    warnings.warn(sentence, stacklevel=4)
