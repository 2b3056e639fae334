"""The models in a folder: skops reads them, and no type that nobody vouched for is opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from aptset.estimator.folders import broken, read_file

# Types that skops itself does not list, and that the models which people use are made of.
TRUSTED = (
    "collections.OrderedDict",
    "numpy.dtype",
    "catboost.core.CatBoostClassifier",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "aptset.estimator.columns",
    "sklearn._loss",
    "sklearn.ensemble._hist_gradient_boosting",
    "sklearn.metrics._dist_metrics",
    "sklearn.model_selection._split",
    "sklearn.neighbors._ball_tree",
    "sklearn.neighbors._kd_tree",
    "sklearn.tree._tree.Tree",
)


def need_skops() -> Any:
    """Return skops.io, or say how to get it."""
    try:
        import skops.io
    except ImportError as error:
        raise ModuleNotFoundError("A saved classifier needs skops: pip install 'aptset[save]'") from error
    return skops.io


def read_models(folder: Path, facts: dict[str, Any], trust: Collection[str]) -> dict[str, Any]:
    """Return the estimator, the models and the settings of the calibration; types that nobody vouched for are named."""
    skops = need_skops()
    content = read_file(folder, facts, "models")
    try:
        asked = skops.get_untrusted_types(data=content)
    except Exception as error:
        raise broken(folder, f"its models are no file of skops ({error})") from error
    unknown = [name for name in asked if not _is_trusted(name, (*TRUSTED, *trust))]
    if unknown:
        raise ValueError(
            f"{folder} holds {', '.join(unknown[:8])}, which nobody vouched for: to open it runs their code. If you "
            f"trust who made it, pass trust={unknown[:8]!r} (on the command line {_as_options(unknown[:8])})."
        )
    try:
        found = skops.loads(content, trusted=asked)
    except Exception as error:
        wrote = ", ".join(f"{name} {number}" for name, number in facts["versions"].items() if number)
        raise ValueError(
            f"{folder} has models that cannot be opened here: {' '.join(str(error).split())[:300]}. They were written "
            f"with {wrote}."
        ) from error
    is_whole = isinstance(found, dict) and found.keys() == {"estimator", "models", "calibration"}
    if not is_whole or len(found["models"]) != facts["n_models"]:
        raise broken(folder, "its models are incomplete")
    return dict(found)


def _as_options(names: list[str]) -> str:
    return " ".join(f"--trust {name}" for name in names)


def _is_trusted(name: str, trusted: Iterable[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in trusted)
