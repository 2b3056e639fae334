"""The models in a folder, or in a file of skops: nothing is made that nobody vouched for by its exact name.

skops finds a name by ``getattr`` on its module, whatever it is, and some of its nodes call what they found. So the
file's own graph is read before skops makes anything of it. Each node must be of a kind that is known, and must name a
class or function that is listed here for that kind, or that the caller trusts, and that is defined where it says. A
module is never trusted as a whole: it holds all that it imports.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from aptset.core.store import damaged
from aptset.core.validate import install
from aptset.estimator.stored_trees import check_trees

_MARKS = {"__class__", "__module__", "__loader__", "__id__"}  # what tells a node of skops from other JSON
# Kinds of nodes that call what they name, or hand on a part of it: nothing is made of them unless the caller trusts it.
_CALLING = ("ConstructorFromReduceNode", "MethodNode", "OperatorFuncNode", "PartialNode", "QuantileForestNode")
_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_CACHE = "joblib.memory.Memory"  # what scikit-learn makes of a text in ``memory``: fit unpickles what lies there
# Modules whose objects have a tuple as their state, for Cython to read; all others are filled attribute by attribute.
_WITH_TUPLES = ("sklearn.metrics._dist_metrics", "sklearn.neighbors._ball_tree", "sklearn.neighbors._kd_tree")

_CONTAINERS = {
    "JsonNode": "builtins.str",
    "DictNode": "builtins.dict collections.OrderedDict sklearn.utils._bunch.Bunch",
    "DefaultDictNode": "collections.defaultdict",
    "ListNode": "builtins.list",
    "SetNode": "builtins.set",
    "TupleNode": "builtins.tuple",
    "SliceNode": "builtins.slice",
    "BytesNode": "builtins.bytes",
    "BytearrayNode": "builtins.bytearray",
    "MaskedArrayNode": "numpy.ma.MaskedArray numpy.ma.core.MaskedArray",
    "DTypeNode": "numpy.dtype",
    "RandomStateNode": "numpy.random.mtrand.RandomState",
    "RandomGeneratorNode": "numpy.random._generator.Generator",
    "TreeNode": "sklearn.tree._tree.Tree",
}
_TYPES = {
    "builtins": "bool dict float int list set str tuple",
    "collections": "OrderedDict",
    "sklearn.model_selection._split": "KFold StratifiedKFold",
}
_FUNCTIONS = {
    "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_oneway f_regression r_regression",
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
}
_LOSSES = {
    "sklearn._loss._loss": "CyAbsoluteError CyExponentialLoss CyHalfBinomialLoss CyHalfGammaLoss CyHalfMultinomialLoss "
    "CyHalfPoissonLoss CyHalfSquaredError CyHalfTweedieLoss CyHalfTweedieLossIdentity CyHuberLoss CyPinballLoss",
    "sklearn.linear_model._sgd_fast": "EpsilonInsensitive Hinge Huber Log ModifiedHuber SquaredEpsilonInsensitive "
    "SquaredHinge SquaredLoss",
}
# Where skops may have met a ufunc first: it does not know its module.
_HOMES_OF_UFUNCS = ("numpy._core._multiarray_umath", "scipy.special._ufuncs", "scipy.special._special_ufuncs")
_MATRICES = {f"scipy.sparse._{kind}": f"{kind}_array {kind}_matrix" for kind in ("bsr", "coo", "csc", "csr", "dia")}
_DISTANCES = (
    "BrayCurtis Canberra Chebyshev Dice Euclidean Hamming Haversine Jaccard Kulsinski Mahalanobis Manhattan Matching "
    "Minkowski RogersTanimoto RussellRao SEuclidean SokalMichener SokalSneath"
)
# Parts of fitted models that are no estimators themselves; skops fills them without calling them.
_PARTS = {
    "aptset.estimator.columns": "AsText DateParts OneText",
    "aptset.estimator.full_conformal": "FullModel KernelDensityClassifier",
    "aptset.estimator.leave_one_out": "LeaveOneOut",
    "catboost.core": "CatBoostClassifier",
    "lightgbm.basic": "Booster",
    "lightgbm.sklearn": "LGBMClassifier",
    "xgboost.core": "Booster",
    "xgboost.sklearn": "XGBClassifier",
    "sklearn._loss.link": "HalfLogitLink IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": "AbsoluteError ExponentialLoss HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss "
    "HalfPoissonLoss HalfSquaredError HalfTweedieLoss HalfTweedieLossIdentity HuberLoss PinballLoss",
    "sklearn.calibration": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "sklearn.compose._column_transformer": "make_column_selector",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.metrics._dist_metrics": " ".join(
        f"{name}Distance{bits}" for name in _DISTANCES.split() for bits in (32, 64)
    ),
    "sklearn.metrics._scorer": "_PassthroughScorer",
    "sklearn.model_selection._split": "GroupKFold GroupShuffleSplit KFold LeaveOneGroupOut LeaveOneOut LeavePGroupsOut "
    "LeavePOut PredefinedSplit RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedGroupKFold StratifiedKFold "
    "StratifiedShuffleSplit TimeSeriesSplit _CVIterableWrapper",
    "sklearn.neighbors._ball_tree": "BallTree BallTree32 BallTree64",
    "sklearn.neighbors._kd_tree": "KDTree KDTree32 KDTree64",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}


@cache
def vouched() -> dict[str, frozenset[str]]:
    """Return the names that need no trust, by the kind of node of skops that may make them."""
    import scipy.special
    from sklearn.utils import all_estimators

    estimators = {f"{kind.__module__}.{kind.__qualname__}" for _, kind in all_estimators()}
    scalars = {f"{kind.__module__}.{kind.__name__}" for kind in np.sctypeDict.values()}
    homes: list[Any] = [np, scipy.special, *map(sys.modules.get, _HOMES_OF_UFUNCS)]
    functions = {
        f"{home.__name__}.{name}"
        for home in homes
        if home
        for name, value in vars(home).items()
        if _is_ufunc(value, name)
    }
    allowed = {loader: set(names.split()) for loader, names in _CONTAINERS.items()}
    allowed |= {loader: set() for loader in _CALLING}
    allowed["TypeNode"] = scalars | _spelled(_TYPES)
    allowed["NdArrayNode"] = scalars | {"numpy.ndarray"}
    allowed["SparseMatrixNode"] = _spelled(_MATRICES)
    allowed["FunctionNode"] = functions | _spelled(_FUNCTIONS)
    allowed["LossNode"] = _as_written(_LOSSES)
    allowed["ObjectNode"] = estimators | _spelled(_PARTS)
    return {loader: frozenset(names) for loader, names in allowed.items()}


def _spelled(names: dict[str, str]) -> set[str]:
    return {f"{module}.{name}" for module, of_module in names.items() for name in of_module.split()}


def _as_written(names: dict[str, str]) -> set[str]:
    """Return the names that classes give themselves: of scikit-learn 1.6 those of losses begin with "_loss"."""
    own_names = set()
    for module, own in (name.rsplit(".", 1) for name in _spelled(names)):
        kind: Any = getattr(import_module(module), own, None)
        home = getattr(kind, "__module__", "")
        if kind is not None and getattr(sys.modules.get(home), own, None) is kind:  # nothing is imported by that name
            own_names.add(f"{home}.{own}")
    return own_names


def _is_ufunc(value: Any, name: str) -> bool:
    return isinstance(value, np.ufunc) and value.__name__ == name


def lives_there(name: str) -> bool:
    """Tell whether a class or function is defined in the module that its name says: imports live elsewhere."""
    module, _, attribute = name.rpartition(".")
    try:
        value = getattr(import_module(module), attribute, None)
    except ImportError:
        return False
    return _is_ufunc(value, attribute) or _is_defined(value, module, attribute)  # a ufunc does not know its module


def _is_own_method(name: str) -> bool:
    """Tell whether a class that lives where it says defines a method itself."""
    owner, _, attribute = name.rpartition(".")
    module, _, own = owner.rpartition(".")
    method = getattr(getattr(import_module(module), own), attribute, None) if lives_there(owner) else None
    return _is_defined(method, module, f"{own}.{attribute}")


def _is_defined(value: Any, module: str, name: str) -> bool:
    return (getattr(value, "__module__", None), getattr(value, "__qualname__", None)) == (module, name)


def need_skops() -> Any:
    """Return skops.io, or say how to get it."""
    try:
        import skops.io
    except ImportError as error:
        raise ModuleNotFoundError(f"A saved classifier needs skops: {install('save')}") from error
    return skops.io


def read_models(folder: Path, content: bytes, facts: dict[str, Any], trust: Collection[str]) -> dict[str, Any]:
    """Return the estimator, the models and the settings of the calibration; types that nobody vouched for are named."""
    skops = need_skops()
    names = check_vouched(str(folder), content, trust)
    try:
        model = skops.loads(content, trusted=names)
    except Exception as error:
        wrote = ", ".join(f"{name} {number}" for name, number in facts["versions"].items() if number)
        raise ValueError(
            f"{folder} has models that cannot be opened here: {' '.join(str(error).split())[:300]}. They were written "
            f"with {wrote}."
        ) from error
    check_trees(str(folder), model)
    is_whole = isinstance(model, dict) and model.keys() == {"estimator", "models", "calibration"}
    is_whole = is_whole and isinstance(model["models"], list) and isinstance(model["calibration"], dict)
    if not is_whole or len(model["models"]) != facts["n_models"]:
        raise damaged(folder, "its models are incomplete")
    return dict(model)


def check_vouched(where: str, content: bytes, trust: Collection[str]) -> list[str]:
    """Return all names in a file of skops; refuse it if one is neither listed nor trusted, or lives elsewhere.

    Nothing is imported for a name that is neither.
    """
    wanted, listed = _names_in(where, content), vouched()
    trusted = {trust} if isinstance(trust, str) else set(trust)  # a part of a text is no name
    unknown = sorted({name for kind, name in wanted if name not in listed[kind] | trusted})
    if unknown:
        options = " ".join(f"--trust {name}" for name in unknown[:8])
        raise ValueError(
            f"{where} holds {', '.join(unknown[:8])}, which are not known to be safe: opening the file runs "
            f"their code. If you trust who made it, pass trust={unknown[:8]!r} (on the command line {options})."
        )
    for kind, name in sorted(wanted):
        if not (_is_own_method(name) if kind == "MethodNode" else lives_there(name)):
            raise ValueError(
                f"{where} holds {name}, and no class or function of that name is defined there: it is not "
                "installed, it is gone, or it was imported from elsewhere, and is not known to be safe."
            )
    owners = {name.rpartition(".")[0] for kind, name in wanted if kind == "MethodNode"}
    return sorted({name for _, name in wanted} | owners)


def packages_in(where: str, content: bytes) -> set[str]:
    """Return the packages that a file of models names, without loading anything."""
    return {name.partition(".")[0] for _, name in _names_in(where, content)}


_OF_JSON = (ValueError, LookupError, TypeError, AttributeError)
_UNREADABLE = (*_OF_JSON, OSError, RuntimeError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


def _names_in(where: str, content: bytes) -> set[tuple[str, str]]:
    """Return the kind and the name of every node, read as JSON: skops has not seen the file yet."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            schema = json.loads(file.read("schema.json"))
        return {pair for node in _nodes(schema) for pair in _names_of(node)}
    except _UNREADABLE as error:
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"{where} is no intact file of skops: {why}. Make it again.") from error


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Give every node, wherever it stands; one number must stand for one object, for skops reads only its first."""
    if not isinstance(schema, dict) or not schema.keys() >= _MARKS - {"__id__"}:
        raise ValueError("it holds no object")
    first: dict[int, Any] = {}
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict) and _MARKS & value.keys():
            number = value.get("__id__")
            if number is not None and type(number) is not int:
                raise ValueError("the number of an object must be whole")
            known = value if number is None else first.setdefault(number, value)
            if known != value and _shape(known) != _shape(value):
                raise ValueError("it gives one number to two objects")
            yield value
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def _shape(value: Any) -> Any:
    """Return a node without numbers and names of files, which differ where one object was written twice."""
    if isinstance(value, dict):
        kept = value.keys() - {"__id__", "file", "protocol", "_skops_version"} if _MARKS & value.keys() else value
        return {key: _shape(value[key]) for key in kept}
    return [_shape(item) for item in value] if isinstance(value, list) else value


def _names_of(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the kind and every name of one node, also those that skops takes from the nodes below it."""
    loader, module, own = (node.get(mark) for mark in ("__loader__", "__module__", "__class__"))
    if loader not in vouched():
        raise ValueError(f"this version of aptset does not know its nodes of kind {str(loader)[:40]!r}")
    if not isinstance(module, str) or not isinstance(own, str) or not own.isidentifier():
        raise ValueError("its objects must have the names of classes and functions")
    if loader != "MethodNode":
        yield str(loader), f"{module}.{own}"
    more = _MORE.get(str(loader))
    if more is not None:
        yield from more(node, f"{module}.{own}")


