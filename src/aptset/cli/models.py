"""Models by name, from a module, with arguments, or from a file; and without their logs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable
from fractions import Fraction
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

from aptset import Acceptance
from aptset.calibration.storage import STORE, read_calibration
from aptset.cli.probability_jobs import beside_the_user
from aptset.conformal.clusters import promise_about
from aptset.conformal.scheme import Promises
from aptset.core.files import check_exists
from aptset.core.store import stored_kind
from aptset.estimator.storage import check_table, read_folder
from aptset.estimator.stored_models import check_trees, check_vouched, need_skops, packages_in


def unknown_model(name: str, names: list[str]) -> ValueError:
    """Return the error about a name that is none."""
    return ValueError(
        f"--model must be one of {', '.join(names)}, module:object, module.Class(argument=value), or a .skops or "
        f".joblib file; got {name!r}."
    )


def check_imported(name: str, model: Any) -> Any:
    """Refuse a name that its module does not have."""
    if model is None:
        raise ValueError(f"there is no such object: {name!r}")
    return model


def check_classifier(name: str, model: Any) -> Any:
    """Refuse what is no classifier with probabilities."""
    for method in ("fit", "predict_proba", "get_params"):
        if not hasattr(model, method):
            raise ValueError(
                f"--model must be a classifier with probabilities; {name} is a {type(model).__name__} without {method}."
            )
    return model


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
            f"--model {name} is a pickle, and opening a pickle runs the code in it. If you made it yourself, "
            f"add --trust {name}. A file of skops.io.dump (.skops) is safer."
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
        raise unknown_model(name, list(MODELS))
    return quiet(check_classifier(name, model))


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
    check_pickle_trusted(name, trust)
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
        return check_imported(name, getattr(import_module(module), attribute, None))
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


class _Unseen:
    """Stands for a score of the user's own that only its name is wanted of."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def of(self, places: Any) -> Any:
        """Return something of the right shape."""
        return places.own


