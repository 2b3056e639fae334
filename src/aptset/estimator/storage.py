"""A classifier on disk: a folder with its facts as JSON, its scores as safetensors and its models in skops format.

Layout, format 1. ``aptset.json`` names everything: settings, classes, groups, the score, the calibration, and the two
other files with the blake2b of their bytes. ``scores-*.safetensors`` holds the tensors ``scores``, ``offsets``,
``labels``, ``label_counts`` and, where several models judge a row together, ``judges``; ``models-*.skops`` a dictionary
of the unfitted estimator, the fitted models and the settings of the calibration. The two carry their digest in their
names, so that a folder is saved anew by replacing one small file: a kill at any moment leaves the old classifier or the
new one.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.storage import as_plain_labels, plain_groups, plain_value
from aptset.calibration.stored_checks import unknown_kind
from aptset.calibration.stored_fields import weights_of
from aptset.calibration.stored_scores import describe_score, find_score
from aptset.conformal import CALIBRATIONS
from aptset.conformal.fold_scores import FoldScores
from aptset.conformal.measure import Measure
from aptset.conformal.scheme import Scheme
from aptset.conformal.weights import Scale
from aptset.core.bands import LabelBands
from aptset.core.files import atomic_path, atomic_write, check_target_folder
from aptset.core.groups import Groups, flat_groups, full_groups, groups_labels
from aptset.core.labels import columns_of
from aptset.core.randomization import Chance
from aptset.estimator.encoding import LabelledModel
from aptset.estimator.ensembles import Member
from aptset.estimator.fitted import Fitted, Rule
from aptset.estimator.folders import check_saveable, digest_of_facts
from aptset.estimator.stored_models import need_skops
from aptset.scores import SCORES, Gridded, Prevalence, Score, Tempered

FORMAT_VERSION = 1
STATE = "state of aptset"  # where a pickle or a skops file keeps it, instead of objects of ours


def flatten(fitted: Fitted) -> dict[str, Any]:
    """Return all of it without an object of ours; a scheme or a score of the user's own stays as it is."""
    rule, held_out = fitted.rule, fitted.held_out
    models, n_members = fitted.models, 0
    if models and isinstance(models[0], Member):  # of one ensemble, which is kept once
        models, n_members = [models[0].ensemble], len(models)
    return {
        "format": FORMAT_VERSION,
        "scheme": flat_scheme(rule.scheme),
        "score": flat_score(rule.score),
        "key": str(rule.key),
        "u": rule.chance.source,
        "randomized": rule.chance.randomized,
        "copies": float(rule.chance.copies),
        "group_setting": None if groups_labels(rule.group_setting) else rule.group_setting,
        "groups": flat_groups(rule.groups),
        "classes": rule.classes,
        "unseen_label_chance": float(rule.unseen_label_chance),
        "scores": np.concatenate([fold.scores for fold in held_out.folds]),
        "offsets": np.array([fold.offsets for fold in held_out.folds], dtype=np.int64),
        "judges": held_out.judges,
        "weights": weights_of(held_out) if held_out.is_weighted else None,
        "weighing": rule.weighing,
        "n_members": n_members,
        "models": [model.model if isinstance(model, LabelledModel) else model for model in models],
        "labels": [_columns_of_model(model, rule.classes) for model in models],
    }


def rebuild(state: dict[str, Any], where: str = "this state") -> Fitted:
    """Return what was flattened."""
    classes: NDArray[Any] = state["classes"]
    groups = full_groups(state["groups"])
    setting = bands_of(groups, classes) if groups.kind == "band" else state["group_setting"]
    chance = Chance(state["u"], bool(state["randomized"]), float(state["copies"]))
    scheme, score = full_scheme(state["scheme"], where), full_score(state["score"], where)
    unseen = float(state["unseen_label_chance"])
    rule = Rule(scheme, score, int(state["key"]), chance, setting, groups, classes, unseen, state.get("weighing"))
    held_out = _scores_of(state, groups)
    models = [
        model if columns is None else LabelledModel(model, classes[np.asarray(columns, dtype=np.intp)])
        for model, columns in zip(state["models"], state["labels"], strict=True)
    ]
    if state["n_members"]:
        models = [Member(models[0], number) for number in range(state["n_members"])]
    return Fitted(rule, held_out, models)


