"""Calibrations on disk: containers of ``core.store`` with the fields of ``stored_fields``.

A scheme is stored by its name, its plain settings, and why it promises nothing, if that is so.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.calibration import Calibration
from aptset.calibration.cross_calibration import CrossCalibration
from aptset.calibration.stored_fields import SCHEMAS, measure_fields, measure_from
from aptset.conformal import CALIBRATIONS
from aptset.conformal.aggregation import Tally
from aptset.conformal.clusters import promise_about
from aptset.conformal.measure import Fold
from aptset.conformal.scheme import FoldSizes, LinearBound, Promises, Scheme
from aptset.conformal.thresholds import Thresholds
from aptset.core import store
from aptset.core.groupings import MOST_INDICATORS
from aptset.core.groups import EVERYONE, KINDS, Groups, Overlap
from aptset.core.randomization import Randomization
from aptset.scores import Score
from aptset.scores.conformity import check_counted_classes, describe_score, find_score

STORE = store.Store(SCHEMAS, "kind of calibration")


def write_calibration(path: str | Path, fields: store.Facts) -> None:
    """Write the fields of a calibration."""
    kind, of_measure, tensors = measure_fields(fields["held_out"])
    facts = {
        **common_facts(*(fields[name] for name in ("conformity", "classes", "held_out", "key", "chance"))),
        **of_measure,
        "columns": None if fields["columns"] is None else store.storable_labels(fields["columns"]),
        "allow_empty": fields["allow_empty"],
        "normalize": fields["normalize"],
        "parts": [str(part) for part in fields["parts"]],
    }
    if "scheme" in fields:
        of_folds = {"folds": store.storable_labels(fields["folds"]), "scheme": describe_scheme(fields["scheme"])}
        store.write(path, "cross", {**facts, **of_folds}, tensors)
    else:
        store.write(path, kind, {**facts, "first_rows": [str(row) for row in fields["first_rows"]]}, tensors)


def load_calibration(
    path: str | Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> Calibration | CrossCalibration:
    """Read a calibration that was saved, as :func:`aptset.load` says."""
    fields, _ = read_calibration(path, scores, trust)
    return CrossCalibration(**fields) if "scheme" in fields else Calibration(**fields)


def read_calibration(
    path: str | Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[store.Facts, store.Facts]:
    """Return the fields of a calibration and the facts behind them; whatever is not intact is refused with one error.

    The file is untrusted: nothing of it reaches a loop before every relation between its parts was checked.
    """
    facts, tensors = STORE.read(path)
    common = read_common(path, facts, scores, trust)
    columns = None if facts["columns"] is None else store.check_stored_labels(path, facts["columns"], "columns")
    n_classes = len(common.classes)
    if columns is not None and len(columns) != n_classes:
        raise store.damaged(path, f"it must have one column for each of the {n_classes} classes; it has {len(columns)}")
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
        raise store.damaged(path, f"its folds must be those of its scheme, {scheme.name}")
    return {**fields, "folds": store.check_stored_labels(path, facts["folds"], "folds"), "scheme": scheme}, facts


class Common(NamedTuple):
    """What calibrations and classifiers share."""

    score: Score
    classes: NDArray[Any]
    groups: Groups
    key: int
    chance: Randomization


def common_facts(
    score: Score, classes: NDArray[Any], held_out: Thresholds, key: int, chance: Randomization
) -> store.Facts:
    """Return what calibrations and classifiers share as plain values, with who writes them, and when."""
    return {
        "score": describe_score(score),
        "classes": store.storable_labels(classes),
        "groups": {
            name: [store.storable_value(one) for one in value] if isinstance(value, list) else value
            for name, value in flat_groups(held_out.groups).items()
        },
        "key": str(key),
        **chance_facts(chance),
        **store.origin(),
    }


def chance_facts(chance: Randomization) -> store.Facts:
    """Return where u comes from as plain values."""
    return {"randomized": chance.randomized, "u": chance.source, "copies": float(chance.copies)}


def read_common(
    path: str | Path, facts: store.Facts, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> Common:
    """Return what calibrations and classifiers share, checked."""
    classes = store.check_stored_labels(path, facts["classes"], "classes")
    groups, score = check_stored_groups(path, facts["groups"], classes), find_score(path, facts["score"], scores, trust)
    check_counted_classes(path, score, len(classes))
    chance = Randomization(facts["u"], facts["randomized"], float(facts["copies"]))
    return Common(score, classes, groups, int(facts["key"]), chance)


def flat_groups(groups: Groups) -> dict[str, Any]:
    """Return groups as lists and texts; a combination of groups that overlap as a text of 0 and 1."""
    fields: dict[str, Any] = {"kind": groups.kind, "names": list(groups.names)}
    if groups.bands is not None:
        fields["bands"] = list(groups.bands)
    if groups.rows is not None:
        labels = [label for _, label in groups.names[: groups.n_by_label]]
        fields |= {"names": list(range(len(groups.names))), "rows": list(groups.rows), "labels": labels}
    if groups.overlap is not None:
        every, frame, is_flag = groups.overlap
        fields["names"] = ["".join("01"[name in cell] for name in every) for cell in map(set, groups.names)]
        fields |= {"groups": list(every), "frame": None if frame is None else list(frame), "is_flag": list(is_flag)}
    return fields


def full_groups(stored: dict[str, Any]) -> Groups:
    """Return the groups that were flattened."""
    kind, names, bands = stored["kind"], stored["names"], stored.get("bands")
    if "rows" in stored:
        cells = tuple((row, label) for row in stored["rows"] for label in stored["labels"])
        return Groups(kind, cells, tuple(stored["bands"]), rows=tuple(stored["rows"]))
    if "groups" not in stored:
        return Groups(kind, tuple(names), None if bands is None else tuple(bands))
    every, frame = tuple(stored["groups"]), stored["frame"]
    cells = tuple(tuple(name for name, flag in zip(every, text, strict=True) if flag == "1") for text in names)
    overlap = Overlap(every, None if frame is None else tuple(frame), tuple(stored["is_flag"]))
    return Groups(kind, cells, overlap=overlap)


_ONE_GROUP = flat_groups(EVERYONE)  # as most calibrations have it: there is nothing to check

# Kinds of cells whose names are known.
_OWN_NAMES: dict[str, tuple[str, Callable[[list[Any], NDArray[Any]], bool]]] = {
    "all": ("its one group must be all", lambda names, _: names == ["all"]),
    "label": (
        "its groups by label must be its classes",
        lambda names, classes: store.same_values(names, classes.tolist()),
    ),
}


def check_stored_groups(path: str | Path, stored: store.Facts, classes: NDArray[Any]) -> Groups:
    """Return the groups; the names of those of labels must be the classes, one group must be called "all"."""
    if stored == _ONE_GROUP:
        return EVERYONE
    kind, names = stored.get("kind"), stored.get("names")
    is_list = isinstance(names, list) and len(names) > 0
    if not isinstance(kind, str) or kind not in KINDS or stored.keys() != KINDS[kind].stored or not is_list:
        *kinds, last = KINDS
        raise store.damaged(path, f"its groups must be of kind {', '.join(kinds)} or {last}, with names")
    store.check_stored_values(path, stored["names"], "groups")
    message, fits = _OWN_NAMES.get(kind, ("", lambda *_: True))
    if not fits(stored["names"], classes):
        raise store.damaged(path, message)
    if "rows" in stored:
        _check_stored_pairs(path, stored, len(classes))
    elif "bands" in stored:
        _check_stored_bands(path, stored["bands"], len(stored["names"]), len(classes))
    elif "groups" in stored:
        _check_stored_overlap(path, stored)
    return full_groups(stored)


def _check_stored_bands(path: str | Path, bands: Any, n_bands: int, n_classes: int) -> None:
    """Refuse bands that are not numbered in the order in which the classes have them."""
    is_list = isinstance(bands, list) and all(type(band) is int for band in bands)
    if not is_list or len(bands) != n_classes or list(dict.fromkeys(bands)) != list(range(n_bands)):
        raise store.damaged(path, f"its bands must number the {n_bands} bands of its {n_classes} classes")


def _check_stored_pairs(path: str | Path, stored: dict[str, Any], n_classes: int) -> None:
    """Refuse cells that are not those of every label, or band of labels, in every group of rows."""
    rows, labels = stored["rows"], stored["labels"]
    if not isinstance(rows, list) or not isinstance(labels, list):
        raise store.damaged(path, "its groups of rows and labels must be lists of both")
    for values, name in ((rows, "groups of rows"), (labels, "groups of labels")):
        store.check_stored_values(path, values, name)
    if stored["names"] != list(range(len(rows) * len(labels))):
        raise store.damaged(path, "its cells must number the labels of each of its groups of rows")
    _check_stored_bands(path, stored["bands"], len(labels), n_classes)


def _check_stored_overlap(path: str | Path, stored: dict[str, Any]) -> None:
    """Refuse combinations that are not of its groups, and columns that its groups do not come from."""
    every, frame, is_flag = stored["groups"], stored["frame"], stored["is_flag"]
    if not isinstance(every, list) or not 0 < len(every) <= MOST_INDICATORS:
        raise store.damaged(path, f"its overlapping groups must be 1 to {MOST_INDICATORS}")
    store.check_stored_values(path, every, "overlapping groups")
    digits = re.compile(f"[01]{{{len(every)}}}")
    if not all(isinstance(name, str) and digits.fullmatch(name) for name in stored["names"]):
        raise store.damaged(path, "its combinations must have a 0 or 1 for each of its overlapping groups")
    are_flags = isinstance(is_flag, list) and all(isinstance(flag, bool) for flag in is_flag)
    columns: Any = [] if frame is None else frame
    is_known = isinstance(columns, list) and (frame is None or len(columns) > 0)
    if not are_flags or not is_known or len(columns) != len(is_flag):
        raise store.damaged(path, "its overlapping groups must come from columns that are of flags or not")
    store.check_stored_values(path, columns, "columns of groups")


_LONGEST_CAVEAT = 1000


@dataclasses.dataclass(frozen=True)
class WithoutSplitter:
    """A scheme whose splitter was not saved: its folds are made, and what was said against them stays said."""

    scheme: Scheme
    caveat: str

    @property
    def name(self) -> str:
        """What people call it."""
        return self.scheme.name

    @property
    def combine(self) -> type[Tally]:
        """How what the folds say about a new row becomes one count."""
        return self.scheme.combine

    def folds(self, X: Any, y: NDArray[Any], generator: np.random.Generator) -> list[Fold]:
        """Refuse: what made the folds is not here."""
        raise TypeError(f"calibration must have its splitter to make folds; this {self.name} was read from a file.")

    def lines(self, sizes: FoldSizes) -> list[LinearBound]:
        """Return what the theorem says of such folds."""
        return self.scheme.lines(sizes)


def describe_scheme(scheme: Scheme) -> dict[str, Any]:
    """Return the name of a scheme of the library, its plain settings, and why nothing is promised, if that is so."""
    plain: Any = scheme.scheme if isinstance(scheme, WithoutSplitter) else scheme
    for name, kind in CALIBRATIONS.items():
        if type(plain) is kind:
            values = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
            settings = {key: value.item() if isinstance(value, np.generic) else value for key, value in values.items()}
            kept = {key: one for key, one in settings.items() if not store.unstorable([one])}  # all but a splitter
            return {"name": name, "settings": kept, "caveat": scheme.caveat}
    raise TypeError(
        f"calibration must be one of the library's to be saved; got {scheme!r}. Pickle keeps an object of your own, "
        "for the same versions of everything."
    )


def find_scheme(path: str | Path, stored: store.Facts, objects: Mapping[str, Any] | None = None) -> Scheme:
    """Return the scheme that was described, with settings that are objects if they are at hand."""
    name, settings, caveat = (stored.get(key) for key in ("name", "settings", "caveat"))
    if stored.keys() != {"name", "settings", "caveat"} or not isinstance(name, str) or not isinstance(settings, dict):
        raise store.damaged(path, "its scheme must have a name, settings and a caveat")
    if not isinstance(caveat, str) or len(caveat) > _LONGEST_CAVEAT or not caveat.isprintable():
        raise store.damaged(path, "the caveat of its scheme must be a line of text")
    if name not in CALIBRATIONS:
        raise store.unknown_kind(path, "scheme", name)
    try:
        scheme: Scheme = CALIBRATIONS[name](**settings, **(objects or {}))
    except TypeError as error:
        raise store.unknown_kind(path, f"setting of its scheme {name!r}", error) from error
    if store.unstorable(settings.values()) or (scheme.caveat and not objects):
        raise store.damaged(path, "the settings of its scheme must be texts, numbers, booleans or null")
    if objects:
        return scheme
    return WithoutSplitter(scheme, caveat) if caveat else scheme


def score_of_user(argument: str, name: str) -> Score:
    """Return the score at "module:object", found as one that an artefact names is; who names it trusts its module."""
    return find_score(argument, {"name": name, "settings": None}, trust=[name.partition(":")[0]])


class _Unseen:
    """Stands for a score of the user's own that only its name is wanted of."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def of(self, places: Any) -> Any:
        """Return something of the right shape."""
        return places.own


