"""Labels, columns and groups that come from a file, and calibrations that are to be joined: what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.groups import Groups, full_groups
from aptset.core.overlapping import MOST_INDICATORS

if TYPE_CHECKING:
    from pathlib import Path


LONGEST_TEXT = 64 * 2**20  # safetensors itself stops at 100 million bytes


def damaged(path: str | Path, why: str) -> ValueError:
    """Return the one error about a file that cannot be trusted."""
    return ValueError(f"{path} is no intact aptset artefact: {why}. Make it again with `aptset calibrate` or save().")


def unknown_kind(where: str | Path, what: str, name: Any) -> ValueError:
    """Return the one error about something that a later version may have written."""
    shown = re.sub(r"[^ -~]", "?", str(name))[:200]
    return ValueError(
        f"{where} has a {what} that this version of aptset does not know: {shown}. Upgrade aptset, or make it again."
    )


def check_stored_labels(path: str | Path, stored: Any, what: str) -> NDArray[Any]:
    """Return labels as an array; refuse those that are there twice or come back as something else."""
    parts = stored if isinstance(stored, dict) and stored.keys() == {"values", "objects"} else {}
    values, objects = parts.get("values"), parts.get("objects")
    if not isinstance(values, list) or not isinstance(objects, bool) or len(values) < 2:
        raise damaged(path, f"its {what} must be a list of at least 2 labels")
    check_stored_values(path, values, what)
    found = stored_array(values, objects)
    if not same_values(found.tolist(), values):
        raise damaged(path, f"its {what} must be of one kind, or objects")
    return found


def check_stored_columns(path: str | Path, stored: Any, n_classes: int) -> NDArray[Any]:
    """Return the names of the columns, as many as there are classes."""
    found = check_stored_labels(path, stored, "columns")
    if len(found) != n_classes:
        raise damaged(path, f"it must have one column for each of the {n_classes} classes; it has {len(found)}")
    return found


def check_writable_text(path: str | Path, text: str) -> None:
    """Refuse to write what could not be read again."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"{path} cannot hold so many names of classes and groups: {len(text)} characters, where {LONGEST_TEXT} "
            "are the limit. Use shorter names or fewer groups."
        )


def check_stored_values(path: str | Path, values: list[Any], what: str) -> None:
    """Refuse values that no label or group is, and values that are there twice (1, 1.0 and true are the same)."""
    for value in values:
        if not is_storable(value):
            raise damaged(path, f"its {what} must be texts, numbers, booleans or null; got {str(value)[:60]!r}")
    if len(set(values)) != len(values):
        raise damaged(path, f"its {what} must be distinct")


def is_storable(value: Any) -> bool:
    """Tell whether a label or a group can go into an artefact and come back: half a character of UTF-16 cannot."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return value is None or isinstance(value, bool | int) or (isinstance(value, float) and value == value)


def stored_array(values: list[Any], objects: bool) -> NDArray[Any]:
    """Return an array of labels."""
    if not objects:
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def same_values(found: list[Any], values: list[Any]) -> bool:
    """Tell whether values came through an array as they were, of the same types."""
    return found == values and list(map(type, found)) == list(map(type, values))


_KEYS = {"kind", "names"}
_KEYS_OF_KIND = {
    "all": _KEYS,
    "label": _KEYS,
    "band": _KEYS | {"bands"},
    "row": _KEYS,
    "overlap": _KEYS | {"groups", "frame", "is_flag"},
}


def check_stored_groups(path: str | Path, facts: dict[str, Any], classes: NDArray[Any]) -> Groups:
    """Return the groups; the names of those of labels must be the classes, one group must be called "all"."""
    stored: dict[str, Any] = facts["groups"]
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


def check_same_face(one: Any, other: Any) -> None:
    """Refuse to join what is not of one type."""
    if type(one) is not type(other):
        raise TypeError(f"other must be a {type(one).__name__}, too; got {type(other).__name__}.")


def check_own_folds(*made_elsewhere: bool) -> None:
    """Refuse to join the folds of a fitted classifier: folds of one name must have one model."""
    if not all(made_elsewhere):
        raise ValueError(
            "only calibrations of calibrate_cv can be merged where there are several models: those of a fitted "
            "classifier are its own, and no rows of another fit were scored by them. Fit on all rows at once, or "
            "merge calibrations of one frozen model (FrozenEstimator, calibration='split')."
        )


def check_mergeable(differences: list[str], overlap: bool) -> None:
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
