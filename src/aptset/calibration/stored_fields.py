"""What calibrations are on disk: the fields of each kind, and one pair of functions from and to them.

Kind "split" and "cross" (several folds) hold ``scores`` (float64, fold by fold, upward within each group) and
``offsets`` (int64, (folds, groups + 1): where groups start). Where several models judge a row together, ``judges``
(bool, (folds, models)) says which; ``weights`` (float64) has the weight of each score, if there are weights or votes,
and ``clusters`` (int64) 64 bits that stand for the cluster of each score, if rows belong together. Without
scores there are the kinds "thresholds" (of some levels, in each group) and "grid" (how many scores stand at each point:
the lowest point of a group, the gaps up to the others, and the counts).
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.conformal.clusters import Clusters, check_one_fold_each
from aptset.conformal.histogram import NARROW, FixedThresholds, Histogram
from aptset.conformal.importance import Scale
from aptset.conformal.linear_programme import are_addable
from aptset.conformal.measure import FoldScores, Measure, clustered_folds
from aptset.conformal.thresholds import Thresholds
from aptset.core import store
from aptset.core.groups import Groups
from aptset.core.levels import rank_at
from aptset.core.row_groups import CLUSTER
from aptset.kernels.formula import Floats
from aptset.scores import Gridded
from aptset.scores.conformity import is_score

THRESHOLDS, GRID = "thresholds", "grid"
_FARTHEST = 2**62
_LONGEST_NOUN = 1000
_WEIGHTS = {"ratios", "prior_correction", "effective_size"}


def measure_fields(held_out: Thresholds) -> tuple[str, store.Facts, store.Tensors]:
    """Return the kind, the facts and the tensors of what was kept of the scores."""
    if isinstance(held_out, FixedThresholds):
        levels = [f"{level.numerator}/{level.denominator}" for level in held_out.levels]
        tensors = {"thresholds": held_out.values, "sizes": held_out.sizes}
        return THRESHOLDS, {"n": held_out.n, "scores_hash": hash_of_counts(tensors), "levels": levels}, tensors
    if isinstance(held_out, Histogram):
        tensors = held_out.tensors()
        return GRID, {"n": held_out.n, "scores_hash": hash_of_counts(tensors)}, tensors
    assert isinstance(held_out, Measure)
    weights = _describe_weights(held_out) if held_out.has_weights else None
    n_scores = sum(map(len, held_out.folds))
    facts = {"n": n_scores, "scores_hash": hash_of(held_out.scores), "weights": weights}
    facts |= cluster_facts(held_out)
    return "split", facts, score_tensors(held_out)


def measure_from(
    path: str | Path, facts: store.Facts, tensors: store.Tensors, groups: Groups, score: Any, n_classes: int
) -> Thresholds:
    """Return what was kept of the scores, from fields whose own rules hold."""
    if facts["kind"] == THRESHOLDS:
        levels, sizes = tuple(map(store.stored_fraction, facts["levels"])), tensors["sizes"]
        return FixedThresholds(groups=groups, group_sizes=sizes, levels=levels, values=tensors["thresholds"])
    if facts["kind"] == GRID:
        if not isinstance(score, Gridded):
            raise store.damaged(path, "its score must be on a grid, as its counts are")
        return Histogram.of_tensors(tensors, groups, float(score.resolution))
    if facts["clusters"] is not None:
        return clusters_from(path, facts["clusters"], tensors, groups)
    if facts["weights"] is None:
        return scores_from(tensors, groups)
    ratios = _check_weights(path, facts["weights"], tensors, n_classes)
    held_out = scores_from(tensors, groups, ratios, facts["weights"]["prior_correction"])
    stored, sizes = _numbers(facts["weights"]["effective_size"], len(groups.names)), held_out.effective_sizes
    if stored is None or not np.allclose(stored, sizes, rtol=1e-9, atol=0):
        raise store.damaged(path, "its effective_size must be that of its weights")
    return held_out


def score_tensors(held_out: Measure) -> store.Tensors:
    """Return the scores of all folds, where groups start in each, who judges them and what they weigh."""
    (first, *others) = held_out.folds
    tensors: store.Tensors = {
        "scores": np.concatenate([first.scores, *(fold.scores for fold in others)]) if others else first.scores,
        "offsets": np.array([fold.offsets for fold in held_out.folds], dtype=np.int64),
    }
    if held_out.clusters is not None:
        tensors["clusters"] = held_out.words.view(np.int64)
        if held_out.clusters.are_votes:
            tensors["weights"] = held_out.weights if held_out.is_weighted else np.ones(len(tensors["scores"]))
    elif held_out.is_weighted:
        tensors["weights"] = held_out.weights
    elif held_out.model_mask is not None:
        tensors["judges"] = np.asarray(held_out.model_mask, dtype=np.bool_)
    return tensors


def scores_from(
    tensors: store.Tensors, groups: Groups, ratios: Floats | None = None, corrects: bool = False
) -> Measure:
    """Return the scores of all folds: views of one array, which nobody may change."""
    scores, offsets, weights = tensors["scores"], tensors["offsets"], tensors.get("weights")
    starts = np.cumsum(offsets[:, -1])[:-1]
    scores.flags.writeable = False
    scale, of_folds = None, list[Any]([None] * len(offsets))
    if weights is not None:
        weights.flags.writeable = False
        scale, of_folds = Scale.of(weights), np.split(weights, starts)
    entries = zip(np.split(scores, starts), offsets, of_folds, strict=True)
    folds = tuple(FoldScores(part, bounds, groups, True, masses, scale) for part, bounds, masses in entries)
    return Measure(folds, groups, tensors.get("judges"), ratios, corrects)


def cluster_facts(held_out: Thresholds) -> store.Facts:
    """Return what clusters are called, and whether they are rows with votes; nothing where rows are single."""
    if held_out.clusters is None:
        return {}
    noun, are_votes, column = held_out.clusters.noun, held_out.clusters.are_votes, held_out.clusters.column
    return {"clusters": {"noun": noun, "votes": are_votes, "column": column}}


def clusters_from(path: str | Path, stored: store.Facts, tensors: store.Tensors, groups: Groups) -> Measure:
    """Return the scores of all folds with the masses of their clusters, which follow from them."""
    offsets, starts = tensors["offsets"], np.cumsum(tensors["offsets"][:, -1])[:-1]
    scores, words = np.split(tensors["scores"], starts), np.split(tensors["clusters"].view(np.uint64), starts)
    cells = [np.repeat(np.arange(len(groups.names)), np.diff(bounds)) for bounds in offsets]
    try:
        check_one_fold_each(np.concatenate(words), np.repeat(np.arange(len(words)), [*map(len, words)]), CLUSTER)
    except ValueError as error:
        raise store.damaged(path, "each of its clusters must be in one fold") from error
    votes = np.split(tensors["weights"], starts) if stored["votes"] else None
    folds, unit = clustered_folds(scores, cells, words, groups, votes)
    return Measure(folds, groups, clusters=Clusters(stored["noun"], stored["votes"], unit, stored["column"]))


def _are_clusters(stored: store.Facts) -> bool:
    """Tell whether clusters are stored as a noun, whether they are votes, and a column of X."""
    has_fields = stored.keys() == {"noun", "votes", "column"} and isinstance(stored["votes"], bool)
    has_noun = has_fields and isinstance(stored["noun"], str) and 0 < len(stored["noun"]) <= _LONGEST_NOUN
    return has_noun and isinstance(stored["column"], str | None)


def _describe_weights(held_out: Measure) -> store.Facts:
    """Return all about weights but the weights themselves."""
    return {
        "ratios": None if held_out.ratios is None else held_out.ratios.tolist(),
        "prior_correction": held_out.corrects,
        "effective_size": held_out.effective_sizes.tolist(),
    }


def _check_weights(path: str | Path, stored: store.Facts, tensors: store.Tensors, n_classes: int) -> Floats | None:
    """Return the ratios of labels, if labels have weights; refuse weights that no calibration has."""
    weights = tensors["weights"]
    if stored.keys() != _WEIGHTS or not isinstance(stored["prior_correction"], bool):
        raise store.damaged(path, "its weights must have ratios, prior_correction and effective_size")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise store.damaged(path, "its weights must be finite, at least 0, and not all 0")
    if "judges" in tensors:
        raise store.damaged(path, "its weights must not go with models that judge together")
    if stored["ratios"] is None and stored["prior_correction"]:
        raise store.damaged(path, "its prior_correction must have ratios")
    if stored["ratios"] is None:
        return None
    ratios = _numbers(stored["ratios"], n_classes)
    if ratios is None:
        raise store.damaged(
            path, f"its weights must have one ratio for each of the {n_classes} classes, a finite number"
        )
    if not ((ratios >= 0).all() and np.isin(weights, ratios).all()):
        raise store.damaged(path, "its ratios must be at least 0, and those of its weights")
    return ratios


def _numbers(stored: Any, n: int) -> Floats | None:
    """Return so many numbers of JSON as floats; None where one is no number, or none that a float can hold."""
    if not isinstance(stored, list) or len(stored) != n or any(type(value) not in (int, float) for value in stored):
        return None
    try:
        numbers = np.array(stored, dtype=np.float64)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return numbers if np.isfinite(numbers).all() else None


def hash_of(scores: Floats) -> str:
    """Return the hash of sorted scores, which people compare."""
    return blake2b(scores.data, digest_size=16).hexdigest()


def hash_of_counts(tensors: store.Tensors) -> str:
    """Return a hash of all that was kept instead of scores, which people compare."""
    content = blake2b(digest_size=16)
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name]).data)
    return content.hexdigest()


def score_rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    """Return the relations of scores and their folds, even where a digest fits."""
    scores, offsets = tensors["scores"], tensors["offsets"]
    has_votes = bool((facts.get("clusters") or {}).get("votes"))
    return {
        "its offsets must rise from 0 to n": lambda: _share_out(offsets, len(scores)),
        "each of its folds must hold a score": lambda: (offsets[:, -1] > 0).all(),
        "its scores must be finite": lambda: np.isfinite(scores).all(),
        "its overlapping scores must be small enough to be added": lambda: (
            facts["groups"].get("kind") != "overlap" or are_addable(scores)
        ),
        "its scores must be sorted within each group": lambda: _are_sorted(scores, offsets),
        # A stable sort merges those of groups and folds: they are sorted already.
        "its scores_hash must be that of its scores": lambda: (
            facts["scores_hash"] == hash_of(np.sort(scores, kind="stable"))
        ),
        "its weights must be there if its metadata says so": lambda: (
            ("weights" in tensors) == (facts.get("weights") is not None or has_votes)
        ),
        "its clusters must be there if its metadata says so, without weights": lambda: (
            ("clusters" in tensors) == (facts.get("clusters") is not None)
            and (facts.get("clusters") is None or (facts.get("weights") is None and "judges" not in tensors))
        ),
        "its votes must be finite and more than 0": lambda: (
            not has_votes or (np.isfinite(tensors["weights"]) & (tensors["weights"] > 0)).all()
        ),
    }


def _share_out(offsets: NDArray[Any], n: int) -> bool:
    """Tell whether folds share the scores out, by comparison: sums and differences of offsets near 2^63 wrap around."""
    rise = bool((offsets[:, 0] == 0).all() and (offsets[:, 1:] >= offsets[:, :-1]).all())
    return rise and bool((offsets[:, -1] <= n).all()) and sum(offsets[:, -1].tolist()) == n


def _are_sorted(scores: Floats, offsets: NDArray[Any]) -> bool:
    starts = (np.cumsum(offsets[:, -1]) - offsets[:, -1])[:, None] + offsets
    falls = scores[1:] < scores[:-1]
    falls[starts[(starts > 0) & (starts < len(scores))] - 1] = False  # a group may begin below the end of the last one
    return not falls.any()


def _threshold_rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    sizes, thresholds = tensors["sizes"], tensors["thresholds"]
    levels = [*map(store.stored_fraction, facts["levels"])]

    def falls() -> bool:
        by_level = thresholds[np.argsort([float(level) for level in levels])]
        return bool((by_level[1:] <= by_level[:-1]).all())

    return {
        "its scores_hash must be that of what it holds": lambda: facts["scores_hash"] == hash_of_counts(tensors),
        "its levels must be distinct fractions in (0, 1)": lambda: (
            levels and all(0 < level < 1 for level in levels) and len(set(levels)) == len(levels)
        ),
        "its sizes must be those of its groups": lambda: store.share_out(sizes, facts["n"], 0),
        "its thresholds must be finite, and infinite where a group has too few samples": lambda: (
            not np.isnan(thresholds).any()
            and not np.isneginf(thresholds).any()
            and np.array_equal(
                thresholds == np.inf, [[rank_at(n, level) > n for n in sizes.tolist()] for level in levels]
            )
        ),
        "its thresholds must fall where levels rise": falls,
    }


def _grid_rules(facts: store.Facts, tensors: store.Tensors) -> store.Rules:
    offsets, gaps, lowest = tensors["offsets"], tensors["gaps"], tensors["lowest"].astype(np.float64)
    is_first = np.isin(np.arange(len(gaps)), offsets[:-1][offsets[:-1] < offsets[1:]])
    return {
        "its scores_hash must be that of what it holds": lambda: facts["scores_hash"] == hash_of_counts(tensors),
        "its offsets must rise from 0 to the number of its points": lambda: (
            offsets[0] == 0 and offsets[-1] == len(gaps) and (offsets[1:] >= offsets[:-1]).all()
        ),
        "its counts must be positive, and n together": lambda: store.share_out(tensors["counts"], facts["n"], 1),
        "its points must rise within each group": lambda: (gaps[is_first] == 0).all() and (gaps[~is_first] > 0).all(),
        "its points must be steps below 2^62": lambda: (
            float(np.abs(lowest).max()) + float(gaps.astype(np.float64).sum()) < _FARTHEST
        ),
    }


def n_below(most: int) -> store.Field:
    """Return the field of the number of calibration rows."""
    return store.Field(int, f"its n must be from 1 to 2^{most.bit_length() - 1}", lambda n: 0 < n < most)


# What calibrations and classifiers have in common.
COMMON = {
    "score": store.Field(dict, "its score has no name or no settings", is_score),
    "classes": store.Field(
        dict, "its classes must be a list of at least 2 labels", lambda stored: isinstance(stored.get("values"), list)
    ),
    "groups": store.Field(dict, "its groups must have names", lambda stored: isinstance(stored.get("names"), list)),
    "key": store.Field(str, "its key must be a whole number below 2^64", store.are_words),
    "randomized": store.Field(bool),
    "u": store.Field(
        str, "its u must come from content, ids or the caller", lambda u: u in ("content", "ids", "given")
    ),
    "copies": store.Field(int | float, "its share of copies must be in [0, 1]", lambda copies: 0 <= copies <= 1),
    "scores_hash": store.Field(str),
    **store.ORIGIN,
}
CLUSTERS = {
    "clusters": store.Field(
        dict | None, "its clusters must have a noun, votes and a column", _are_clusters, optional=True
    )
}
_SCORES = {"n": n_below(2**31), "weights": store.Field(dict | None), **CLUSTERS}
_COUNTS = {"n": n_below(2**53)}  # up to there p-values are exact
_OF_CALIBRATION = {
    **COMMON,
    "columns": store.Field(dict | None),
    "allow_empty": store.Field(bool),
    "normalize": store.Field(bool),
    "parts": store.Field(
        list,
        "its parts must be distinct whole numbers below 2^64",
        lambda parts: store.are_words(*parts) and len(set(parts)) == len(parts),
    ),
}
_OF_ONE_MODEL = {
    **_OF_CALIBRATION,
    "first_rows": store.Field(
        list, "its first rows must be whole numbers below 2^64", lambda rows: store.are_words(*rows)
    ),
}
SCORES = {
    "scores": store.Tensor("F64", ("scores",)),
    "offsets": store.Tensor("I64", ("folds", "bounds of groups")),
    "judges": store.Tensor("BOOL", ("folds", "models"), optional=True),
    "weights": store.Tensor("F64", ("scores",), optional=True),
    "clusters": store.Tensor("I64", ("scores",), optional=True),
}


def sizes_of_groups(facts: store.Facts, names: Any) -> dict[str, int]:
    """Return the sizes that every kind has."""
    n_groups = len(facts["groups"]["names"])
    return {"scores": facts["n"], "groups": n_groups, "bounds of groups": n_groups + 1}


def _sizes_of_folds(facts: store.Facts, names: Any) -> dict[str, int]:
    """Return the sizes of several folds: as many as models, or any number where models judge together."""
    n_models = len(facts["folds"]["values"])
    folds = {} if "judges" in names else {"folds": n_models}
    return {**sizes_of_groups(facts, names), "models": n_models, **folds}


SCHEMAS = {
    "split": store.Schema(
        {**_OF_ONE_MODEL, **_SCORES},
        {name: tensor for name, tensor in SCORES.items() if name != "judges"},
        lambda facts, names: {**sizes_of_groups(facts, names), "folds": 1},
        score_rules,
    ),
    "cross": store.Schema(
        {
            **_OF_CALIBRATION,
            **_SCORES,
            "folds": store.Field(
                dict, "its folds must have names", lambda stored: isinstance(stored.get("values"), list)
            ),
            "scheme": store.Field(dict),
        },
        SCORES,
        _sizes_of_folds,
        score_rules,
    ),
    THRESHOLDS: store.Schema(
        {**_OF_ONE_MODEL, **_COUNTS, "levels": store.Field(list)},
        {"thresholds": store.Tensor("F64", ("levels", "groups")), "sizes": store.Tensor("I64", ("groups",))},
        lambda facts, names: {**sizes_of_groups(facts, names), "levels": len(facts["levels"])},
        _threshold_rules,
    ),
    GRID: store.Schema(
        {**_OF_ONE_MODEL, **_COUNTS},
        {
            "lowest": store.Tensor("I64", ("groups",)),
            "offsets": store.Tensor("I64", ("bounds of groups",)),
            "gaps": store.Tensor(" ".join(NARROW), ("points",)),
            "counts": store.Tensor(" ".join(NARROW), ("points",)),
        },
        sizes_of_groups,
        _grid_rules,
    ),
}
