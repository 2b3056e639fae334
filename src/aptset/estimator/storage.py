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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Gridded, LabelBands, Ordered, Prevalence, Tempered
from aptset.calibration.storage import (
    chance_facts,
    check_stored_groups,
    common_facts,
    describe_scheme,
    describe_score,
    find_scheme,
    find_score,
)
from aptset.calibration.stored_fields import (
    CLUSTERS,
    COMMON,
    SCORES,
    cluster_facts,
    clusters_from,
    measure_fields,
    n_below,
    score_rules,
    score_tensors,
    scores_from,
    sizes_of_groups,
)
from aptset.conformal import CALIBRATIONS
from aptset.conformal.scheme import Scheme, is_full
from aptset.core.files import atomic_path, check_target_folder
from aptset.core.groups import Groups, flat_groups, full_groups, groups_labels, is_pair
from aptset.core.labels import columns_of
from aptset.core.levels import Assurance, check_assurance, check_level
from aptset.core.randomization import Randomization
from aptset.core.store import (
    FORMAT,
    Facts,
    Field,
    Rules,
    Schema,
    Store,
    Tensor,
    Tensors,
    check_stored_labels,
    damaged,
    is_storable,
    plain_labels,
    plain_value,
    unknown_kind,
    write,
)
from aptset.estimator.decisions import SIZES as DECISION_SIZES
from aptset.estimator.decisions import TENSORS as DECISION_TENSORS
from aptset.estimator.decisions import decision_rules, decisions_of
from aptset.estimator.encoding import LabelledModel
from aptset.estimator.fitted import Fitted, Rule
from aptset.estimator.full_conformal import is_consistent as full_is_consistent
from aptset.estimator.learning import Member
from aptset.estimator.leave_one_out import LeaveOneOut, LeftOut, formulas, is_consistent
from aptset.estimator.named_columns import NamedColumns, are_stored_features
from aptset.estimator.stored_models import need_skops
from aptset.scores import SCORES as SCORES_BY_NAME
from aptset.scores import Score

STATE = "state of aptset"  # where a pickle or a skops file keeps it, instead of objects of ours


def flatten(fitted: Fitted) -> dict[str, Any]:
    """Return all of it without an object of ours; a scheme or a score of the user's own stays as it is."""
    rule = fitted.rule
    models, n_members = fitted.models, 0
    if models and isinstance(models[0], Member):  # of one ensemble, which is kept once
        models, n_members = [models[0].ensemble], len(models)
    if models and isinstance(models[0], LeftOut):  # of one formula, which is kept once
        models, n_members = [models[0].whole], len(models)
    return {
        "format": FORMAT,
        "scheme": flat_scheme(rule.scheme),
        "score": flat_score(rule.score),
        "key": str(rule.key),
        **chance_facts(rule.chance),
        "group_setting": flat_setting(rule.group_setting),
        "groups": flat_groups(rule.groups),
        "classes": rule.classes,
        "unseen_label_chance": float(rule.unseen_label_chance),
        "training_rows": None if rule.training_rows is None else list(rule.training_rows),
        "tensors": {
            **score_tensors(fitted.held_out),
            **({} if fitted.decisions is None else fitted.decisions.tensors()),
        },
        **cluster_facts(fitted.held_out),
        "weighing": rule.weighing,
        **_flat_features(rule.columns),
        "n_members": n_members,
        "models": [model.model if isinstance(model, LabelledModel) else model for model in models],
        "labels": [_columns_of_model(model, rule.classes) for model in models],
    }


def rebuild(state: dict[str, Any], where: str = "this state") -> Fitted:
    """Return what was flattened."""
    classes: NDArray[Any] = state["classes"]
    groups = full_groups(state["groups"])
    setting = full_setting(state["group_setting"], groups, classes)
    chance = Randomization(state["u"], bool(state["randomized"]), float(state["copies"]))
    scheme, score = full_scheme(state["scheme"], where), full_score(state["score"], where)
    unseen = float(state["unseen_label_chance"])
    clusters = state.get("clusters")
    rule = Rule(scheme, score, int(state["key"]), chance, setting, groups, classes, unseen, state.get("weighing"))
    features = NamedColumns.of_json(state["features"]) if state.get("features") else NamedColumns()
    trained = state.get("training_rows")
    trained = None if trained is None else (int(trained[0]), int(trained[1]))
    rule = replace(rule, cluster_column=clusters and clusters["column"], columns=features, training_rows=trained)
    models = [
        model if columns is None else LabelledModel(model, classes[np.asarray(columns, dtype=np.intp)])
        for model, columns in zip(state["models"], state["labels"], strict=True)
    ]
    tensors = state["tensors"]
    if state["n_members"]:
        kind = Member if "judges" in tensors else LeftOut
        if kind is LeftOut:
            check_left_out(where, models[0], state["n_members"])
        models = [kind(models[0], number) for number in range(state["n_members"])]
    if is_full(scheme) and models:
        n_cells, whole = len(groups.names), getattr(models[0], "model", None)
        if not full_is_consistent(whole, len(tensors["judges"]), len(classes), n_cells):
            raise damaged(where, "its model must hold the rows of full conformal prediction")
    if clusters is not None:
        return Fitted(rule, clusters_from(where, clusters, tensors, groups), models, decisions_of(tensors))
    return Fitted(rule, scores_from(tensors, groups), models, decisions_of(tensors))


