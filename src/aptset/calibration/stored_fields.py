"""How the scheme of several folds stands in an artefact: by name, and with what it promises of the folds it made."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.calibration.stored_checks import damaged, is_storable, unknown_kind
from aptset.conformal import CALIBRATIONS
from aptset.conformal.aggregation import Tally
from aptset.conformal.fold_scores import Fold, FoldScores
from aptset.conformal.histogram import FixedThresholds, Histogram, ScoreCounts
from aptset.conformal.measure import Measure, Thresholds
from aptset.conformal.scheme import FoldSizes, Line, Scheme
from aptset.conformal.weights import Scale
from aptset.core.groups import Groups
from aptset.kernels.counting import rank_at
from aptset.kernels.formula import Floats
from aptset.scores import Gridded

_LONGEST_CAVEAT = 1000


@dataclass(frozen=True)
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

    def lines(self, sizes: FoldSizes) -> list[Line]:
        """Return what the theorem says of such folds."""
        return self.scheme.lines(sizes)


def describe_scheme(scheme: Scheme) -> dict[str, Any]:
    """Return the name of a scheme of the library, its plain settings, and why nothing is promised, if that is so."""
    plain: Any = scheme.scheme if isinstance(scheme, WithoutSplitter) else scheme
    for name, kind in CALIBRATIONS.items():
        if type(plain) is kind:
            settings = {field.name: _plain(getattr(plain, field.name)) for field in fields(plain)}
            kept = {key: value for key, value in settings.items() if is_storable(value)}  # all but a splitter
            return {"name": name, "settings": kept, "caveat": scheme.caveat}
    raise TypeError(
        f"calibration must be one of the library's to be saved; got {scheme!r}. Pickle keeps an object of your own, "
        "for the same versions of everything."
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def find_scheme(path: str | Path, stored: dict[str, Any]) -> Scheme:
    """Return the scheme that was described."""
    name, settings, caveat = (stored.get(key) for key in ("name", "settings", "caveat"))
    if stored.keys() != {"name", "settings", "caveat"} or not isinstance(name, str) or not isinstance(settings, dict):
        raise damaged(path, "its scheme must have a name, settings and a caveat")
    if not isinstance(caveat, str) or len(caveat) > _LONGEST_CAVEAT or not caveat.isprintable():
        raise damaged(path, "the caveat of its scheme must be a line of text")
    if name not in CALIBRATIONS:
        raise unknown_kind(path, "scheme", name)
    try:
        found = CALIBRATIONS[name](**settings)
    except TypeError as error:
        raise unknown_kind(path, f"setting of its scheme {name!r}", error) from error
    if not all(map(is_storable, settings.values())) or found.caveat:
        raise damaged(path, "the settings of its scheme must be texts, numbers, booleans or null")
    return WithoutSplitter(found, caveat) if caveat else found


_KEYS = {"ratios", "prior_correction", "effective_size"}


def describe_weights(held_out: Measure) -> dict[str, Any]:
    """Return all about weights but the weights themselves."""
    return {
        "ratios": None if held_out.ratios is None else held_out.ratios.tolist(),
        "prior_correction": held_out.corrects,
        "effective_size": held_out.effective_sizes.tolist(),
    }


def weights_of(held_out: Measure) -> Floats:
    """Return the weight of each score, fold by fold."""
    return held_out.weights


def weighted_from(
    path: str | Path, facts: dict[str, Any], tensors: dict[str, NDArray[Any]], groups: Groups, n_classes: int
) -> Measure:
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
    folds = tuple(FoldScores(part, starts, groups, True, mass, scale) for part, mass, starts in of_folds)
    found = Measure(folds, groups, None, known, facts["weights"]["prior_correction"])
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


THRESHOLDS, GRID = COUNTED = "thresholds", "grid"
_NARROW: dict[str, Any] = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "I64": np.int64}
_LEVEL = re.compile(r"([1-9][0-9]{0,400})/([1-9][0-9]{0,400})")
_FARTHEST = 2**62
_MOST_SAMPLES = 2**53  # up to here p-values are exact

Tensors = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, list[int]]]


def kind_of_counts(held_out: Thresholds) -> str | None:
    """Return the kind of what was kept instead of scores; None if scores were."""
    return THRESHOLDS if isinstance(held_out, FixedThresholds) else GRID if isinstance(held_out, Histogram) else None


def tensors_of(held_out: Thresholds) -> Tensors:
    """Return what was kept as arrays."""
    if isinstance(held_out, FixedThresholds):
        return {"thresholds": np.ascontiguousarray(held_out.found), "sizes": np.ascontiguousarray(held_out.sizes)}
    assert isinstance(held_out, Histogram)
    counts = held_out.counts
    starts, filled = counts.starts[:-1], np.diff(counts.starts) > 0
    gaps, lowest = np.diff(counts.buckets, prepend=np.int64(0)), np.zeros(len(starts), dtype=np.int64)
    gaps[starts[filled]], lowest[filled] = 0, counts.buckets[starts[filled]]
    return {"lowest": lowest, "offsets": counts.starts, "gaps": _narrow(gaps), "counts": _narrow(counts.counts)}


def facts_of(held_out: Thresholds) -> dict[str, Any]:
    """Return the facts that only such a calibration has."""
    if not isinstance(held_out, FixedThresholds):
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


def counts_from(path: str | Path, facts: dict[str, Any], tensors: Tensors, groups: Groups, score: Any) -> Thresholds:
    """Return what was kept, from tensors that were checked."""
    if facts["kind"] == THRESHOLDS:
        levels = tuple(level for text in facts["levels"] if (level := _level(text)) is not None)
        found, sizes = tensors["thresholds"], tensors["sizes"]
        return FixedThresholds(groups=groups, group_sizes=sizes, levels=levels, found=found)
    if not isinstance(score, Gridded):
        raise damaged(path, "its score must be on a grid, as its counts are")
    offsets, counts = tensors["offsets"], tensors["counts"].astype(np.int64)
    group = np.repeat(np.arange(len(groups.names), dtype=np.int32), np.diff(offsets))
    running = np.cumsum(tensors["gaps"].astype(np.int64))
    buckets = tensors["lowest"][group] + (running - running[offsets[:-1][group]])
    sizes = np.zeros(len(groups.names), dtype=np.int64)
    np.add.at(sizes, group, counts)
    names = groups.names if groups.kind == "row" else _counted_names(groups)
    return Histogram(ScoreCounts(names, sizes, group, buckets, counts, 0, None), groups, float(score.resolution))


def _counted_names(groups: Groups) -> tuple[Any, ...]:
    """Return the names under which groups are counted: labels and bands by their numbers."""
    return tuple(range(len(groups.names))) if groups.kind in ("label", "band") else groups.names
