"""A classifier on disk: a folder with a container of :mod:`aptset.core.store` and a file of models in skops format.

``classifier.aptset`` holds the fields of a calibration, the settings of the classifier, which class each number of a
model stands for (``labels``, ``label_counts`` of them for each model), and the name of the other file with the blake2b
of its bytes. ``models-*.skops`` holds a dictionary of the unfitted estimator, the fitted models and the settings of the
calibration that are objects. It carries its digest in its name, so that a folder is saved anew by replacing one file: a
kill at any moment leaves the old classifier or the new one.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from aptset.calibration.storage import check_stored_groups, common_facts, describe_scheme, find_scheme, read_common
from aptset.calibration.stored_fields import (
    CLUSTERS,
    COMMON,
    SCORES,
    cluster_facts,
    measure_fields,
    n_below,
    score_rules,
    sizes_of_groups,
)
from aptset.core.files import atomic_path, check_target_folder
from aptset.core.groups import groups_labels, is_pair
from aptset.core.store import (
    Facts,
    Field,
    Rules,
    Schema,
    Store,
    Tensor,
    Tensors,
    check_stored_labels,
    damaged,
    storable_labels,
    storable_value,
    unknown_kind,
    unstorable,
    write,
)
from aptset.estimator.columns import are_stored_features
from aptset.estimator.decisions import SIZES as DECISION_SIZES
from aptset.estimator.decisions import TENSORS as DECISION_TENSORS
from aptset.estimator.decisions import decision_rules
from aptset.estimator.fitted import Fitted
from aptset.estimator.state import flat_features, flat_level, flat_setting, flatten, full_level, rebuild
from aptset.estimator.stored_models import need_skops, read_models

FACTS = "classifier.aptset"
_DIGITS = 12  # of the digest in the name of a file of models
_ALWAYS = ("numpy", "scikit-learn", "skops")
_LIBRARIES = (*_ALWAYS, "xgboost", "lightgbm", "catboost")


def _sizes(facts: Facts, names: Any) -> dict[str, int]:
    """Return the sizes of a classifier's tensors: a fold has a model, unless models judge together."""
    folds = {} if "judges" in names else {"folds": facts["n_members"] or facts["n_models"]}
    models = {"models": facts["n_members"] or facts["n_models"], "models kept": facts["n_models"]}
    return {**sizes_of_groups(facts, names), **models, **folds, **DECISION_SIZES}


def _rules(facts: Facts, tensors: Tensors) -> Rules:
    counts, labels = tensors["label_counts"], tensors["labels"]
    return {
        **score_rules(facts, tensors),
        "it must have labels for each model": lambda: (
            ((counts >= -1) & (counts != 0) & (counts <= len(labels))).all()
            and int(np.maximum(counts, 0).sum()) == len(labels)
        ),
        "its members must be those of one model": lambda: facts["n_members"] == 0 or facts["n_models"] == 1,
        "its labels must be among the classes": lambda: (
            (labels >= 0) & (labels < len(facts["classes"]["values"]))
        ).all(),
        **decision_rules(tensors, facts["n"], len(facts["classes"]["values"]), len(facts["groups"]["names"])),
    }


def _is_file(stored: Facts) -> bool:
    name = stored.get("name")
    return isinstance(name, str) and re.fullmatch(rf"models-[0-9a-f]{{{_DIGITS}}}\.skops", name) is not None


def _are_two_counts(stored: list[Any]) -> bool:
    are_counts = all(isinstance(count, int) and count >= 0 for count in stored)
    return are_counts and len(stored) == 2 and stored[0] <= stored[1]


