"""What a score must be, whoever wrote it, the form in which the loops take it, and how it stands in a file.

In a file a score of the library goes by its name in ``SCORES``, one of the user's by "module:object", with its settings
if it is a dataclass (texts, numbers, booleans, or tuples of them): it is found again by name, never as code. Nothing is
imported that the caller did not name.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.store import check_stored_values, damaged
from aptset.kernels.formula import Floats, Formula, LinearScore, Places, broken_rule
from aptset.kernels.rows import Rows, all_scores_of_block
from aptset.scores import ALIASES, SCORES, Gridded, OfFunction, Ordered, Prevalence, Score, Tempered

AUTO = "auto"
BY_ORDER = {"ordered": "expanding", "central": "central"}  # names of scores that need labels with an order
_WAY_OUT = "Leave `weights` out: `of` alone works with any function."

# Rows on which a fast form shows what it is: even, one-hot, ties, labels without mass, labels that a sum cannot see.
_TRIAL = np.array(
    [
        [0.2, 0.2, 0.2, 0.2, 0.2],
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.0, 0.0, 0.0],
        [0.1, 0.4, 0.3, 0.15, 0.05],
        [0.25, 0.125, 0.125, 0.25, 0.25],
        [1e-17, 1.0, 1e-30, 2.0**-52, 2.0**-51],
        [0.375, 0.375, 0.0, 0.25, 1e-300],
    ]
)


def names_of_scores() -> list[str]:
    """Return every name that a score goes by."""
    return sorted({*SCORES, *ALIASES, *BY_ORDER})


def check_conformity(conformity: Any) -> Score:
    """Return the score that a name, an object or a function stands for."""
    if isinstance(conformity, str):
        return _named(conformity)
    if isinstance(conformity, type):
        raise TypeError(
            f"conformity must be a score, not a class; got {conformity!r}. Make one: {conformity.__name__}()."
        )
    if isinstance(conformity, Tempered | Gridded):
        return _around_another(conformity)
    if not hasattr(conformity, "of") and getattr(conformity, "weights", None) is None:
        if callable(conformity):
            return OfFunction(conformity)
        raise TypeError(
            f"conformity must be one of {names_of_scores()}, an object with of(places) or a function of places; "
            f"got {conformity!r}."
        )
    if type(conformity) not in (*SCORES.values(), Ordered):
        _check_fast_form(conformity)
    score: Score = conformity
    return score


def _around_another(conformity: Tempered | Gridded) -> Score:
    """Return a score that holds another one, which is checked as well."""
    inner = conformity.score
    if isinstance(inner, Gridded):
        raise ValueError(f"conformity must be put on a grid last, and once; got {conformity!r}. Swap the two.")
    if isinstance(conformity, Gridded):
        return Gridded(check_conformity(inner), conformity.resolution)
    if isinstance(inner, Tempered):
        raise ValueError(f"conformity must be tempered once; got {conformity!r}. Multiply the powers.")
    return Tempered(check_conformity(inner), conformity.power)


def _named(name: str) -> Score:
    if name.casefold() in BY_ORDER:
        return Ordered(BY_ORDER[name.casefold()])
    known = ALIASES.get(name.casefold(), name.casefold())  # "APS", "RAPS", "LAC": as papers write them
    if known in SCORES:
        return SCORES[known]()
    if known in ("pas", "prevalence"):
        raise ValueError(
            f"conformity={name!r} must know how often labels occur in training: pass "
            "aptset.Prevalence(collections.Counter(y_train))."
        )
    if name == AUTO:
        raise ValueError(
            "conformity must name a score here: 'auto' reserves rows to choose one, which calibrate() and "
            "ConformalClassifier can do. Choose with aptset.tune() on other rows and pass the score that it "
            "returns."
        )
    raise ValueError(
        f"conformity must be one of {names_of_scores()}, an object with of(places) or a function of places; "
        f"got {name!r}."
    )


def _check_fast_form(score: Any) -> None:
    """Refuse weights that the loops cannot take, or that mean another function than ``of``."""
    weights = getattr(score, "weights", None)
    if weights is None:
        return
    if not isinstance(weights, LinearScore):
        raise TypeError(f"conformity must have a LinearScore as weights; {score!r} has {weights!r}. {_WAY_OUT}")
    broken = broken_rule(weights)
    if broken is not None:
        raise ValueError(
            f"conformity must have weights that the loops can take; {score!r} has not: {broken}. {_WAY_OUT}"
        )
    if not hasattr(score, "of"):  # the weights alone say what it is
        return
    slow = Formula(None, _Checked(score))
    for u in (0.0, 0.375, 1.0):
        fast_scores, slow_scores = (
            all_scores_of_block(Rows(_TRIAL, formula, 0, 1e-9, u=np.full(len(_TRIAL), u)), 0, len(_TRIAL))[0]
            for formula in (Formula(weights), slow)
        )
        if not np.array_equal(fast_scores, slow_scores):
            raise ValueError(
                f"conformity must have weights that mean the same as its of(places), to the last bit; {score!r} scores "
                f"{fast_scores[fast_scores != slow_scores][0]!r} by weights and "
                f"{slow_scores[fast_scores != slow_scores][0]!r} by of. {_WAY_OUT}"
            )


def _order_of(labels: Any) -> tuple[Any, ...] | None:
    """Return the categories of an ordered categorical of pandas, from low to high; None for anything else."""
    dtype: Any = getattr(labels, "dtype", None)
    return tuple(dtype.categories.tolist()) if getattr(dtype, "ordered", None) is True else None


def for_classes(score: Score, classes: NDArray[Any], labels: Any = None) -> Score:
    """Return a checked score as it is computed for these classes: what it knows of labels goes to their columns.

    ``labels`` are those of calibration rows as they came: an ordered categorical has the order that a score may need.
    """
    if isinstance(score, Tempered | Gridded):
        return replace(score, score=for_classes(score.score, classes, labels))
    if isinstance(score, Ordered) and score.order is None:
        score = replace(score, order=_order_of(labels))
    bind = getattr(score, "for_classes", None)
    bound: Score = score if bind is None else bind(classes)
    return bound


def check_intervals(score: Score, by_label: bool) -> None:
    """Refuse a threshold for each label where sets must be intervals."""
    while isinstance(score, Tempered | Gridded):
        score = score.score
    if isinstance(score, Ordered) and by_label:
        raise ValueError(
            f"conformity={score!r} must have one threshold for all labels of a row, or sets have gaps; groups or "
            "weights by label give each its own. Group rows by a column, or take another score, such as 'adaptive'."
        )


def formula_of(score: Score) -> Formula:
    """Return a checked score as the loops take it."""
    if isinstance(score, Tempered):
        return replace(formula_of(score.score), power=float(score.power))
    if isinstance(score, Gridded):
        return replace(formula_of(score.score), grid=float(score.resolution))
    weights = getattr(score, "weights", None)
    if weights is not None:
        return Formula(weights)
    knows_fast = type(score) in (Ordered, Prevalence)  # a subclass may be another function
    return Formula(None, _Checked(score), fast=getattr(score, "fast", None) if knows_fast else None)


@dataclass(frozen=True)
class _Checked:
    """A score whose answers are looked at: a wrong shape or a missing number would give wrong sets in silence."""

    score: Score

    def __call__(self, places: Places) -> Floats:
        """Return the scores of a block of rows."""
        scores = self._scores(places)
        # A score that looks at other rows would make sets depend on the batch, and the promise void.
        if len(scores) > 1 and not np.array_equal(self._scores(places.first_row()), scores[:1]):
            raise ValueError(
                f"conformity must score each row from its own places alone; {self.score!r} scores a row differently "
                "when it comes with others. Use no sum or mean over the first axis."
            )
        return scores

    def _scores(self, places: Places) -> Floats:
        returned = self.score.of(places)
        try:
            scores = np.asarray(returned, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"conformity must return a matrix of numbers; {self.score!r} did not: {error}.") from error
        if scores.shape != places.own.shape:
            raise ValueError(
                f"conformity must return one score for every label, shape {places.own.shape} (rows, labels); "
                f"{self.score!r} returned shape {scores.shape}."
            )
        if not np.isfinite(scores).all():
            row, column = np.argwhere(~np.isfinite(scores))[0].tolist()
            raise ValueError(
                f"conformity must return finite scores; {self.score!r} returned {scores[row, column]} for a label with "
                f"mass {places.own[row, column]:g} and rank {places.rank[row, column]:g}. "
                "Labels without mass need a score too."
            )
        return scores


TEMPERED, GRIDDED, PREVALENCE = "tempered", "gridded", "prevalence"
_NAMED: dict[str, Any] = {**SCORES, "ordered": Ordered}
_AROUND: dict[str, Any] = {TEMPERED: Tempered, GRIDDED: Gridded}  # scores that hold another one


def describe_score(score: Score) -> dict[str, Any]:
    """Return the name and the settings of a score as plain values."""
    if isinstance(score, Tempered):
        return {"name": TEMPERED, "settings": {"power": float(score.power), "score": describe_score(score.score)}}
    if isinstance(score, Gridded):
        inner = describe_score(score.score)
        return {"name": GRIDDED, "settings": {"resolution": float(score.resolution), "score": inner}}
    if isinstance(score, Prevalence):
        counts = {"labels": list(score.counts), "counts": list(score.counts.values())}
        return {"name": PREVALENCE, "settings": counts}
    for name, kind in _NAMED.items():
        if type(score) is kind:
            return {"name": name, "settings": _settings(score)}
    if isinstance(score, OfFunction):
        return {"name": _address(score.function, score), "settings": None}
    if is_dataclass(score):
        return {"name": _address(type(score), score), "settings": _settings(score)}
    return {"name": _address_of_instance(score), "settings": None}


def _settings(score: Any) -> dict[str, Any]:
    settings = {}
    for field in fields(score):
        value = getattr(score, field.name)
        value = value.item() if isinstance(value, np.generic) else value
        is_tuple = isinstance(value, tuple)  # a list in the file
        plain = value if is_tuple else () if value is None else (value,)
        if not all(isinstance(item, str | bool | int | float) for item in plain):
            rule = "settings must be texts, numbers, booleans or tuples of them"
            raise _cannot_be_saved(score, f"its {field.name} is {value!r}, and {rule}")
        settings[field.name] = list(value) if is_tuple else value
    return settings


def _address(thing: Any, score: Score) -> str:
    """Return the "module:object" where something is found, if it is found there."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if module is None or not name or _at(module, name) is not thing:
        raise _cannot_be_saved(score, f"{name or thing!r} cannot be found in module {module!r}")
    return f"{module}:{name}"