def _scores_of(state: dict[str, Any], groups: Groups) -> Measure:
    """Return the scores of all folds, with their weights if there are any."""
    starts = np.cumsum(state["offsets"][:, -1])[:-1]
    parts, weights = np.split(state["scores"], starts), state.get("weights")
    for scores in parts:
        scores.flags.writeable = False
    if weights is None:
        folds = tuple(FoldScores(*fold, groups) for fold in zip(parts, state["offsets"], strict=True))
        return Measure(folds, groups, state["judges"])
    of_folds, scale = zip(parts, state["offsets"], np.split(weights, starts), strict=True), Scale.of(weights)
    return Measure(
        tuple(FoldScores(part, offsets, groups, True, mass, scale) for part, offsets, mass in of_folds), groups
    )


def _columns_of_model(model: Any, classes: NDArray[Any]) -> list[int] | None:
    """Return which of the classes a model's numbers stand for; None if it knows the labels themselves."""
    return columns_of(model.labels, classes).tolist() if isinstance(model, LabelledModel) else None


def bands_of(groups: Groups, classes: NDArray[Any]) -> LabelBands:
    """Return the setting that labels and their bands stand for."""
    assert groups.bands is not None
    return LabelBands(dict(zip(classes.tolist(), [groups.names[band] for band in groups.bands], strict=True)))


def flat_scheme(scheme: Any) -> Any:
    """Return the name and the settings of a scheme of the library; anything else as it is."""
    for name, kind in CALIBRATIONS.items():
        if type(scheme) is kind:
            return {"name": name, "settings": {field.name: getattr(scheme, field.name) for field in fields(scheme)}}
    return scheme


def full_scheme(stored: Any, where: str) -> Scheme:
    """Return the scheme that was flattened."""
    if not isinstance(stored, dict):
        found: Scheme = stored
        return found
    if stored["name"] not in CALIBRATIONS:
        raise unknown_kind(where, "calibration", stored["name"])
    try:
        return CALIBRATIONS[stored["name"]](**stored["settings"])
    except TypeError as error:
        raise unknown_kind(where, f"setting of its calibration {stored['name']!r}", error) from error


def flat_score(score: Any) -> Any:
    """Return the name and the settings of a score of the library; anything else as it is."""
    inner = score
    while isinstance(inner, Tempered | Gridded):
        inner = inner.score
    return describe_score(score) if type(inner) in (*SCORES.values(), Prevalence) else score


def full_score(stored: Any, where: str) -> Score:
    """Return the score that was flattened."""
    if isinstance(stored, dict):
        return find_score(where, stored)
    found: Score = stored
    return found


FACTS = "aptset.json"
_DIGITS = 12  # of the digest in a name
_LIBRARIES = ("numpy", "scikit-learn", "skops", "xgboost", "lightgbm", "catboost")


def save_classifier(classifier: Any, folder: Path, table: dict[str, Any] | None = None) -> list[str]:
    """Write a folder; return the names of its files. ``table`` says how rows of a file become rows of X."""
    skops = need_skops()
    check_target_folder(folder)
    state = flatten(classifier.fitted_)
    settings = classifier.get_params(deep=False)
    check_saveable(state, settings)
    models = {
        "estimator": settings.pop("estimator"),
        "models": state.pop("models"),
        "calibration": state["scheme"]["settings"],
    }
    facts = _describe(classifier, state, settings, table)
    contents = {
        "scores": _File.of("scores", ".safetensors", _tensors(state)),
        "models": _File.of("models", ".skops", skops.dumps(models)),
    }
    facts["files"] = {what: {"name": file.name, "digest": file.digest} for what, file in contents.items()}
    facts["digest"] = digest_of_facts(facts)
    text = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False).encode()
    _write(folder, list(contents.values()), text)
    return [FACTS, *(file.name for file in contents.values())]