STORE = Store(
    {
        "classifier": Schema(
            {
                **COMMON,
                "n": n_below(2**31),
                **CLUSTERS,
                "features": Field(
                    dict | None,
                    "its features must have a name and a type each",
                    lambda stored: stored is None or are_stored_features(stored),
                    optional=True,
                ),
                "scheme": Field(dict),
                "settings": Field(dict),
                "group_setting": Field(str | int | list | None),
                "known_classes": Field(dict | None),
                "unseen_label_chance": Field(
                    int | float, "its unseen_label_chance must be in [0, 1]", lambda share: 0 <= share <= 1
                ),
                "training_rows": Field(
                    list | None, "its training_rows must be two whole numbers", _are_two_counts, optional=True
                ),
                "n_models": Field(int, "it must have a model", lambda n: n > 0),
                "n_members": Field(int, "its n_members must be 0 or more", lambda n: n >= 0),
                "table": Field(dict | None),
                "versions": Field(
                    dict,
                    "its versions must be texts",
                    lambda stored: all(isinstance(value, str | None) for value in stored.values()),
                ),
                "models": Field(dict, "it names no file of models", _is_file),
            },
            {
                **{name: tensor for name, tensor in SCORES.items() if name != "weights"},
                "labels": Tensor("I64", ("labels of models",)),
                "label_counts": Tensor("I64", ("models kept",)),
                **DECISION_TENSORS,
            },
            _sizes,
            _rules,
        )
    },
    "kind",
    brackets=2**18,  # a table has two pairs for each column
)


def save_classifier(classifier: Any, folder: Path, table: dict[str, Any] | None = None) -> list[str]:
    """Write a folder; return the names of its files. ``table`` says how rows of a file become rows of X."""
    skops = need_skops()
    check_target_folder(folder)
    settings = classifier.get_params(deep=False)
    _check_saveable(settings)
    scheme, state = classifier.fitted_.rule.scheme, flatten(classifier.fitted_)
    described = describe_scheme(scheme)
    objects = {field.name: getattr(scheme, field.name) for field in fields(scheme)}
    models = {
        "estimator": settings.pop("estimator"),
        "models": state["models"],
        "calibration": {name: value for name, value in objects.items() if name not in described["settings"]},
    }
    try:
        content = skops.dumps(models)
    except RecursionError as error:
        raise ValueError(
            "the classifier cannot be saved: an object in it refers to itself, as requests of metadata routing do "
            "(set_fit_request and the like). Make the model without such requests, fit it again and save that."
        ) from error
    digest = blake2b(content, digest_size=16).hexdigest()
    name = f"models-{digest[:_DIGITS]}.skops"
    facts = {
        **_describe(classifier.fitted_, state, settings),
        "scheme": described,
        "table": table,
        "models": {"name": name, "digest": digest},
    }
    _write(folder, name, content, facts, {**state["tensors"], **_label_tensors(state["labels"])})
    return [FACTS, name]


def _check_saveable(settings: dict[str, Any]) -> None:
    """Refuse what has no name under which it could be found again."""
    if settings.get("weights") is not None:
        raise TypeError(
            f"weights must be None for a classifier to be saved: a function cannot be; got {settings['weights']!r}. "
            "Save calibration_, which keeps the weights of its rows, or pickle the classifier."
        )
    for name in settings.keys() - {"estimator", "calibration", "conformity", "classes", "random_state"}:
        value = settings[name]
        if name == "groups" and (groups_labels(value) or is_pair(value)):  # labels are among the groups
            value = value[0] if is_pair(value) else None
        if name == "alpha" and isinstance(value, Mapping):
            value = next(iter(unstorable(value)), None)
        if name == "assurance":
            continue
        if unstorable([value.item() if isinstance(value, np.generic) else value]):
            raise TypeError(
                f"{name} must be a text, a number, a boolean or None to be saved; got {value!r}. "
                + ("Pass the groups to fit and predict_set instead." if name == "groups" else "Set it after load.")
            )


