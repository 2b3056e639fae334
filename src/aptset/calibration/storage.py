"""Calibrations on disk: containers of ``core.store`` with the fields of ``stored_fields``, their labels and groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.stored_fields import SCHEMAS, measure_fields, measure_from
from aptset.calibration.stored_scores import (
    check_counted_classes,
    describe_scheme,
    describe_score,
    find_scheme,
    find_score,
)
from aptset.conformal.checks import check_fold_ids, check_offers
from aptset.conformal.importance import same_kind_of_weights
from aptset.conformal.measure import Thresholds, join_groups, join_measures
from aptset.core.groups import Groups, flat_groups, full_groups
from aptset.core.labels import as_objects
from aptset.core.overlapping import MOST_INDICATORS
from aptset.core.randomization import Randomization, warn_of_equal_shards
from aptset.core.store import (
    Facts,
    Store,
    check_stored_labels,
    check_stored_values,
    damaged,
    plain_labels,
    plain_value,
    same_values,
    write,
)
from aptset.scores import Score

if TYPE_CHECKING:
    from aptset.calibration.calibration import Calibration
    from aptset.calibration.cross_calibration import CrossCalibration


STORE = Store(SCHEMAS, "kind of calibration")


def write_calibration(path: str | Path, fields: Facts) -> None:
    """Write the fields of a calibration."""
    kind, of_measure, tensors = measure_fields(fields["held_out"])
    facts = {
        **common_facts(*(fields[name] for name in ("conformity", "classes", "held_out", "key", "chance"))),
        **of_measure,
        "columns": None if fields["columns"] is None else plain_labels(fields["columns"]),
        "allow_empty": fields["allow_empty"],
        "normalize": fields["normalize"],
        "parts": [str(part) for part in fields["parts"]],
    }
    if "scheme" in fields:
        of_folds = {"folds": plain_labels(fields["folds"]), "scheme": describe_scheme(fields["scheme"])}
        write(path, "cross", {**facts, **of_folds}, tensors)
    else:
        write(path, kind, {**facts, "first_rows": [str(row) for row in fields["first_rows"]]}, tensors)


def read_calibration(
    path: str | Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[Facts, Facts]:
    """Return the fields of a calibration and the facts behind them; whatever is not intact is refused with one error.

    The file is untrusted: nothing of it reaches a loop before every relation between its parts was checked.
    """
    facts, tensors = STORE.read(path)
    common = read_common(path, facts, scores, trust)
    columns = None if facts["columns"] is None else check_stored_labels(path, facts["columns"], "columns")
    n_classes = len(common.classes)
    if columns is not None and len(columns) != n_classes:
        raise damaged(path, f"it must have one column for each of the {n_classes} classes; it has {len(columns)}")
    fields = {
        "held_out": measure_from(path, facts, tensors, common.groups, common.score, n_classes),
        "classes": common.classes,
        "conformity": common.score,
        "key": common.key,
        "chance": common.chance,
        "allow_empty": facts["allow_empty"],
        "columns": columns,
        "normalize": facts["normalize"],
        "parts": tuple(map(int, facts["parts"])),
    }
    if facts["kind"] != "cross":
        return {**fields, "first_rows": tuple(map(int, facts["first_rows"]))}, facts
    scheme = find_scheme(path, facts["scheme"])
    if scheme.name == "split" or scheme.combine.holds_all_models != ("judges" in tensors):
        raise damaged(path, f"its folds must be those of its scheme, {scheme.name}")
    return {**fields, "folds": check_stored_labels(path, facts["folds"], "folds"), "scheme": scheme}, facts


class Common(NamedTuple):
    """What calibrations and classifiers share."""

    score: Score
    classes: NDArray[Any]
    groups: Groups
    key: int
    chance: Randomization


def common_facts(score: Score, classes: NDArray[Any], held_out: Thresholds, key: int, chance: Randomization) -> Facts:
    """Return what calibrations and classifiers share as plain values, with who writes them, and when."""
    from importlib.metadata import version  # takes as long to load as a third of numpy

    return {
        "score": describe_score(score),
        "classes": plain_labels(classes),
        "groups": {
            name: [plain_value(one) for one in value] if isinstance(value, list) else value
            for name, value in flat_groups(held_out.groups).items()
        },
        "key": str(key),
        **chance_facts(chance),
        "library": version("aptset"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def chance_facts(chance: Randomization) -> Facts:
    """Return where u comes from as plain values."""
    return {"randomized": chance.randomized, "u": chance.source, "copies": float(chance.copies)}


def read_common(
    path: str | Path, facts: Facts, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> Common:
    """Return what calibrations and classifiers share, checked."""
    classes = check_stored_labels(path, facts["classes"], "classes")
    groups, score = check_stored_groups(path, facts["groups"], classes), find_score(path, facts["score"], scores, trust)
    check_counted_classes(path, score, len(classes))
    chance = Randomization(facts["u"], facts["randomized"], float(facts["copies"]))
    return Common(score, classes, groups, int(facts["key"]), chance)


_KEYS = {"kind", "names"}
_KEYS_OF_KIND = {
    "all": _KEYS,
    "label": _KEYS,
    "band": _KEYS | {"bands"},
    "row": _KEYS,
    "pair": _KEYS | {"bands", "rows", "labels"},
    "overlap": _KEYS | {"groups", "frame", "is_flag"},
}


def check_stored_groups(path: str | Path, stored: Facts, classes: NDArray[Any]) -> Groups:
    """Return the groups; the names of those of labels must be the classes, one group must be called "all"."""
    kind, names = stored.get("kind"), stored.get("names")
    is_list = isinstance(names, list) and len(names) > 0
    if not isinstance(kind, str) or stored.keys() != _KEYS_OF_KIND.get(kind) or not is_list:
        raise damaged(path, "its groups must be of kind all, label, band, row, pair or overlap, with names")
    check_stored_values(path, stored["names"], "groups")
    if kind == "all" and names != ["all"]:
        raise damaged(path, "its one group must be all")
    if kind == "label" and not same_values(stored["names"], classes.tolist()):
        raise damaged(path, "its groups by label must be its classes")
    if kind == "band":
        _check_stored_bands(path, stored["bands"], len(stored["names"]), len(classes))
    if kind == "pair":
        _check_stored_pairs(path, stored, len(classes))
    if kind == "overlap":
        _check_stored_overlap(path, stored)
    return full_groups(stored)


def _check_stored_bands(path: str | Path, bands: Any, n_bands: int, n_classes: int) -> None:
    """Refuse bands that are not numbered in the order in which the classes have them."""
    is_list = isinstance(bands, list) and all(type(band) is int for band in bands)
    if not is_list or len(bands) != n_classes or list(dict.fromkeys(bands)) != list(range(n_bands)):
        raise damaged(path, f"its bands must number the {n_bands} bands of its {n_classes} classes")


def _check_stored_pairs(path: str | Path, stored: dict[str, Any], n_classes: int) -> None:
    """Refuse cells that are not those of every label, or band of labels, in every group of rows."""
    rows, labels = stored["rows"], stored["labels"]
    if not isinstance(rows, list) or not isinstance(labels, list):
        raise damaged(path, "its groups of rows and labels must be lists of both")
    for values, name in ((rows, "groups of rows"), (labels, "groups of labels")):
        check_stored_values(path, values, name)
    if stored["names"] != list(range(len(rows) * len(labels))):
        raise damaged(path, "its cells must number the labels of each of its groups of rows")
    _check_stored_bands(path, stored["bands"], len(labels), n_classes)


def _check_stored_overlap(path: str | Path, stored: dict[str, Any]) -> None:
    """Refuse combinations that are not of its groups, and columns that its groups do not come from."""
    every, frame, is_flag = stored["groups"], stored["frame"], stored["is_flag"]
    if not isinstance(every, list) or not 0 < len(every) <= MOST_INDICATORS:
        raise damaged(path, f"its overlapping groups must be 1 to {MOST_INDICATORS}")
    check_stored_values(path, every, "overlapping groups")
    digits = re.compile(f"[01]{{{len(every)}}}")
    if not all(isinstance(name, str) and digits.fullmatch(name) for name in stored["names"]):
        raise damaged(path, "its combinations must have a 0 or 1 for each of its overlapping groups")
    are_flags = isinstance(is_flag, list) and all(isinstance(flag, bool) for flag in is_flag)
    columns: Any = [] if frame is None else frame
    is_known = isinstance(columns, list) and (frame is None or len(columns) > 0)
    if not are_flags or not is_known or len(columns) != len(is_flag):
        raise damaged(path, "its overlapping groups must come from columns that are of flags or not")
    check_stored_values(path, columns, "columns of groups")


def merged(one: Calibration, other: Calibration) -> Calibration:
    """Return both as if all rows had been calibrated at once; refuse what does not fit together."""
    _check(one, other)
    if one.chance.source == "content" and {*one.first_rows} & {*other.first_rows}:
        warn_of_equal_shards(min(one.chance.copies, other.chance.copies))
    check_offers(one.held_out, "merge")
    together = {**_together(one, other), "first_rows": one.first_rows + other.first_rows}
    return replace(one, held_out=one.held_out.merge(other.held_out), **together)


def merged_folds(one: CrossCalibration, other: CrossCalibration) -> CrossCalibration:
    """Return both as if all rows had been calibrated at once: folds of one name have one model."""
    _check_same_face(one, other)
    _check_own_folds(bool(one.parts), bool(other.parts))
    _check(one, other)
    if one.chance.source == "content":
        warn_of_equal_shards(min(one.chance.copies, other.chance.copies), by_ids_alone=True)
    groups = join_groups([one.held_out.groups, other.held_out.groups])
    scores_of: dict[Any, list[Any]] = {}
    for each in (one, other):
        for name, fold in zip(each.folds.tolist(), each.held_out.folds, strict=True):
            scores_of.setdefault(name, []).append((fold, each.held_out.groups))
    both = _as_they_are(one.folds, other.folds)
    names, _ = check_fold_ids(both, len(both))
    held_out = join_measures([scores_of[name] for name in names.tolist()], groups, one.held_out)
    return replace(one, held_out=held_out, folds=names, **_together(one, other))


def _check(one: Any, other: Any) -> None:
    """Refuse what speaks of other scores, or of the same rows."""
    _check_same_face(one, other)
    same = {
        "score": one.conformity == other.conformity,
        "key (random_state)": one.key == other.key,
        "randomized": one.chance.randomized == other.chance.randomized,
        "where u comes from (u, ids)": one.chance.source == other.chance.source,
        "normalize": one.normalize == other.normalize,
        "allow_empty": one.allow_empty == other.allow_empty,
        "classes": np.array_equal(one.classes, other.classes),
        "what was kept (scores, thresholds, counts)": _kept(one) == _kept(other),
        "weights (weights, label_weights, prior_correction)": same_kind_of_weights(one.held_out, other.held_out),
        "clusters (clusters, votes)": _same_clusters(one.held_out.clusters, other.held_out.clusters),
        "kind of groups": one.held_out.groups.kind == other.held_out.groups.kind,
        "bands of labels": _bands_of(one) == _bands_of(other),
        "columns of groups": _columns_of(one) == _columns_of(other),
        "combine": getattr(one, "scheme", None) == getattr(other, "scheme", None),
        "kind of names of groups": _may_be_equal(_names_of(one), _names_of(other)),
        "kind of names of folds": _may_be_equal(_folds_of(one), _folds_of(other)),
    }
    ours, theirs = ({*each.parts, sum(each.parts) % 2**64} if each.parts else set() for each in (one, other))
    _check_mergeable([name for name, equal in same.items() if not equal], bool(ours & theirs))


def _kept(calibration: Any) -> Any:
    return type(calibration.held_out), calibration.held_out.has_weights


def _same_clusters(one: Any, other: Any) -> bool:
    return other is None if one is None else one.is_like(other)


def _bands_of(calibration: Any) -> Any:
    groups = calibration.held_out.groups
    bands = groups.names if groups.rows is None else [label for _, label in groups.names[: groups.n_by_label]]
    return None if groups.bands is None else (list(bands), groups.bands)


def _names_of(calibration: Any) -> Sequence[Any]:
    """Return the names of groups; of cells that a group of rows and a label make, those of the groups of rows."""
    groups = calibration.held_out.groups
    names: Sequence[Any] = groups.names if groups.rows is None else groups.rows
    return names


def _columns_of(calibration: Any) -> Any:
    """Return what overlapping groups come from: columns of a frame, or those of a matrix."""
    overlap = calibration.held_out.groups.overlap
    return overlap and (overlap.frame, overlap.is_flag, overlap.names if overlap.frame is None else None)


def _folds_of(calibration: Any) -> list[Any]:
    folds: list[Any] = calibration.folds.tolist() if hasattr(calibration, "folds") else []
    return folds


def _may_be_equal(names: Sequence[Any], others: Sequence[Any]) -> bool:
    """Tell whether names have a kind in common: 1 and "1" are two groups, and hardly meant as such."""
    ours, theirs = ({type(name) for name in each if name is not None} for each in (names, others))
    return not ours or not theirs or bool(ours & theirs)


def _as_they_are(names: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """Return all names; numpy would make texts, or rounded numbers, of those of two types."""
    if names.dtype.kind == others.dtype.kind:
        return np.concatenate([names, others])
    return as_objects([*names.tolist(), *others.tolist()])


def _together(one: Any, other: Any) -> dict[str, Any]:
    n_copies = one.chance.copies * one.rows + other.chance.copies * other.rows
    chance = one.chance.with_copies(n_copies, one.rows + other.rows)
    return {"chance": chance, "parts": one.parts + other.parts}


def _check_same_face(one: Any, other: Any) -> None:
    """Refuse to join what is not of one type."""
    if type(one) is not type(other):
        raise TypeError(f"other must be a {type(one).__name__}, too; got {type(other).__name__}.")


def _check_own_folds(*made_elsewhere: bool) -> None:
    """Refuse to join the folds of a fitted classifier: folds of one name must have one model."""
    if not all(made_elsewhere):
        raise ValueError(
            "only calibrations of calibrate_cv can be merged where there are several models: those of a fitted "
            "classifier are its own, and no rows of another fit were scored by them. Fit on all rows at once, or "
            "merge calibrations of one frozen model (FrozenEstimator, calibration='split')."
        )


def _check_mergeable(differences: list[str], overlap: bool) -> None:
    """Refuse to join calibrations that do not speak of the same scores, or that speak of the same rows."""
    if differences:
        raise ValueError(
            f"other must be a calibration of the same kind; it differs in {', '.join(differences)}. "
            "Calibrate every shard with the same settings and the same integer random_state."
        )
    if overlap:
        raise ValueError(
            "other must be a calibration of other rows; rows in this one already have the same content, labels and u. "
            "If they are the same shard, they would count twice: merge every shard once. If they are other rows that "
            "happen to be equal, calibrate them with ids=..., or each shard with a first_row of its own, which gives "
            "them a u of their own."
        )