def described(path: Path) -> store.Facts:
    """Return what a stored calibration promises and what it was made from; no code of the user's is imported."""
    name = STORE.read(path)[0]["score"]["name"]  # of the score, which is never needed here
    fields, facts = read_calibration(path, {name: _Unseen} if ":" in name else None)
    held_out, scheme, kind = fields["held_out"], fields.get("scheme"), facts["groups"]["kind"]
    stored = facts["groups"]["names"] if held_out.groups.rows is None else held_out.groups.names  # pairs by number
    names = [", ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in stored]
    return {
        "file": str(path),
        **({} if scheme is None else {"calibration": scheme.name, "folds": len(fields["folds"])}),
        "score": facts["score"],
        "n": held_out.n,
        **({} if held_out.clusters is None else {"rows": held_out.rows, "clusters": held_out.clusters.nouns}),
        **_described_weights(facts, names),
        **({"alphas": [float(Fraction(level)) for level in facts["levels"]]} if "levels" in facts else {}),
        "classes": facts["classes"]["values"],
        "groups": {"kind": kind, "sizes": dict(zip(names, held_out.sizes.tolist(), strict=True))},
        "randomized": facts["randomized"],
        "promise": _promise(held_out, scheme, "" if kind == "all" else " in every group"),
        **({} if facts.get("weights") else {"smallest_alpha": 1 / (_fewest_rows(held_out) + 1)}),
        **{name: facts[name] for name in ("scores_hash", "library", "created", "format")},
    }


def _described_weights(facts: store.Facts, names: list[str]) -> store.Facts:
    """Return what an artefact says about weights, if it has any."""
    if facts.get("weights") is None:
        return {}
    ratios, sizes = facts["weights"]["ratios"], facts["weights"]["effective_size"]
    corrected = " with corrected columns" if facts["weights"]["prior_correction"] else ""
    size = sizes[0] if facts["groups"]["kind"] == "all" else dict(zip(names, sizes, strict=True))
    return {"weights": "of rows" if ratios is None else f"of labels{corrected}", "effective_size": size}


def _fewest_rows(held_out: Any) -> int:
    """Return the rows of the smallest group: of overlapping ones not that of a combination, which has no promise."""
    overlap = held_out.groups.overlap
    sizes = held_out.sizes if overlap is None else [*held_out.overlapping.sizes_of({*overlap.names}).values()]
    return int(min(sizes))


def _promise(held_out: Thresholds, scheme: Scheme | None, in_groups: str) -> str:
    """Say what a calibration promises: of several folds the bound at alpha = 0.1."""
    within = in_groups + promise_about(held_out.clusters)
    within += ", if the weights are right" if held_out.has_weights else ""
    if scheme is None:
        return f"coverage >= 1 - alpha{within}"
    promises, alpha = Promises.of(scheme, held_out), Fraction(1, 10)
    reason = promises.reason_of_nothing(alpha)
    return f"none, {reason}" if reason else f"coverage >= {float(promises.coverage(alpha)):.4g} at alpha = 0.1{within}"