def _describe(fitted: Fitted, state: dict[str, Any], settings: dict[str, Any]) -> Facts:
    """Return what was learned, and the settings, as plain values."""
    rule, classes = fitted.rule, settings.pop("classes")
    settings["groups"] = flat_setting(settings["groups"])
    settings |= flat_level({"assurance": settings.pop("assurance"), "alpha": settings["alpha"]})
    settings.pop("weights")  # None: a classifier with weights cannot be saved
    for name in ("calibration", "conformity"):  # null: an object, which is described below
        settings[name] = settings[name] if isinstance(settings[name], str) else None
    if not isinstance(settings["random_state"], int | np.integer):
        settings["random_state"] = None  # a generator; what it drew is in the key and in the models
    _, of_measure, _ = measure_fields(fitted.held_out)
    return {
        **common_facts(rule.score, rule.classes, fitted.held_out, rule.key, rule.chance),
        "n": of_measure["n"],
        **cluster_facts(fitted.held_out),
        **flat_features(rule.columns),
        "scores_hash": of_measure["scores_hash"],
        "settings": {name: _plain(value) for name, value in settings.items()},
        "group_setting": _plain(state["group_setting"]),
        "known_classes": None if classes is None else storable_labels(np.asarray(classes)),
        "unseen_label_chance": state["unseen_label_chance"],
        "training_rows": state["training_rows"],
        "n_models": len(state["models"]),
        "n_members": state["n_members"],
        "versions": {"python": platform.python_version(), **_versions_of(fitted.models)},
    }


def _versions_of(models: Sequence[Any]) -> dict[str, str | None]:
    """Return the versions of what opens the models, and of those libraries that the models come from."""
    values = [value for model in models[:1] for value in (model, *getattr(model, "get_params", dict)().values())]
    used = {type(value).__module__.split(".")[0] for value in values}
    return {name: _version(name) for name in _LIBRARIES if name in _ALWAYS or name in used}