def _of_method(node: dict[str, Any], owner: str) -> Iterable[tuple[str, str]]:
    content, obj = node["content"], node["content"]["obj"]
    if obj["__loader__"] != "ObjectNode" or f"{obj['__module__']}.{obj['__class__']}" != owner:
        raise ValueError("a method must be that of an object")
    yield "MethodNode", f"{owner}.{content['func']}"


def _of_function(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    if "content" in node:  # as the first versions of skops wrote it, with a second name
        raise ValueError("a function must be a name and nothing else")
    return ()


def _of_json(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    """Refuse all but single values: containers have nodes of their own, which are looked at."""
    if isinstance(json.loads(node["content"]), dict | list):
        raise ValueError("a value in JSON must be a number, a text, a boolean or null")
    return ()


def _of_dictionary(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    """Refuse what is no type among the types of keys, for skops calls them; name what scikit-learn makes of a text.

    The text may be the value itself or among those that a search tries: ``memory`` must be nothing at all.
    """
    kinds = node["key_types"]
    if kinds["__loader__"] != "ListNode" or any(kind["__loader__"] != "TypeNode" for kind in kinds["content"]):
        raise ValueError("the types of keys must be types")
    for key, value in node["content"].items():
        if "\0" in key:  # numpy's texts lose it
            raise ValueError("a key must not have a zero in it")
        is_nothing = value["__loader__"] == "JsonNode" and json.loads(value["content"]) is None
        if key.rpartition("__")[2] == "memory" and not is_nothing:
            yield "ObjectNode", _CACHE


def _of_attributes(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    """Refuse attributes that stand for methods of Python and numpy, and a state that does not name its attributes."""
    stored = node.get("content")
    kind = None if stored is None or stored.get("content") == "null" else stored["__loader__"]
    is_tuple = kind == "TupleNode" and (node["__module__"] in _WITH_TUPLES or name not in vouched()["ObjectNode"])
    if kind not in (None, "DictNode") and not is_tuple:
        raise ValueError("an object must be a dictionary of its attributes")
    for key in stored["content"] if stored and kind == "DictNode" else ():
        if key.startswith("__") and key.endswith("__"):
            raise ValueError(f"an object must not have an attribute {key[:40]!r}")
    return ()


def _of_tree(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    """Refuse a tree of several outputs: it would read as many numbers of classes, whether they are there or not."""
    given = node["__reduce__"]["args"]
    if given["__loader__"] != "TupleNode" or given["content"][2]["content"] != "1":
        raise ValueError("a tree must have one output")
    return ()


def _of_generator(node: dict[str, Any], name: str) -> Iterable[tuple[str, str]]:
    """Refuse the name of a bit generator that is none: skops calls what it finds under it."""
    inner = node["content"]["bit_generator"]
    stored = inner["content"]["bit_generator"]
    loaders = inner["__loader__"], stored["__loader__"]
    if loaders != ("DictNode", "JsonNode") or json.loads(stored["content"]) not in _BIT_GENERATORS:
        raise ValueError(f"a generator must be one of {', '.join(_BIT_GENERATORS)}")
    return ()


_MORE: dict[str, Callable[[dict[str, Any], str], Iterable[tuple[str, str]]]] = {
    "MethodNode": _of_method,
    "FunctionNode": _of_function,
    "JsonNode": _of_json,
    "DictNode": _of_dictionary,
    "ObjectNode": _of_attributes,
    "RandomGeneratorNode": _of_generator,
    "TreeNode": _of_tree,
}