def facts_of(path: Path) -> dict[str, Any]:
    """Return what an artefact, or the folder of a classifier, says about itself."""
    if path.is_dir():
        return _of_folder(path)
    if stored_kind(path) in ("acceptance", "acceptance_threshold"):
        return _of_acceptance(path)
    name = STORE.read(path)[0]["score"]["name"]  # of the score, which is never needed here
    fields, facts = read_calibration(path, {name: _Unseen} if ":" in name else None)
    sizes = fields["held_out"].sizes.tolist()
    names = [", ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in _names(fields, facts)]
    scheme = fields.get("scheme")
    in_groups = "" if facts["groups"]["kind"] == "all" else " in every group"
    return {
        "file": str(path),
        **({} if scheme is None else {"calibration": scheme.name, "folds": len(fields["folds"])}),
        "score": facts["score"],
        "n": fields["held_out"].n,
        **_clusters(fields["held_out"]),
        **_weights(facts, names),
        **({"alphas": [float(Fraction(level)) for level in facts["levels"]]} if "levels" in facts else {}),
        "classes": facts["classes"]["values"],
        "groups": {"kind": facts["groups"]["kind"], "sizes": dict(zip(names, sizes, strict=True))},
        "randomized": facts["randomized"],
        "promise": _promise(fields, in_groups),
        **({} if facts.get("weights") else {"smallest_alpha": 1 / (_fewest_rows(fields["held_out"]) + 1)}),
        "scores_hash": facts["scores_hash"],
        "library": facts["library"],
        "created": facts["created"],
        "format": facts["format"],
    }


def _names(fields: dict[str, Any], facts: dict[str, Any]) -> Any:
    """Return the names of groups as they are stored; cells of rows and labels are stored by number."""
    groups = fields["held_out"].groups
    return facts["groups"]["names"] if groups.rows is None else groups.names


def _clusters(held_out: Any) -> dict[str, Any]:
    """Return what an artefact says about rows that belong together, if they do."""
    if held_out.clusters is None:
        return {}
    return {"rows": held_out.rows, "clusters": held_out.clusters.nouns}


def _weights(facts: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return what an artefact says about weights, if it has any."""
    if facts.get("weights") is None:
        return {}
    ratios, sizes = facts["weights"]["ratios"], facts["weights"]["effective_size"]
    corrected = " with corrected columns" if facts["weights"]["prior_correction"] else ""
    size = sizes[0] if facts["groups"]["kind"] == "all" else dict(zip(names, sizes, strict=True))
    return {"weights": "of rows" if ratios is None else f"of labels{corrected}", "effective_size": size}


def _fewest_rows(held_out: Any) -> int:
    """Return the rows of the smallest group: of overlapping ones not that of a combination, which has no promise."""
    overlap = held_out.groups.overlap
    sizes = held_out.sizes if overlap is None else [*held_out.overlapping.sizes_of({*overlap.names}).values()]
    return int(min(sizes))


def _promise(fields: dict[str, Any], in_groups: str) -> str:
    within = in_groups + promise_about(fields["held_out"].clusters)
    within += ", if the weights are right" if fields["held_out"].has_weights else ""
    if "scheme" not in fields:
        return f"coverage >= 1 - alpha{within}"
    promises, alpha = Promises.of(fields["scheme"], fields["held_out"]), Fraction(1, 10)
    reason = promises.reason_of_nothing(alpha)
    return f"none, {reason}" if reason else f"coverage >= {float(promises.coverage(alpha)):.4g} at alpha = 0.1{within}"


def _of_acceptance(path: Path) -> dict[str, Any]:
    """Return what rows for decisions, or a threshold made of them, say about themselves."""
    from aptset.calibration.stored_acceptance import STORE as OF_ACCEPTANCE
    from aptset.calibration.stored_acceptance import load_acceptance

    (facts, _), rule = OF_ACCEPTANCE.read(path), load_acceptance(path)
    known = {"n": rule.n, "n_wrong": rule.n_wrong} if isinstance(rule, Acceptance) else {"promise": rule.sentence()}
    by = {"guess": "predicted label", "own guess": "guess", "group": "group", "none": "none"}[facts["by"]]
    names = {"confidence": facts["confidence"], "by": by, "names": list(map(str, facts["names"]))}
    return {"file": str(path), **known, **names, **{name: facts[name] for name in ("library", "created", "format")}}


def _of_folder(folder: Path) -> dict[str, Any]:
    facts, _ = read_folder(folder)
    table = {"target": None, "columns": []} if facts["table"] is None else check_table(folder, facts)
    return {
        "file": str(folder),
        "calibration": facts["scheme"].get("name"),
        "score": facts["score"],
        "alpha": facts["settings"].get("alpha"),
        "n": facts["n"],
        **({} if facts.get("training_rows") is None else {"training_rows": facts["training_rows"][1]}),
        "models": facts["n_models"],
        "classes": facts["classes"]["values"],
        "groups": {"kind": facts["groups"]["kind"], "sizes": {}},
        "randomized": facts["randomized"],
        "target": table["target"],
        "columns": [column["name"] for column in table["columns"] if not column["left_out"]],
        "versions": _versions(folder, facts),
        "library": facts["library"],
        "created": facts["created"],
        "format": facts["format"],
    }


def _versions(folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the versions of the libraries that the models use; earlier folders list others, too."""
    path = folder / facts["models"]["name"]
    try:
        used = packages_in(str(path), path.read_bytes())
    except (OSError, ValueError):  # which a load would refuse
        return dict(facts["versions"])
    boosters = {"xgboost", "lightgbm", "catboost"} - used
    return {name: version for name, version in facts["versions"].items() if name not in boosters}


def facts_in_words(facts: dict[str, Any]) -> str:
    """Return facts as lines; labels that are numbers come in their order, and settings as they are written."""
    return "\n".join(f"{name.replace('_', ' '):<15} {_words(name, value)}" for name, value in facts.items())


def _words(name: str, value: Any) -> str:
    if name == "score":
        shown = {key: len(one) if isinstance(one, list) else one for key, one in (value["settings"] or {}).items()}
        settings = ", ".join(f"{key}={one}" for key, one in shown.items())
        return f"{value['name']}({settings})" if settings else str(value["name"])
    if name == "groups":
        sizes = ", ".join(f"{key}: {value['sizes'][key]:,}" for key in in_order(value["sizes"]))
        kinds = {"all": "none", "label": "each label", "band": "bands of labels", "row": "by row"}
        kinds["pair"] = "each label in each group of rows"
        kinds["overlap"] = "overlapping, by combination"
        return kinds[value["kind"]] + (f" ({sizes})" if sizes else "")
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words('', one)}" for key, one in value.items() if one is not None)
    if isinstance(value, list):
        ordered = in_order(value) if name == "classes" else value
        return ", ".join(map(str, ordered[:20])) + (f" and {len(value) - 20} more" if len(value) > 20 else "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Return labels in order: as numbers if all of them are numbers, else as texts."""
    ordered = list(labels)
    try:
        return sorted(ordered, key=float)
    except (TypeError, ValueError):
        return sorted(ordered, key=str)
