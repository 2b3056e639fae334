"""Calibrations without scores on disk: thresholds of some levels, or counts on a grid.

Kind "thresholds" has tensors ``thresholds`` (float64, (levels, groups)) and ``sizes`` (int64, of groups), and the fact
``levels``, exact fractions as texts. Kind "grid" has ``lowest`` (int64, the first point of each group, in steps of the
resolution of its score), ``offsets`` (int64, where groups start), and for each point that has scores its distance to
the one before in its group, ``gaps``, and how many there are, ``counts``: in the narrowest type that holds them.
"""

from __future__ import annotations

import re
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibrations.counted import Counted, KnownThresholds, OnGrid
from aptset.calibrations.held_out import HeldOut
from aptset.calibrations.score_counts import ScoreCounts
from aptset.data.groups.ids import Groups
from aptset.kernels.counts import rank_at
from aptset.probabilities.checks import damaged
from aptset.scores import Gridded

THRESHOLDS, GRID = COUNTED = "thresholds", "grid"
_NARROW: dict[str, Any] = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "I64": np.int64}
_LEVEL = re.compile(r"([1-9][0-9]{0,400})/([1-9][0-9]{0,400})")
_FARTHEST = 2**62
_MOST_SAMPLES = 2**53  # up to here p-values are exact

Tensors = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, list[int]]]


def kind_of_counts(held_out: HeldOut) -> str | None:
    """Return the kind of what was kept instead of scores; None if scores were."""
    return (THRESHOLDS if isinstance(held_out, KnownThresholds) else GRID) if isinstance(held_out, Counted) else None


def tensors_of(held_out: HeldOut) -> Tensors:
    """Return what was kept as arrays."""
    if isinstance(held_out, KnownThresholds):
        return {"thresholds": np.ascontiguousarray(held_out.found), "sizes": np.ascontiguousarray(held_out.sizes)}
    assert isinstance(held_out, OnGrid)
    counts = held_out.counts
    starts, filled = counts.starts[:-1], np.diff(counts.starts) > 0
    gaps, lowest = np.diff(counts.buckets, prepend=np.int64(0)), np.zeros(len(starts), dtype=np.int64)
    gaps[starts[filled]], lowest[filled] = 0, counts.buckets[starts[filled]]
    return {"lowest": lowest, "offsets": counts.starts, "gaps": _narrow(gaps), "counts": _narrow(counts.counts)}


def facts_of(held_out: HeldOut) -> dict[str, Any]:
    """Return the facts that only such a calibration has."""
    if not isinstance(held_out, KnownThresholds):
        return {}
    return {"levels": [f"{level.numerator}/{level.denominator}" for level in held_out.levels]}


def hash_of_counts(tensors: Tensors) -> str:
    """Return a hash of all that was kept, which people compare."""
    digest = blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(tensors[name].data)
    return digest.hexdigest()


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    most = int(values.max(initial=0))
    return values.astype(next(kind for kind in _NARROW.values() if most <= np.iinfo(kind).max))


def shapes_of(path: str | Path, facts: dict[str, Any], found: Shapes, n_groups: int) -> Shapes:
    """Return the types and sizes that the tensors must have; those of gaps and counts may be narrow."""
    if not 0 < facts["n"] < _MOST_SAMPLES:
        raise damaged(path, "its n must be from 1 to 2^53")
    if facts["kind"] == THRESHOLDS:
        return {"thresholds": ("F64", [len(facts["levels"]), n_groups]), "sizes": ("I64", [n_groups])}
    cells = found.get("gaps", ("", []))[1]
    kinds = {name: found.get(name, ("", []))[0] for name in ("gaps", "counts")}
    narrow = {name: (kind if kind in _NARROW else "U8", cells[:1]) for name, kind in kinds.items()}
    return {"lowest": ("I64", [n_groups]), "offsets": ("I64", [n_groups + 1]), **narrow}


