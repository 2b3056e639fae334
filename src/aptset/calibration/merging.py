"""Join calibrations of other rows: as if all rows had been calibrated at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aptset.conformal.importance import same_kind_of_weights
from aptset.conformal.measure import join_groups, join_measures
from aptset.conformal.schemes.cross import check_fold_ids
from aptset.core.groups import Groups
from aptset.core.labels import as_objects
from aptset.core.randomization import warn_of_equal_shards

if TYPE_CHECKING:
    from aptset.calibration.calibration import Calibration
    from aptset.calibration.cross_calibration import CrossCalibration


def merged(calibration: Calibration, other: Calibration) -> Calibration:
    """Return both as if all rows had been calibrated at once; refuse what does not fit together."""
    _check(calibration, other)
    if calibration.chance.source == "content" and {*calibration.first_rows} & {*other.first_rows}:
        warn_of_equal_shards(min(calibration.chance.copies, other.chance.copies))
    calibration.held_out.check_offers("merge")
    together = {**_together(calibration, other), "first_rows": calibration.first_rows + other.first_rows}
    return replace(calibration, held_out=calibration.held_out.merge(other.held_out), **together)


def merged_folds(calibration: CrossCalibration, other: CrossCalibration) -> CrossCalibration:
    """Return both as if all rows had been calibrated at once: folds of one name have one model."""
    if type(calibration) is type(other) and not (calibration.parts and other.parts):
        raise ValueError(
            "only calibrations of calibrate_cv can be merged where there are several models: those of a fitted "
            "classifier are its own, and no rows of another fit were scored by them. Fit on all rows at once, or "
            "merge calibrations of one frozen model (FrozenEstimator, calibration='split')."
        )
    _check(calibration, other)
    if calibration.chance.source == "content":
        warn_of_equal_shards(min(calibration.chance.copies, other.chance.copies), by_ids_alone=True)
    groups = join_groups([calibration.held_out.groups, other.held_out.groups])
    scores_of: dict[Any, list[Any]] = {}
    for each in (calibration, other):
        for name, fold in zip(each.folds.tolist(), each.held_out.folds, strict=True):
            scores_of.setdefault(name, []).append((fold, each.held_out.groups))
    if calibration.folds.dtype.kind == other.folds.dtype.kind:
        both = np.concatenate([calibration.folds, other.folds])
    else:  # numpy would make texts, or rounded numbers, of names of two types
        both = as_objects([*calibration.folds.tolist(), *other.folds.tolist()])
    names, _ = check_fold_ids(both, len(both))
    held_out = join_measures([scores_of[name] for name in names.tolist()], groups, calibration.held_out)
    return replace(calibration, held_out=held_out, folds=names, **_together(calibration, other))


def _check(calibration: Any, other: Any) -> None:
    """Refuse what speaks of other scores, or of the same rows."""
    if type(calibration) is not type(other):
        raise TypeError(f"other must be a {type(calibration).__name__}, too; got {type(other).__name__}.")
    ours, theirs = calibration.held_out, other.held_out
    folds, other_folds = (each.folds.tolist() if hasattr(each, "folds") else [] for each in (calibration, other))
    same = {
        "score": calibration.conformity == other.conformity,
        "key (random_state)": calibration.key == other.key,
        "randomized": calibration.chance.randomized == other.chance.randomized,
        "where u comes from (u, ids)": calibration.chance.source == other.chance.source,
        "normalize": calibration.normalize == other.normalize,
        "allow_empty": calibration.allow_empty == other.allow_empty,
        "classes": np.array_equal(calibration.classes, other.classes),
        "what was kept (scores, thresholds, counts)": (
            type(ours) is type(theirs) and ours.has_weights == theirs.has_weights
        ),
        "weights (weights, label_weights, prior_correction)": same_kind_of_weights(ours, theirs),
        "clusters (clusters, votes)": (
            theirs.clusters is None if ours.clusters is None else ours.clusters.is_like(theirs.clusters)
        ),
        "kind of groups": ours.groups.kind == theirs.groups.kind,
        "bands of labels": _bands_of(ours.groups) == _bands_of(theirs.groups),
        "columns of groups": _columns_of(ours.groups) == _columns_of(theirs.groups),
        "combine": getattr(calibration, "scheme", None) == getattr(other, "scheme", None),
        "kind of names of groups": _may_be_equal(ours.groups.of_rows, theirs.groups.of_rows),
        "kind of names of folds": _may_be_equal(folds, other_folds),
    }
    check_same(same, "be a calibration of the same kind", "Calibrate")
    parts, other_parts = (
        {*each.parts, sum(each.parts) % 2**64} if each.parts else set() for each in (calibration, other)
    )
    if parts & other_parts:
        raise ValueError(
            "other must be a calibration of other rows; rows in this one already have the same content, labels and u. "
            "If they are the same shard, they would count twice: merge every shard once. If they are other rows that "
            "happen to be equal, calibrate them with ids=..., or each shard with a first_row of its own, which gives "
            "them a u of their own."
        )


def check_same(same: dict[str, bool], rule: str, verb: str) -> None:
    """Refuse what was made with other settings, and name those that differ."""
    differences = ", ".join(name for name, equal in same.items() if not equal)
    if differences:
        raise ValueError(
            f"other must {rule}; it differs in {differences}. {verb} every shard with the same settings and the same "
            "integer random_state."
        )


def _bands_of(groups: Groups) -> Any:
    """Return which labels share a cell; None where each has its own, or none has."""
    names = groups.names if groups.rows is None else [label for _, label in groups.names[: groups.n_by_label]]
    return None if groups.bands is None else (list(names), groups.bands)


def _columns_of(groups: Groups) -> Any:
    """Return what overlapping groups come from: columns of a frame, or those of a matrix."""
    overlap = groups.overlap
    return overlap and (overlap.frame, overlap.is_flag, overlap.names if overlap.frame is None else None)


def _may_be_equal(names: Sequence[Any], others: Sequence[Any]) -> bool:
    """Tell whether names have a kind in common: 1 and "1" are two groups, and hardly meant as such."""
    ours, theirs = ({type(name) for name in each if name is not None} for each in (names, others))
    return not ours or not theirs or bool(ours & theirs)


def _together(calibration: Any, other: Any) -> dict[str, Any]:
    n_copies = calibration.chance.copies * calibration.rows + other.chance.copies * other.rows
    chance = calibration.chance.with_copies(n_copies, calibration.rows + other.rows)
    return {"chance": chance, "parts": calibration.parts + other.parts}
