"""Calibrations on disk: containers of ``core.store`` with the fields of ``stored_fields``, their labels and groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from aptset.calibration.stored_fields import SCHEMAS, measure_fields, measure_from
from aptset.calibration.stored_scores import (
    check_counted_classes,
    describe_scheme,
    describe_score,
    find_scheme,
    find_score,
)
from aptset.conformal.measure import Thresholds
from aptset.core.groups import Groups, flat_groups, full_groups
from aptset.core.overlapping import MOST_INDICATORS
from aptset.core.randomization import Chance
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
    chance: Chance


def common_facts(score: Score, classes: NDArray[Any], held_out: Thresholds, key: int, chance: Chance) -> Facts:
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


def chance_facts(chance: Chance) -> Facts:
    """Return where u comes from as plain values."""
    return {"randomized": chance.randomized, "u": chance.source, "copies": float(chance.copies)}


def read_common(
    path: str | Path, facts: Facts, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> Common:
    """Return what calibrations and classifiers share, checked."""
    classes = check_stored_labels(path, facts["classes"], "classes")
    groups, score = check_stored_groups(path, facts["groups"], classes), find_score(path, facts["score"], scores, trust)
    check_counted_classes(path, score, len(classes))
    chance = Chance(facts["u"], facts["randomized"], float(facts["copies"]))
    return Common(score, classes, groups, int(facts["key"]), chance)


_KEYS = {"kind", "names"}
_KEYS_OF_KIND = {
    "all": _KEYS,
    "label": _KEYS,
    "band": _KEYS | {"bands"},
    "row": _KEYS,
    "overlap": _KEYS | {"groups", "frame", "is_flag"},
}


def check_stored_groups(path: str | Path, stored: Facts, classes: NDArray[Any]) -> Groups:
    """Return the groups; the names of those of labels must be the classes, one group must be called "all"."""
    kind, names = stored.get("kind"), stored.get("names")
    is_list = isinstance(names, list) and len(names) > 0
    if not isinstance(kind, str) or stored.keys() != _KEYS_OF_KIND.get(kind) or not is_list:
        raise damaged(path, "its groups must be of kind all, label, band, row or overlap, with names")
    check_stored_values(path, stored["names"], "groups")
    if kind == "all" and names != ["all"]:
        raise damaged(path, "its one group must be all")
    if kind == "label" and not same_values(stored["names"], classes.tolist()):
        raise damaged(path, "its groups by label must be its classes")
    if kind == "band":
        _check_stored_bands(path, stored["bands"], len(stored["names"]), len(classes))
    if kind == "overlap":
        _check_stored_overlap(path, stored)
    return full_groups(stored)


def _check_stored_bands(path: str | Path, bands: Any, n_bands: int, n_classes: int) -> None:
    """Refuse bands that are not numbered in the order in which the classes have them."""
    is_list = isinstance(bands, list) and all(type(band) is int for band in bands)
    if not is_list or len(bands) != n_classes or list(dict.fromkeys(bands)) != list(range(n_bands)):
        raise damaged(path, f"its bands must number the {n_bands} bands of its {n_classes} classes")


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