class _File(NamedTuple):
    """A file whose name holds its digest."""

    name: str
    digest: str
    content: bytes

    @classmethod
    def of(cls, what: str, ending: str, content: bytes) -> _File:
        digest = blake2b(content, digest_size=16).hexdigest()
        return cls(f"{what}-{digest[:_DIGITS]}{ending}", digest, content)


def _write(folder: Path, files: list[_File], facts: bytes) -> None:
    """Write the large files, then the small one that names them, then sweep; a failure takes its own files away."""
    is_new, before = not folder.exists(), _large_files(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for file in files:
            with atomic_path(folder / file.name, called=file.name.partition("-")[0]) as path:
                path.write_bytes(file.content)
        with atomic_write(folder / FACTS) as stream:
            stream.write(facts)
    except BaseException:
        if not _holds(folder / FACTS, facts):  # a signal may come when all is done
            _sweep(_large_files(folder) - before)
            if is_new:
                with suppress(OSError):  # somebody may have put a file there
                    folder.rmdir()
        raise
    _sweep(_large_files(folder) - {folder / file.name for file in files})


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def _large_files(folder: Path) -> set[Path]:
    """Return the files of ours in a folder: those that carry a digest. A models-old.skops beside them is the user's."""
    digest = "[0-9a-f]" * _DIGITS
    return {*folder.glob(f"scores-{digest}.safetensors"), *folder.glob(f"models-{digest}.skops")}


def _sweep(paths: Iterable[Path]) -> None:
    """Remove files that no classifier names any more; one that cannot be removed harms nobody."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _describe(
    classifier: Any, state: dict[str, Any], settings: dict[str, Any], table: dict[str, Any] | None
) -> dict[str, Any]:
    classes, groups = settings.pop("classes"), state["groups"]
    settings["groups"] = None if groups_labels(settings["groups"]) else settings["groups"]  # the groups below say it
    settings.pop("weights")  # None: a classifier with weights cannot be saved
    for name in ("calibration", "conformity"):  # null: an object, which is described below
        settings[name] = settings[name] if isinstance(settings[name], str) else None
    if not isinstance(settings["random_state"], int | np.integer):
        settings["random_state"] = None  # a generator; what it drew is in the key and in the models
    return {
        "format": FORMAT_VERSION,
        "kind": "classifier",
        "settings": {name: plain_value(value) for name, value in settings.items()},
        "scheme": state["scheme"]["name"],
        "score": describe_score(classifier.fitted_.rule.score),
        "key": state["key"],
        "u": state["u"],
        "randomized": state["randomized"],
        "copies": state["copies"],
        "group_setting": plain_value(state["group_setting"]),
        "groups": plain_groups(groups),
        "classes": as_plain_labels(state["classes"]),
        "known_classes": None if classes is None else as_plain_labels(np.asarray(classes)),
        "unseen_label_chance": state["unseen_label_chance"],
        "n": len(state["scores"]),
        "n_models": len(state["labels"]),
        "n_members": state["n_members"],
        "table": table,
        "library": version("aptset"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _LIBRARIES}},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tensors(state: dict[str, Any]) -> bytes:
    """Return scores, where groups start in each fold, and which class each number of a model stands for."""
    from safetensors.numpy import save

    # A model that knows the labels themselves has a length of -1.
    lengths = [-1 if columns is None else len(columns) for columns in state["labels"]]
    labels = [column for columns in state["labels"] for column in columns or []]
    tensors: dict[str, NDArray[Any]] = {
        "scores": np.ascontiguousarray(state["scores"]),
        "offsets": np.ascontiguousarray(state["offsets"]),
        "labels": np.array(labels, dtype=np.int64),
        "label_counts": np.array(lengths, dtype=np.int64),
    }
    if state["judges"] is not None:
        tensors["judges"] = np.ascontiguousarray(state["judges"], dtype=np.bool_)
    content: bytes = save(tensors)
    return content
