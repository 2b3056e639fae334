"""What a fitted classifier has learned, as plain values, arrays and models: how it travels, and what is saved.

The names below are format 1. They are never renamed; what a later version adds has a default here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations import CALIBRATIONS
from aptset.calibrations.held_out import FoldScores, HeldOut
from aptset.calibrations.scheme import Scheme
from aptset.calibrations.weighted import Weighted
from aptset.calibrations.weights import Scale, WeightedScores
from aptset.data.groups.bands import LabelBands
from aptset.data.groups.ids import Groups, flat_groups, full_groups, groups_labels
from aptset.data.labels import columns_of
from aptset.estimator.encoding import LabelledModel
from aptset.estimator.ensembles import Member
from aptset.estimator.fitted import Fitted, Rule
from aptset.probabilities.chance import Chance
from aptset.probabilities.checks import unknown_kind
from aptset.probabilities.stored_scores import describe_score, find_score
from aptset.probabilities.stored_weights import weights_of
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
        "weights": weights_of(held_out) if isinstance(held_out, Weighted) else None,
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


def _scores_of(state: dict[str, Any], groups: Groups) -> HeldOut:
    """Return the scores of all folds, with their weights if there are any."""
    starts = np.cumsum(state["offsets"][:, -1])[:-1]
    parts, weights = np.split(state["scores"], starts), state.get("weights")
    for scores in parts:
        scores.flags.writeable = False
    if weights is None:
        folds = tuple(FoldScores(*fold, groups) for fold in zip(parts, state["offsets"], strict=True))
        return HeldOut(folds, groups, state["judges"])
    of_folds, scale = zip(parts, np.split(weights, starts), state["offsets"], strict=True), Scale.of(weights)
    return Weighted(tuple(WeightedScores(*of_fold, groups, scale) for of_fold in of_folds), groups)


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