def _address_of_instance(score: Score) -> str:
    """Return where an object that is no dataclass is found: under a name of its module."""
    module = type(score).__module__
    for name, value in vars(sys.modules.get(module, object)).items():
        if value is score:
            return f"{module}:{name}"
    raise _cannot_be_saved(score, f"it is no dataclass and has no name of its own in module {module!r}")


def _at(module: str, name: str) -> Any:
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _cannot_be_saved(score: Score, why: str) -> TypeError:
    return TypeError(
        f"conformity must have a name to be saved; {score!r} has none: {why}. Define it at the top of a module, as a "
        "function or as a frozen dataclass."
    )


def is_score(stored: dict[str, Any]) -> bool:
    """Tell whether a score is stored as a name and settings."""
    settings = stored.get("settings")
    is_named = stored.keys() == {"name", "settings"} and isinstance(stored["name"], str)
    return is_named and (settings is None or isinstance(settings, dict))


def find_score(
    path: str | Path, stored: dict[str, Any], scores: Mapping[str, Any] | None = None, trust: Collection[str] = ()
) -> Score:
    """Return the score that an artefact names; ``scores`` maps names to scores, ``trust`` lists modules to import.

    One with settings is made with those of the file, others are taken as they are.
    """
    name, settings = str(stored.get("name")), stored.get("settings")
    if not is_score(stored) or (name in (*_NAMED, *_AROUND, PREVALENCE) and settings is None):
        raise damaged(path, "its score has no name or no settings")
    if name == PREVALENCE:
        return _prevalence(path, settings or {})
    given = settings
    if name in _AROUND:
        inner = (settings or {}).get("score")
        if not isinstance(inner, dict) or inner.get("name") in (name, GRIDDED):
            raise damaged(path, f"its {name} score has no score")
        kind, given = _AROUND[name], {**(settings or {}), "score": find_score(path, inner, scores, trust)}
    else:
        kind = _NAMED[name] if name in _NAMED else _of_user(path, name, scores or {}, trust)
    if given is not None and not isinstance(kind, type):
        kind = type(kind)
    arguments = {key: tuple(item) if isinstance(item, list) else item for key, item in (given or {}).items()}
    try:
        score = check_conformity(kind(**arguments) if isinstance(kind, type) else kind)
    except (TypeError, ValueError, OverflowError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise damaged(path, f"its score {name!r} cannot be made ({why})") from error
    if name in _NAMED and _settings(score) != settings:
        raise damaged(path, f"its score {name!r} has other settings")
    return score


def _prevalence(path: str | Path, settings: dict[str, Any]) -> Prevalence:
    """Return the score of labels and their counts, in the order of the classes."""
    labels: Any = settings.get("labels")
    counts: Any = settings.get("counts")
    are_lists = settings.keys() == {"labels", "counts"} and isinstance(labels, list) and isinstance(counts, list)
    if not are_lists or len(labels) != len(counts):
        raise damaged(path, "its score must have a count for each label")
    check_stored_values(path, labels, "labels of its score")
    try:
        return Prevalence(dict(zip(labels, counts, strict=True)))
    except (TypeError, ValueError) as error:
        raise damaged(path, f"its score cannot be made ({str(error)[:200].rstrip('.')})") from error


def check_counted_classes(path: str | Path, score: Score, n_classes: int) -> None:
    """Refuse a score that counts other labels than there are classes."""
    while isinstance(score, Tempered | Gridded):
        score = score.score
    if isinstance(score, Prevalence) and len(score.counts) != n_classes:
        raise damaged(path, f"its score must have a count for each of its {n_classes} classes")
    if isinstance(score, Ordered) and len(score.columns or ()) != n_classes:
        raise damaged(path, f"its score must have a place for each of its {n_classes} classes")


def _of_user(path: str | Path, name: str, scores: Mapping[str, Any], trust: Collection[str]) -> Any:
    module, colon, attribute = name.partition(":")
    if name in scores:
        return scores[name]
    if not colon:
        raise damaged(path, f"this version knows no score {name!r}")
    if module not in ({trust} if isinstance(trust, str) else set(trust)):
        raise ValueError(
            f"scores must hold {name!r}, the score of {path}: aptset does not import code that a file names. "
            f"Pass scores={{{name!r}: ...}}, or trust=[{module!r}] to import it from there."
        )
    try:
        import_module(module)
    except ImportError as error:
        raise ValueError(f"{path} has the score {name!r}, whose module cannot be imported: {error}.") from error
    value = _at(module, attribute)
    if not _is_at_home(value, module, attribute):
        raise ValueError(f"{path} has the score {name!r}, which module {module!r} does not define (any more).")
    return value


def _is_at_home(value: Any, module: str, attribute: str) -> bool:
    """Tell whether a score was defined in the module: what the module only imported is not trusted with it."""
    if isinstance(value, type):
        return hasattr(value, "of") and (value.__module__, value.__qualname__) == (module, attribute)
    if hasattr(value, "__qualname__"):
        return bool((value.__module__, value.__qualname__) == (module, attribute))
    return value is not None and type(value).__module__ == module
