"""What folds must be, and what a maker of thresholds cannot offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.clusters import refuse_with_clusters
from aptset.conformal.importance import refuse_with_weights
from aptset.core.labels import as_labels, check_hashable, check_length, columns_of, distinct, hashable, some
from aptset.core.levels import Level
from aptset.core.overlapping import WITHOUT_P_VALUES, refuse_overlapping
from aptset.kernels.p_value_rounding import by_counts


def check_fold_ids(folds: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the names of the folds, sorted, and the number of the fold of each row."""
    values = as_labels(folds, "folds").copy()  # looked at more than once: another thread may go on to change them
    check_length(values, n_rows, "folds")
    check_hashable(values, "folds")
    names = distinct(values)
    if any(hashable(name) is None for name in names.tolist()):
        row = next(row for row, fold in enumerate(values.tolist()) if hashable(fold) is None)
        raise ValueError(
            f"folds must name the fold of every row; that of row {row} is missing. Leave out rows that every model was "
            "trained on: none of them held such a row out."
        )
    numbers = columns_of(values, names)
    if len(names) < 2:
        raise ValueError(f"folds must name at least 2 folds; got {names.tolist()}. For one model use aptset.calibrate.")
    return names, numbers


def folds_in_order(fold_probabilities: Any, names: NDArray[Any]) -> Iterator[Any]:
    """Yield the matrix of each fold in the order of the names, from an iterable or a mapping; exactly one for each."""
    if isinstance(fold_probabilities, Mapping):
        missing = [name for name in names.tolist() if name not in fold_probabilities]
        if missing or len(fold_probabilities) != len(names):
            raise ValueError(f"fold_probabilities must have one matrix for each of the folds {some(names)}.")
        fold_probabilities = [fold_probabilities[name] for name in names.tolist()]
    _check_several(fold_probabilities)
    number = 0
    for matrix in fold_probabilities:
        if number < len(names):
            yield matrix
        number += 1
    if number != len(names):
        raise ValueError(f"fold_probabilities must have one matrix per fold: {len(names)} folds, but {number} came.")


def _check_several(fold_probabilities: Any) -> None:
    """Refuse what cannot be one matrix for each fold."""
    what = type(fold_probabilities).__name__
    if isinstance(fold_probabilities, np.ndarray):
        what = "" if fold_probabilities.ndim == 3 else f"an array of shape {fold_probabilities.shape}"
    elif hasattr(fold_probabilities, "columns"):
        what = f"a table of shape {fold_probabilities.shape}"
    elif isinstance(fold_probabilities, Iterable) and not isinstance(fold_probabilities, str | bytes):
        what = ""
    if what:
        raise (ValueError if "shape" in what else TypeError)(
            f"fold_probabilities must be one matrix per fold; got {what}. Pass a list of matrices, in the order of "
            "the folds."
        )


def check_same_shape(matrix: NDArray[Any], first: NDArray[Any], fold: int) -> None:
    """Refuse folds that speak about different rows."""
    if matrix.shape != first.shape:
        raise ValueError(
            f"fold_probabilities must be about the same rows: the first fold has shape {first.shape}, matrix "
            f"{fold} has shape {matrix.shape}."
        )


# What a maker of thresholds cannot offer, by verb, and why: with overlapping groups, with weights, without scores.
OVERLAPPING = {
    "p_values": ("p-values", WITHOUT_P_VALUES),
    "monitor": ("monitor", "Watch one group with a calibration of its own."),
}
WITH_WEIGHTS = {
    "threshold": "this asks for a threshold for all rows, and with weights every row has its own",
    "rank": "this asks for the rank of a threshold, and with weights there is none",
    "monitor": "a monitor counts misses by a law that does not hold with weights",
}


def check_level_offered(measure: Any, level: Level) -> None:
    """Refuse assurance where the coverage of one calibration has no law that is known, and levels of other cells."""
    if isinstance(level, Fraction):
        return
    if level.assurance is not None:
        why = "with weights or clusters" if measure.is_weighted else ""
        why = "for several models" if len(measure.folds) > 1 or getattr(measure, "judges", None) is not None else why
        why = "with overlapping groups" if measure.groups.overlaps else why
        if why:
            refuse_assurance(why)
    level.alphas(measure.groups)


def level_of_rank(n: int, rank: int) -> float:
    """Return the level at which n scores have this rank: 1 - rank / (n + 1), rounded as p-values are.

    The nearest float may be below it, and sets at that level would be larger.
    """
    return float(by_counts(n, np.array([rank]))[0])


def refuse_assurance(why: str) -> NoReturn:
    """Say where the coverage of one calibration has no known law."""
    raise ValueError(
        f"assurance must be left out here: {why} no law of the coverage of one calibration is known. Leave it out, or "
        "calibrate one model on rows that weigh alike (aptset.calibrate, or calibration='split')."
    )


WITHOUT_SCORES = {"scores": "its scores", "p_values": "p-values", "merge": "what merging takes"}


def check_offers(measure: Any, verb: str) -> None:
    """Refuse a verb that a maker of thresholds does not offer, and say why in words."""
    if verb in OVERLAPPING:
        refuse_overlapping(measure.groups.overlaps, *OVERLAPPING[verb])
    if verb in WITH_WEIGHTS and measure.has_weights:
        refuse_with_weights(WITH_WEIGHTS[verb])
    if verb == "monitor" and measure.clusters is not None and (measure.is_weighted or not measure.clusters.are_votes):
        refuse_with_clusters(measure.clusters)
    if verb in WITHOUT_SCORES and getattr(measure, verb) is None:
        refuse_without_scores(verb)


def refuse_without_scores(verb: str) -> NoReturn:
    """Say that only thresholds were kept."""
    raise ValueError(
        f"this calibration cannot give {WITHOUT_SCORES[verb]}: it kept the thresholds of its levels, and no scores. "
        "Calibrate with resolution=2**-20 for p-values, every level and merging, or with aptset.calibrate where scores "
        "fit into memory."
    )
