"""What a classifier has learned as plain values, for pickles, files of skops and folders, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from aptset import Gridded, LabelBands, Ordered, Prevalence, Tempered
from aptset.calibration.storage import chance_facts, find_scheme, flat_groups, full_groups
from aptset.calibration.stored_fields import cluster_facts, clusters_from, score_tensors, scores_from
from aptset.conformal import CALIBRATIONS
from aptset.conformal.scheme import Scheme, is_full
from aptset.core.groups import Groups, groups_labels, is_pair
from aptset.core.labels import columns_of
from aptset.core.levels import Assurance, check_assurance, check_level
from aptset.core.randomization import Randomization
from aptset.core.store import FORMAT, damaged
from aptset.estimator.columns import NamedColumns
from aptset.estimator.decisions import decisions_of
from aptset.estimator.fitted import Fitted, Rule
from aptset.estimator.full_conformal import FullModel, KernelDensityClassifier
from aptset.estimator.leave_one_out import LeaveOneOut, LeftOut, formulas
from aptset.estimator.models import LabelledModel, Member, check_full_model
from aptset.scores import SCORES as SCORES_BY_NAME
from aptset.scores import Score
from aptset.scores.conformity import describe_score, find_score

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
        **flat_features(rule.columns),
        "n_members": n_members,
        "models": [model.model if isinstance(model, LabelledModel) else model for model in models],
        "labels": [  # which of the classes a model's numbers stand for; None if it knows the labels themselves
            columns_of(model.labels, rule.classes).tolist() if isinstance(model, LabelledModel) else None
            for model in models
        ],
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
        if not _is_full_model(whole, len(tensors["judges"]), len(classes), n_cells):
            raise damaged(where, "its model must hold the rows of full conformal prediction")
    if clusters is not None:
        return Fitted(rule, clusters_from(where, clusters, tensors, groups), models, decisions_of(tensors))
    return Fitted(rule, scores_from(tensors, groups), models, decisions_of(tensors))


def flat_features(features: NamedColumns) -> dict[str, Any]:
    """Return the columns of the frame that came to fit, if one did."""
    return {"features": features.as_json()} if features.columns else {}


def check_left_out(where: str, whole: Any, n_models: int) -> None:
    """Refuse members without judges that are not models which leave one row out each."""
    whole = whole.model if isinstance(whole, LabelledModel) else whole
    is_whole = isinstance(whole, LeaveOneOut) and type(whole.model) in formulas()
    if not is_whole or not _is_left_out(whole, n_models):
        raise damaged(where, "its members must be models that leave one of its rows out each")
    try:
        _ = whole.formula
    except Exception as error:  # another version of scikit-learn, or numbers that nobody fitted
        raise ValueError(
            f"{where} has models that are worked out from their rows, and cannot be here: {error}. Fit it again."
        ) from error


def _is_left_out(whole: LeaveOneOut, n_models: int) -> bool:
    """Tell whether rows, labels and models of something that was read from a file go together."""
    n, y, rows = n_models, np.asarray(whole.y), np.asarray(whole.rows)
    are_numbers = y.shape == rows.shape == (n,) and y.dtype.kind == rows.dtype.kind == "i"
    is_matrix = getattr(whole.X, "shape", None) == (n, getattr(whole.model, "n_features_in_", None))
    labels = np.asarray(getattr(whole.model, "classes_", []))
    return bool(
        are_numbers
        and is_matrix
        and whole.X.dtype == np.float64
        and np.array_equal(np.sort(rows), np.arange(n))
        and np.array_equal(np.unique(y), labels)
        and np.array_equal(labels, np.arange(len(labels)))
    )


def _is_full_model(whole: Any, n_rows: int, n_classes: int, n_cells: int) -> bool:
    """Tell whether rows, labels and cells of something that was read from a file go together."""
    if not isinstance(whole, FullModel) or type(whole.model) not in (KNeighborsClassifier, KernelDensityClassifier):
        return False
    try:
        check_full_model(whole.model, n_rows, {})
    except (TypeError, ValueError):
        return False
    X, u = np.asarray(whole.X), whole.u
    whole_numbers = [np.asarray(values) for values in (whole.y, whole.cells)]
    return bool(
        X.shape == (n_rows, getattr(whole.model, "n_features_in_", None))
        and X.dtype == np.float64
        and all(values.shape == (n_rows,) and values.dtype == np.int64 for values in whole_numbers)
        and whole.n_classes == n_classes
        and all(
            ((values >= 0) & (values < most)).all()
            for values, most in zip(whole_numbers, (n_classes, n_cells), strict=True)
        )
        and np.asarray(whole.seeds).shape == (n_rows,)
        and np.asarray(whole.seeds).dtype == np.uint64
        and (u is None or (np.asarray(u).shape == (n_rows,) and np.asarray(u).dtype == np.float64))
    )


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
    return bands_of(groups, classes) if groups.by_label_alone and groups.bands is not None else stored


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
