"""How a score stands in a file, and how it is found again: by name, never as code.

A score of the library goes by its name in ``SCORES``, one of the user's by "module:object", with its settings if it is
a dataclass: texts, numbers, booleans, or tuples of them. Nothing is imported that the caller did not name.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from aptset.core.store import check_stored_values, damaged
from aptset.scores import SCORES, Gridded, OfFunction, Ordered, Prevalence, Score, Tempered
from aptset.scores.conformity import check_conformity

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
    if dataclasses.is_dataclass(score):
        return {"name": _address(type(score), score), "settings": _settings(score)}
    return {"name": _address_of_instance(score), "settings": None}


def _settings(score: Any) -> dict[str, Any]:
    settings = {}
    for field in dataclasses.fields(score):
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
    """Return the score that an artefact names; ``scores`` maps names to scores, ``trust`` lists modules to import."""
    name, settings = str(stored.get("name")), stored.get("settings")
    if not is_score(stored) or (name in (*_NAMED, *_AROUND, PREVALENCE) and settings is None):
        raise damaged(path, "its score has no name or no settings")
    if name == PREVALENCE:
        return _prevalence(path, settings or {})
    if name in _AROUND:
        inner = (settings or {}).get("score")
        if not isinstance(inner, dict) or inner.get("name") in (name, GRIDDED):
            raise damaged(path, f"its {name} score has no score")
        return _made(path, name, _AROUND[name], {**(settings or {}), "score": find_score(path, inner, scores, trust)})
    return _made(path, name, _NAMED[name] if name in _NAMED else _of_user(path, name, scores or {}, trust), settings)


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


def _made(path: str | Path, name: str, value: Any, settings: dict[str, Any] | None) -> Score:
    """Return the score itself: one with settings is made with those of the file, others are taken as they are."""
    if settings is not None and not isinstance(value, type):
        value = type(value)
    arguments = {key: tuple(item) if isinstance(item, list) else item for key, item in (settings or {}).items()}
    try:
        score = check_conformity(value(**arguments) if isinstance(value, type) else value)
    except (TypeError, ValueError, OverflowError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise damaged(path, f"its score {name!r} cannot be made ({why})") from error
    if settings is not None and name in _NAMED and _settings(score) != settings:
        raise damaged(path, f"its score {name!r} has other settings")
    return score
