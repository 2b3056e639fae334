"""What --model may be."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import Any


def unknown_model(name: str, names: list[str]) -> ValueError:
    """Return the error about a name that is none."""
    return ValueError(
        f"--model must be one of {', '.join(names)}, module:object, module.Class(argument=value), or a .skops or "
        f".joblib file; got {name!r}."
    )


def check_imported(name: str, found: Any) -> Any:
    """Refuse a name that its module does not have."""
    if found is None:
        raise ValueError(f"there is no such object: {name!r}")
    return found


def check_classifier(name: str, found: Any) -> Any:
    """Refuse what is no classifier with probabilities."""
    for method in ("fit", "predict_proba", "get_params"):
        if not hasattr(found, method):
            raise ValueError(
                f"--model must be a classifier with probabilities; {name} is a {type(found).__name__} without {method}."
            )
    return found


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


def check_pickle_trusted(name: str, trust: Collection[str]) -> None:
    """Refuse a pickle that the user did not vouch for."""
    if name not in trust and Path(name).name not in trust:
        raise ValueError(
            f"--model {name} is a pickle: to open it runs whatever code is in it. If you made it yourself, add "
            f"--trust {name}. A file of skops.io.dump (.skops) is safer."
        )