def _flat_features(features: NamedColumns) -> dict[str, Any]:
    """Return the columns of the frame that came to fit, if one did."""
    return {"features": features.as_json()} if features.columns else {}


def check_left_out(where: str, whole: Any, n_models: int) -> None:
    """Refuse members without judges that are not models which leave one row out each."""
    whole = whole.model if isinstance(whole, LabelledModel) else whole
    is_whole = isinstance(whole, LeaveOneOut) and type(whole.model) in formulas()
    if not is_whole or not is_consistent(whole, n_models):
        raise damaged(where, "its members must be models that leave one of its rows out each")
    try:
        _ = whole.formula
    except Exception as error:  # another version of scikit-learn, or numbers that nobody fitted
        raise ValueError(
            f"{where} has models that are worked out from their rows, and cannot be here: {error}. Fit it again."
        ) from error


def _columns_of_model(model: Any, classes: NDArray[Any]) -> list[int] | None:
    """Return which of the classes a model's numbers stand for; None if it knows the labels themselves."""
    return columns_of(model.labels, classes).tolist() if isinstance(model, LabelledModel) else None


def flat_setting(setting: Any) -> Any:
    """Return a setting of groups without bands of labels, which the groups themselves say."""
    if is_pair(setting):
        return [setting[0], None if groups_labels(setting[1]) else setting[1]]
    return None if groups_labels(setting) else setting


def full_setting(stored: Any, groups: Groups, classes: NDArray[Any]) -> Any:
    """Return the setting that was flattened."""
    if isinstance(stored, list):
        of_rows, of_labels = stored
        return of_rows, bands_of(groups, classes) if of_labels is None else of_labels
    return bands_of(groups, classes) if groups.kind == "band" else stored


def bands_of(groups: Groups, classes: NDArray[Any]) -> LabelBands:
    """Return the setting that labels and their bands stand for."""
    assert groups.bands is not None
    names = groups.names if groups.rows is None else [label for _, label in groups.names]
    return LabelBands(dict(zip(classes.tolist(), [names[band] for band in groups.bands], strict=True)))


def flat_level(settings: dict[str, Any]) -> dict[str, Any]:
    """Return alpha and assurance as plain values; an assurance that nobody asked for is left out, as it always was."""
    alpha, sure = settings["alpha"], check_assurance(settings["assurance"])
    of_level: dict[str, Any] = {"alpha": alpha}
    if isinstance(alpha, Mapping):
        of_level["alpha"] = [[name, float(part)] for name, part in alpha.items()]
    return of_level if sure is None else {**of_level, "assurance": [float(sure.confidence), sure.simultaneous]}


def full_level(settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the alpha and the assurance that were flattened."""
    alpha, sure = settings.get("alpha", 0.1), settings.get("assurance")
    try:
        if isinstance(alpha, list):
            check_level(alpha := dict(map(tuple, alpha)))
        sure = sure if sure is None else Assurance(*sure)
    except (TypeError, ValueError) as error:
        raise damaged(
            where, "its alpha and its assurance must be numbers in (0, 1), or a level for each name"
        ) from error
    return {"alpha": alpha, "assurance": sure}


def flat_scheme(scheme: Any) -> Any:
    """Return the name and the settings of a scheme of the library; anything else as it is."""
    for name, kind in CALIBRATIONS.items():
        if type(scheme) is kind:
            return {"name": name, "settings": {field.name: getattr(scheme, field.name) for field in fields(scheme)}}
    return scheme


def full_scheme(stored: Any, where: str) -> Scheme:
    """Return the scheme that was flattened."""
    if isinstance(stored, dict):
        return find_scheme(where, {"name": stored["name"], "settings": {}, "caveat": ""}, stored["settings"])
    scheme: Scheme = stored
    return scheme


def flat_score(score: Any) -> Any:
    """Return the name and the settings of a score of the library; anything else as it is."""
    inner = score
    while isinstance(inner, Tempered | Gridded):
        inner = inner.score
    return describe_score(score) if type(inner) in (*SCORES_BY_NAME.values(), Ordered, Prevalence) else score


def full_score(stored: Any, where: str) -> Score:
    """Return the score that was flattened."""
    if isinstance(stored, dict):
        return find_score(where, stored)
    score: Score = stored
    return score


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


def _are_two_counts(stored: Any) -> bool:
    are_counts = stored is None or all(isinstance(count, int) and count >= 0 for count in stored)
    return are_counts and (stored is None or (len(stored) == 2 and stored[0] <= stored[1]))


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
            value = next((part for part in value if not is_storable(part)), None)
        if name == "assurance":
            continue
        if not is_storable(value.item() if isinstance(value, np.generic) else value):
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
        **_flat_features(rule.columns),
        "scores_hash": of_measure["scores_hash"],
        "settings": {name: _plain(value) for name, value in settings.items()},
        "group_setting": _plain(state["group_setting"]),
        "known_classes": None if classes is None else plain_labels(np.asarray(classes)),
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
    return [_plain(part) for part in value] if isinstance(value, list) else plain_value(value)


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
