"""Models by name, from a module, with arguments, or from a file; and without their logs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier

from aptset.cli.artefacts import beside_the_user
from aptset.core.files import check_exists
from aptset.estimator.stored_models import check_vouched, need_skops
from aptset.estimator.stored_trees import check_trees


def check_call(name: str, tree: ast.AST | None) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the path, the arguments and the settings of module.Class(argument=value, ...)."""
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
        try:
            arguments = [ast.literal_eval(value) for value in tree.args]
            settings = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords if word.arg is not None}
            return ast.unparse(tree.func), arguments, settings
        except ValueError:
            pass
    raise ValueError(
        f"--model must be module.Class(argument=value, ...) with plain values: numbers, texts, lists; got {name!r}. "
        "For anything else write a function in a file of yours, and pass module:function."
    )


def _of_library(module: str, name: str, **settings: Any) -> Callable[[], Any]:
    return lambda: getattr(import_module(module), name)(**settings)


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=1000),
    "forest": lambda: RandomForestClassifier(n_estimators=200),
    "boosting": HistGradientBoostingClassifier,
    "bayes": GaussianNB,
    "neighbours": KNeighborsClassifier,
    "tree": DecisionTreeClassifier,
    "xgboost": _of_library("xgboost", "XGBClassifier", verbosity=0),
    "lightgbm": _of_library("lightgbm", "LGBMClassifier", verbose=-1),
    "catboost": _of_library("catboost", "CatBoostClassifier", verbose=0, allow_writing_files=False),
}
# What keeps a library from flooding the output, unless the user asked for its logs.
_QUIET: dict[str, dict[str, Any]] = {
    "LGBMClassifier": {"verbose": -1},
    "CatBoostClassifier": {"verbose": 0, "allow_writing_files": False},
}


def make_model(name: str, trust: Collection[str] = ()) -> Any:
    """Return an unfitted classifier from what --model says."""
    if name in MODELS:
        return _made(name)
    if name.endswith((".joblib", ".pkl", ".pickle", ".skops")):
        model = _of_file(check_exists(Path(name)), name, trust)
    elif name.endswith(")"):
        model = _of_call(name)
    elif ":" in name:
        model = _of_module(*name.split(":", 1))
    else:
        raise ValueError(
            f"--model must be one of {', '.join(MODELS)}, module:object, module.Class(argument=value), or a .skops or "
            f".joblib file; got {name!r}."
        )
    for method in ("fit", "predict_proba", "get_params"):
        if not hasattr(model, method):
            raise ValueError(
                f"--model must be a classifier with probabilities; {name} is a {type(model).__name__} without {method}."
            )
    return quiet(model)


def _made(name: str) -> Any:
    try:
        return MODELS[name]()
    except ImportError as error:
        raise ModuleNotFoundError(f"--model {name} needs {name}: pip install {name}") from error


def _of_file(path: Path, name: str, trust: Collection[str]) -> Any:
    if path.suffix == ".skops":
        content = path.read_bytes()
        names = check_vouched(f"--model {name}", content, trust)
        try:
            model = need_skops().loads(content, trusted=names)
            check_trees("it", model)  # a frozen model stays fitted
            return clone(model)
        except Exception as error:  # whatever a damaged file makes of classes of others
            why = " ".join(str(error).split())[:300]
            raise ValueError(f"--model {name} holds no model that can be opened here: {why}. Save it again.") from error
    if name not in trust and Path(name).name not in trust:
        raise ValueError(
            f"--model {name} is a pickle, and opening a pickle runs the code in it. If you made it yourself, "
            f"add --trust {name}. A file of skops.io.dump (.skops) is safer."
        )
    import joblib

    return clone(joblib.load(path))


def _of_call(name: str) -> Any:
    """Return what module.Class(argument=value, ...) makes; arguments are plain values."""
    path, arguments, settings = check_call(name, _parsed(name))
    module, _, attribute = path.rpartition(".")
    callee = _attribute(module, attribute, name)
    try:
        return callee(*arguments, **settings)
    except TypeError as error:
        raise ValueError(f"--model {name} cannot be made: {error}.") from error


def _parsed(name: str) -> ast.AST | None:
    try:
        return ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _of_module(module: str, attribute: str) -> Any:
    """Return a copy of an estimator, or what a class or a function makes."""
    value = _attribute(module, attribute, f"{module}:{attribute}")
    is_estimator = hasattr(value, "get_params") and not isinstance(value, type)
    return clone(value) if is_estimator else value()


def _attribute(module: str, attribute: str, name: str) -> Any:
    beside_the_user()
    try:
        value = getattr(import_module(module), attribute, None)
        if value is None:
            raise ValueError(f"there is no such object: {name!r}")
        return value
    except (ImportError, TypeError, ValueError) as error:
        raise ValueError(f"--model must be a model that can be imported; {name} cannot: {error}.") from error


def quiet(model: Any) -> Any:
    """Keep a model from writing to the output, unless it was told what to write."""
    inner = model.steps[-1][1] if isinstance(model, Pipeline) else model
    wanted = _QUIET.get(type(inner).__name__, {})
    given = inner.get_params() if wanted else {}
    said = any(given.get(name) is not None for name in ("verbose", "silent", "logging_level", "verbosity"))
    if wanted and not said:
        inner.set_params(**wanted)
    return model


def takes_raw_columns(model: Any) -> bool:
    """Tell whether a model prepares its columns itself: a pipeline does."""
    return isinstance(model, Pipeline)