def check_counts(path: str | Path, facts: dict[str, Any], tensors: Tensors) -> None:
    """Refuse tensors that no calibration has."""
    if facts["scores_hash"] != hash_of_counts(tensors):
        raise damaged(path, "its scores_hash must be that of what it holds")
    broken = _broken_thresholds(facts, tensors) if facts["kind"] == THRESHOLDS else _broken_grid(facts, tensors)
    if broken is not None:
        raise damaged(path, broken)


def _broken_thresholds(facts: dict[str, Any], tensors: Tensors) -> str | None:
    sizes, levels = tensors["sizes"], [_level(text) for text in facts["levels"]]
    if not levels or None in levels or len(set(levels)) != len(levels):
        return "its levels must be distinct fractions in (0, 1)"
    if (sizes < 0).any() or (sizes > facts["n"]).any() or int(sizes.sum()) != facts["n"]:
        return "its sizes must be those of its groups"
    found, known = tensors["thresholds"], [level for level in levels if level is not None]
    too_few = [[rank_at(n, level) > n for n in sizes.tolist()] for level in known]
    if np.isnan(found).any() or not np.array_equal(found == np.inf, too_few) or np.isneginf(found).any():
        return "its thresholds must be finite, and infinite where a group has too few samples"
    downward = found[np.argsort([float(level) for level in known])]
    return "its thresholds must fall where levels rise" if (downward[1:] > downward[:-1]).any() else None


def _broken_grid(facts: dict[str, Any], tensors: Tensors) -> str | None:
    offsets, gaps, counts = tensors["offsets"], tensors["gaps"], tensors["counts"]
    if offsets[0] != 0 or offsets[-1] != len(gaps) or (offsets[1:] < offsets[:-1]).any():
        return "its offsets must rise from 0 to the number of its points"
    if (counts <= 0).any() or (counts > facts["n"]).any() or sum(map(int, counts.tolist())) != facts["n"]:
        return "its counts must be positive, and n together"
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    is_first = np.zeros(len(gaps), dtype=np.bool_)
    is_first[starts] = True
    if (gaps[is_first] != 0).any() or (gaps[~is_first] <= 0).any():
        return "its points must rise within each group"
    farthest = float(np.abs(tensors["lowest"].astype(np.float64)).max()) + float(gaps.astype(np.float64).sum())
    return "its points must be steps below 2^62" if farthest >= _FARTHEST else None


def _level(text: Any) -> Fraction | None:
    parts = _LEVEL.fullmatch(text) if isinstance(text, str) else None
    level = None if parts is None else Fraction(int(parts[1]), int(parts[2]))
    return level if level is not None and level < 1 else None


def counts_from(path: str | Path, facts: dict[str, Any], tensors: Tensors, groups: Groups, score: Any) -> Counted:
    """Return what was kept, from tensors that were checked."""
    if facts["kind"] == THRESHOLDS:
        levels = tuple(level for text in facts["levels"] if (level := _level(text)) is not None)
        found, sizes = tensors["thresholds"], tensors["sizes"]
        return KnownThresholds((), groups, group_sizes=sizes, levels=levels, found=found)
    if not isinstance(score, Gridded):
        raise damaged(path, "its score must be on a grid, as its counts are")
    offsets, counts = tensors["offsets"], tensors["counts"].astype(np.int64)
    group = np.repeat(np.arange(len(groups.names), dtype=np.int32), np.diff(offsets))
    running = np.cumsum(tensors["gaps"].astype(np.int64))
    buckets = tensors["lowest"][group] + (running - running[offsets[:-1][group]])
    sizes = np.zeros(len(groups.names), dtype=np.int64)
    np.add.at(sizes, group, counts)
    names = groups.names if groups.kind == "row" else _counted_names(groups)
    return OnGrid.of(ScoreCounts(names, sizes, group, buckets, counts, 0, None), groups, float(score.resolution))


def _counted_names(groups: Groups) -> tuple[Any, ...]:
    """Return the names under which groups are counted: labels and bands by their numbers."""
    return tuple(range(len(groups.names))) if groups.kind in ("label", "band") else groups.names
