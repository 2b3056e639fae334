"""Trees of a stored model, looked at before they are followed: scikit-learn goes from node to node without a check.

A forged tree could lead out of its memory, or in a circle for ever. In an intact one every child comes after its
parent, which is how scikit-learn grows and prunes them, and every feature is one that the model has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.gradient_boosting import BaseHistGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree


def check_trees(where: str, loaded: Any) -> None:
    """Refuse models with a tree that leads out of itself, or that asks for a feature which its model does not have."""
    everything = list(_parts(loaded))
    try:
        is_sound = all(map(_is_sound, everything)) and all(map(_has_its_columns, everything))
    except (AttributeError, TypeError, ValueError, LookupError):  # of objects that were not filled as they should be
        is_sound = False
    if not is_sound:
        raise ValueError(
            f"{where} holds a tree that leads out of itself, or asks for features that its model does not have: no "
            "model of scikit-learn does. Make it again."
        )


def _parts(loaded: Any) -> Iterator[Any]:
    """Give everything that a model holds, at any depth, each thing once."""
    waiting, known = [loaded], dict[int, Any]()
    while waiting:
        value = waiting.pop()
        if id(value) in known or isinstance(value, str | bytes | int | float | type(None)):
            continue
        known[id(value)] = value
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, np.ndarray):
            waiting += value.ravel().tolist() if value.dtype == object else []
        else:
            waiting += getattr(value, "__dict__", {}).values()


def _is_sound(value: Any) -> bool:
    """Tell whether a tree stays within itself, and whether a model has as many features as its trees."""
    if isinstance(value, Tree):
        return bool(value.node_count == value.capacity > 0) and _stays_inside(
            value.children_left, value.children_right, value.children_left == -1, value.feature, value.n_features
        )
    if isinstance(value, BaseDecisionTree) and hasattr(value, "tree_"):
        return bool(value.tree_.n_features == value.n_features_in_)
    if isinstance(value, BaseForest | BaseGradientBoosting) and hasattr(value, "estimators_"):
        members = np.asarray(value.estimators_, dtype=object).ravel()
        return all(member.n_features_in_ == value.n_features_in_ for member in members)
    if isinstance(value, BaseHistGradientBoosting) and hasattr(value, "_predictors"):
        trees = [tree for of_round in value._predictors for tree in of_round]
        return all(type(tree) is TreePredictor and _is_sound_predictor(tree, value) for tree in trees)
    return True


def _is_sound_predictor(tree: Any, model: Any) -> bool:
    """Tell whether a tree of histograms stays within itself, and its sets of categories within theirs."""
    nodes, of_model = tree.nodes, np.asarray(model._bin_mapper.is_categorical_, dtype=np.bool_)
    is_by_category = (nodes["is_leaf"] == 0) & (nodes["is_categorical"] != 0)
    return (
        len(of_model) == model.n_features_in_
        and _stays_inside(nodes["left"], nodes["right"], nodes["is_leaf"] != 0, nodes["feature_idx"], len(of_model))
        and bool((nodes["bitset_idx"][is_by_category] < len(tree.raw_left_cat_bitsets)).all())
        and bool(of_model[nodes["feature_idx"][is_by_category]].all())
    )


def _stays_inside(left: Any, right: Any, is_leaf: Any, features: Any, n_features: int) -> bool:
    """Tell whether all children come after their parents, and all features are there."""
    inner = np.flatnonzero(~is_leaf)
    children = np.stack([left[inner], right[inner]]).astype(np.int64)
    is_inside = bool(((children > inner) & (children < len(left))).all()) and len(left) > 0
    return is_inside and bool(((features[inner] >= 0) & (features[inner] < n_features)).all())


def _has_its_columns(value: Any) -> bool:
    """Tell whether boosting begins with as many columns as its trees write to; called when all trees are sound."""
    if not isinstance(value, BaseGradientBoosting) or not hasattr(value, "estimators_"):
        return True
    first = value._raw_predict_init(np.zeros((1, value.n_features_in_)))
    return bool(first.shape == (1, value.estimators_.shape[1]))
