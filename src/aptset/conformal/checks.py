"""Folds: how many, and that they share the rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.clusters import refuse_with_clusters
from aptset.conformal.importance import refuse_with_weights
from aptset.core.labels import as_labels, check_hashable, check_length, columns_of, distinct, hashable, some
from aptset.core.levels import CellLevel, Level
from aptset.core.overlapping import WITHOUT_P_VALUES, refuse_overlapping
from aptset.core.validate import warn_caller


def check_fold_count(n_folds: Any, n_rows: int) -> int:
    """Return the number of folds."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer):
        raise TypeError(
            f"n_folds must be a whole number; got {n_folds!r}. Pass splitter=... for a scikit-learn splitter."
        )
    if not 2 <= n_folds <= n_rows:
        raise ValueError(
            f"n_folds must be between 2 and the number of rows; got n_folds={n_folds} with n_samples={n_rows}. "
            "Pass calibration='jackknife+' for one fold per row."
        )
    return int(n_folds)


def check_bag_count(n_models: Any, name: str) -> int:
    """Return about how many bags are wanted."""
    if isinstance(n_models, bool) or not isinstance(n_models, int | np.integer):
        raise TypeError(f"{name} must be a whole number; got {n_models!r}. Pass {name}=30, for instance.")
    if n_models < 10:
        raise ValueError(
            f"{name} must be at least 10, since the number of models is drawn around it; got {n_models}. "
            "Pass calibration='cv+' for a few models."
        )
    return int(n_models)


def check_some_bags(n_bags: int) -> int:
    """Return the number of bags that was drawn if there are two at least."""
    if n_bags < 2:
        raise ValueError(
            f"the number of models must be large enough for two to be drawn; got {n_bags}. Pass a larger one."
        )
    return n_bags


def check_splitter(splitter: Any) -> None:
    """Refuse what is not a splitter object."""
    if isinstance(splitter, type) or not callable(getattr(splitter, "split", None)):
        raise TypeError(f"splitter must be a scikit-learn splitter, e.g. StratifiedKFold(10); got {splitter!r}.")


_BLIND = ("KFold", "LeaveOneOut", "PredefinedSplit")  # splitters of scikit-learn that look at neither X nor y


def reason_of_no_promise(splitter: Any) -> str:
    """Return why the theorems do not speak of a splitter's folds; empty if they do, or if there is no splitter."""
    kind = type(splitter)  # by its name: probabilities alone must not cost the import of scikit-learn
    if splitter is None or (kind.__module__.startswith("sklearn.model_selection.") and kind.__name__ in _BLIND):
        return ""
    return f"{kind.__name__} may look at the data when it makes the folds, and no theorem speaks of such folds"


FOLDS_WITH_WEIGHTS = "since no theorem is known for folds of several rows with weights"
_BLIND_FOLDS = (
    "CVPlus(n_folds=10), KFold, or, if its folds depend on neither X nor y, PredefinedSplit(fold_of_each_row)"
)


def warn_no_promise(caveat: str) -> None:
    """Say once that a guarantee of 0 means that nothing is proven."""
    if caveat:
        way_out = "a split or the jackknife+" if caveat == FOLDS_WITH_WEIGHTS else _BLIND_FOLDS
        text = f"nothing is promised: {caveat.removeprefix('since ')}. For a promise use {way_out}."
        warn_caller(text)


def split_by(splitter: Any, X: Any, y: NDArray[Any], clusters: NDArray[np.intp] | None = None) -> list[tuple[Any, Any]]:
    """Return the pairs (train, held out) of a splitter that needs X and y only, or the cluster of each row, too."""
    try:
        return list(splitter.split(X, y))
    except (TypeError, ValueError) as error:
        if "group" not in str(error):
            raise
        if clusters is not None:
            return list(splitter.split(X, y, clusters))
        raise ValueError(
            f"splitter must work without groups; {type(splitter).__name__} does not ({error}). Turn its folds into a "
            "PredefinedSplit: splitter=PredefinedSplit(fold_of_each_row)."
        ) from error


def check_partition(pairs: list[tuple[Any, Any]], n_rows: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Refuse folds that leave a row out, hold it out twice, or train on rows that they hold out."""
    splits = [(_row_numbers(train, n_rows), _row_numbers(held_out, n_rows)) for train, held_out in pairs]
    times = np.bincount(np.concatenate([held_out for _, held_out in splits] or [np.arange(0)]), minlength=n_rows)
    if (times != 1).any():
        row = int(np.argmax(times != 1))
        raise ValueError(
            f"splitter must put each row into exactly one test part; row {row} is in {int(times[row])}. "
            "Pass a KFold-like splitter, not a shuffled or repeated one."
        )
    for number, (train, held_out) in enumerate(splits):
        both = np.intersect1d(train, held_out)
        if len(both):
            raise ValueError(
                f"splitter must not train on rows that it holds out; fold {number + 1} does so with row "
                f"{both[0]}. Scores of training rows are too low, and the coverage guarantee would be lost."
            )
    return splits


def _row_numbers(rows: Any, n_rows: int) -> NDArray[np.intp]:
    numbers = np.asarray(rows)
    if numbers.dtype == np.bool_:
        numbers = np.flatnonzero(numbers)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise TypeError(f"splitter must give row numbers; got dtype {numbers.dtype}, shape {numbers.shape}.")
    numbers = numbers.copy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= n_rows):
        raise ValueError(
            f"splitter must give row numbers from 0 to {n_rows - 1}; got {numbers.min()} to {numbers.max()}."
        )
    return numbers.astype(np.intp)


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


def refuse_other_level(alpha: Level, levels: Sequence[Fraction]) -> NoReturn:
    """Say which levels there are."""
    known = ", ".join(f"{float(level):g}" for level in levels)
    shown = str(alpha) if isinstance(alpha, CellLevel) else f"{float(alpha):g}"
    raise ValueError(
        f"alpha must be a level that was calibrated, one of {known}; got {shown}. Pass it to "
        "calibrate_batches, too, or calibrate with resolution=2**-20, which answers every level."
    )


def refuse_on_device() -> NoReturn:
    """Say that counts are looked up in numpy's memory."""
    raise TypeError(
        "probabilities must be on the host for p-values of a calibration that only has counts or thresholds; got a "
        "tensor on a device. Pass probabilities.cpu()."
    )