def _plain(value: Any) -> Any:
    """Return a setting as JSON has it: a plain value, or a list of them."""
    return [_plain(part) for part in value] if isinstance(value, list) else storable_value(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _label_tensors(labels: list[list[int] | None]) -> Tensors:
    """Return which class each number of a model stands for; one that knows the labels themselves has a length of -1."""
    lengths = [-1 if columns is None else len(columns) for columns in labels]
    joined = [column for columns in labels for column in columns or []]
    return {"labels": np.array(joined, dtype=np.int64), "label_counts": np.array(lengths, dtype=np.int64)}


def _write(folder: Path, name: str, models: bytes, facts: Facts, tensors: Tensors) -> None:
    """Write the models, then the container that names them, then sweep; a failure takes its own files away."""
    is_new, before = not folder.exists(), _model_files(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_path(folder / name, called="models") as path:
            path.write_bytes(models)
        write(folder / FACTS, "classifier", facts, tensors)
    except BaseException:
        if not _is_named(folder, name):  # a signal may come when all is done
            _sweep(_model_files(folder) - before)
            if is_new:
                with suppress(OSError):  # somebody may have put a file there
                    folder.rmdir()
        raise
    _sweep(_model_files(folder) - {folder / name})


def _is_named(folder: Path, name: str) -> bool:
    """Tell whether the classifier in a folder has these models."""
    try:
        return bool(STORE.read(folder / FACTS)[0]["models"]["name"] == name)
    except (OSError, ValueError):
        return False


def _model_files(folder: Path) -> set[Path]:
    """Return the files of ours in a folder: those that carry a digest. A models-old.skops beside them is the user's."""
    return {*folder.glob(f"models-{'[0-9a-f]' * _DIGITS}.skops")}


def _sweep(paths: Iterable[Path]) -> None:
    """Remove files that no classifier names any more; one that cannot be removed harms nobody."""
    for path in paths:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def read_folder(folder: Path) -> tuple[Facts, Tensors]:
    """Return the checked facts and tensors of a folder; its score and its models are found by ``load_folder``."""
    if not (folder / FACTS).exists():
        raise FileNotFoundError(f"{folder} must be the folder of a classifier; it holds no {FACTS}.")
    facts, tensors = STORE.read(folder / FACTS, folder)
    check_stored_groups(folder, facts["groups"], check_stored_labels(folder, facts["classes"], "classes"))
    return facts, tensors


def check_table(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return how rows of a file become rows of X; refuse a folder that does not say."""
    table = facts["table"]
    if table is None:
        raise ValueError(
            f"{folder} does not say which columns of a file its model takes: it was saved from Python. Load it there, "
            "with aptset.load, or make a folder with `aptset run`."
        )
    columns = table.get("columns")
    wanted = {"name", "kind", "values", "missing", "left_out", "format"}
    if table.keys() - {"dialect"} != {"target", "columns", "groups", "id"} or not isinstance(columns, list):
        raise unknown_kind(folder, "description of its table", sorted(table))
    for column in columns:
        if not isinstance(column, dict) or column.keys() != wanted:
            raise unknown_kind(folder, "description of a column", column)
        if column["kind"] not in ("number", "category", "date", "text"):
            raise unknown_kind(folder, "kind of column", column["kind"])
    dialect = table.get("dialect", {"separator": ",", "encoding": "utf-8"})
    if not isinstance(dialect, dict) or {*map(type, dialect.values())} != {str} or len(dialect) != 2:
        raise unknown_kind(folder, "dialect of its table", dialect)
    return {**table, "dialect": dialect}


def load_folder(
    folder: Path, scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> tuple[Any, Facts]:
    """Return a classifier and the facts of its folder."""
    from aptset import ConformalClassifier  # which knows this module

    trust = [trust] if isinstance(trust, str) else list(trust)
    facts, tensors = read_folder(folder)
    try:
        common = read_common(folder, facts, scores, trust)
        settings = _check_settings(folder, facts, ConformalClassifier._get_param_names())
        models = read_models(folder, _model_bytes(folder, facts["models"]), facts, trust)
        scheme = find_scheme(folder, facts["scheme"], models["calibration"])
    except (ValueError, FileNotFoundError):
        if read_folder(folder)[0]["models"] == facts["models"]:
            raise
        return load_folder(folder, scores, trust)  # it was saved anew in the meantime
    counts = tensors.pop("label_counts").tolist()
    labels = np.split(tensors.pop("labels"), np.cumsum(np.maximum(counts, 0))[:-1])
    state = {
        **facts,
        **models,
        "scheme": scheme,
        "score": common.score,
        "classes": common.classes,
        "tensors": tensors,
        "labels": [None if count < 0 else part for part, count in zip(labels, counts, strict=True)],
    }
    fitted = rebuild(state, str(folder))
    for name, value in (("calibration", scheme), ("conformity", common.score)):
        settings[name] = value if settings[name] is None else settings[name]
    if common.groups.bands is not None:
        settings["groups"] = fitted.rule.group_setting
    settings |= full_level(settings, str(folder))
    return ConformalClassifier(models["estimator"], **settings)._keep(fitted), facts


def _model_bytes(folder: Path, stored: Facts) -> bytes:
    """Return what stands in the file of models, which must match its digest."""
    path = folder / stored["name"]
    if not path.is_file():
        raise damaged(folder, f"{stored['name']} is missing")
    content: bytes = path.read_bytes()
    if blake2b(content, digest_size=16).hexdigest() != stored.get("digest"):
        raise damaged(folder, f"{stored['name']} does not match its digest")
    return content


def _check_settings(folder: Path, facts: Facts, known: Iterable[str]) -> dict[str, Any]:
    """Return the settings of the constructor but for the estimator, which is among the models."""
    settings = dict(facts["settings"])
    unknown = sorted(settings.keys() - (set(known) - {"estimator"}))
    if unknown:
        raise unknown_kind(folder, "setting", unknown[0])
    if not {"calibration", "conformity"} <= settings.keys():
        raise damaged(folder, "its settings are incomplete")
    if facts["known_classes"] is not None:
        settings["classes"] = check_stored_labels(folder, facts["known_classes"], "known classes")
    return settings
