"""How weights stand in an artefact: one beside each score, and where labels decide them, the ratio of each label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.weighted import Weighted
from aptset.calibrations.weights import Scale, WeightedScores
from aptset.data.groups.ids import Groups
from aptset.kernels.formula import Floats
from aptset.probabilities.checks import damaged

_KEYS = {"ratios", "prior_correction", "effective_size"}


def describe_weights(held_out: Weighted) -> dict[str, Any]:
    """Return all about weights but the weights themselves."""
    return {
        "ratios": None if held_out.ratios is None else held_out.ratios.tolist(),
        "prior_correction": held_out.corrects,
        "effective_size": held_out.effective_sizes.tolist(),
    }


def weights_of(held_out: Weighted) -> Floats:
    """Return the weight of each score, fold by fold."""
    return np.concatenate([part.weights for part in held_out.parts])


def weighted_from(
    path: str | Path, facts: dict[str, Any], tensors: dict[str, NDArray[Any]], groups: Groups, n_classes: int
) -> Weighted:
    """Return the scores with their weights; refuse what no calibration has."""
    weights, ratios = tensors["weights"], facts["weights"].get("ratios")
    if facts["weights"].keys() != _KEYS or not isinstance(facts["weights"]["prior_correction"], bool):
        raise damaged(path, "its weights must have ratios, prior_correction and effective_size")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise damaged(path, "its weights must be finite, at least 0, and not all 0")
    if "judges" in tensors:
        raise damaged(path, "its weights must not go with models that judge together")
    known = None if ratios is None else _ratios(path, ratios, n_classes, weights)
    if facts["weights"]["prior_correction"] and known is None:
        raise damaged(path, "its prior_correction must have ratios")
    offsets, scale = np.atleast_2d(tensors["offsets"]), Scale.of(weights)
    for name in ("scores", "weights"):
        tensors[name].flags.writeable = False
    cuts = np.cumsum(offsets[:, -1])[:-1]
    of_folds = zip(np.split(tensors["scores"], cuts), np.split(weights, cuts), offsets, strict=True)
    folds = tuple(WeightedScores(scores, some, starts, groups, scale) for scores, some, starts in of_folds)
    found = Weighted(folds, groups, None, known, facts["weights"]["prior_correction"])
    _check_size(path, facts["weights"]["effective_size"], found.effective_sizes)
    return found


def _ratios(path: str | Path, stored: Any, n_classes: int, weights: Floats) -> Floats:
    found = _numbers(stored, n_classes)
    if found is None:
        raise damaged(path, f"its weights must have one ratio for each of the {n_classes} classes, a finite number")
    if not ((found >= 0).all() and np.isin(weights, found).all()):
        raise damaged(path, "its ratios must be at least 0, and those of its weights")
    return found


def _check_size(path: str | Path, stored: Any, sizes: Floats) -> None:
    found = _numbers(stored, len(sizes))
    if found is None or not np.allclose(found, sizes, rtol=1e-9, atol=0):
        raise damaged(path, "its effective_size must be that of its weights")


def _numbers(stored: Any, n: int) -> Floats | None:
    """Return so many numbers of JSON as floats; None where one is no number, or none that a float can hold."""
    if not isinstance(stored, list) or len(stored) != n or any(type(value) not in (int, float) for value in stored):
        return None
    try:
        found = np.array(stored, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return found if np.isfinite(found).all() else None
