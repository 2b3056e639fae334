"""Models in the format of their own library, as MLflow's flavours write them; none of them is a pickle.

Each is read without MLflow's help: its reader of scikit-learn models trusts whatever names the folder itself says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset.core.store import check_stored_labels, storable_labels, unknown_kind
from aptset.estimator.stored_models import check_vouched, need_skops
from aptset.estimator.stored_trees import check_trees


def no_flavour(model: Any, why: str = "") -> TypeError:
    """Return the error about a model that cannot be written without a pickle."""
    return TypeError(
        "model must be one of scikit-learn, LightGBM, XGBoost, CatBoost, PyTorch or ONNX to be logged without a "
        f"pickle; got {type(model).__name__}{why}. Log a calibration of its probabilities, and serve those."
    )


class Boosted:
    """The booster of a LightGBM classifier, which gives probabilities and knows no labels."""

    def __init__(self, booster: Any, classes: NDArray[Any]) -> None:
        self.booster, self.classes_ = booster, classes

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return one column for each class."""
        given = np.asarray(self.booster.predict(X))
        return np.column_stack([1.0 - given, given]) if given.ndim == 1 else given


class Network:
    """A network of PyTorch, or a graph of ONNX, as a function from numbers to what it says of each class."""

    def __init__(self, run: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        self.run = run

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return what the network says, whether these are probabilities or logits."""
        return self.run(np.ascontiguousarray(X))


def _save_sklearn(model: Any, folder: Path, example: Any) -> None:
    import mlflow.sklearn

    skops = need_skops()
    try:
        names = check_vouched("the model", skops.dumps(model), ())
    except (TypeError, ValueError, RecursionError) as error:
        raise no_flavour(model, f" ({' '.join(str(error).split())[:200]})") from error
    settings = {"serialization_format": "skops", "skops_trusted_types": names}
    mlflow.sklearn.save_model(model, str(folder), pip_requirements=["scikit-learn", "skops"], **settings)


def _load_sklearn(folder: Path, classes: NDArray[Any] | None) -> Any:
    content = (folder / "model.skops").read_bytes()
    model = need_skops().loads(content, trusted=check_vouched(str(folder), content, ()))
    check_trees(str(folder), model)
    return model


def _save_lightgbm(model: Any, folder: Path, example: Any) -> None:
    import mlflow.lightgbm

    mlflow.lightgbm.save_model(getattr(model, "booster_", model), str(folder), pip_requirements=["lightgbm"])


def _load_lightgbm(folder: Path, classes: NDArray[Any] | None) -> Any:
    import lightgbm

    booster = lightgbm.Booster(model_file=str(folder / "model.lgb"))
    n_classes = max(2, booster.num_model_per_iteration())
    return Boosted(booster, np.arange(n_classes) if classes is None else classes)


def _save_xgboost(model: Any, folder: Path, example: Any) -> None:
    import mlflow.xgboost

    mlflow.xgboost.save_model(model, str(folder), pip_requirements=["xgboost"], model_format="ubj")


def _load_xgboost(folder: Path, classes: NDArray[Any] | None) -> Any:
    import xgboost

    model = xgboost.XGBClassifier()
    model.load_model(folder / "model.ubj")
    return model


def _save_catboost(model: Any, folder: Path, example: Any) -> None:
    import mlflow.catboost

    mlflow.catboost.save_model(model, str(folder), pip_requirements=["catboost"])


def _load_catboost(folder: Path, classes: NDArray[Any] | None) -> Any:
    import catboost

    model = catboost.CatBoostClassifier()
    model.load_model(str(folder / "model.cb"))
    return model


def as_taken(network: Any, rows: Any) -> Any:
    """Return rows as a tensor; numbers with a point have the type of the network's own."""
    import torch

    values = torch.as_tensor(np.asarray(rows))
    own = next((weights.dtype for weights in network.parameters()), torch.float32)
    return values.to(own) if values.is_floating_point() else values


def _save_torch(model: Any, folder: Path, example: Any) -> None:
    import mlflow.pytorch
    from mlflow.models.signature import ModelSignature
    from mlflow.types.schema import Schema, TensorSpec

    if example is None or len(example) < 2:
        raise ValueError(
            "input_example must be two rows or more for a network of PyTorch, as an array of what it takes: "
            "torch.export follows them through the network."
        )
    rows = as_taken(model, example).numpy()
    signature = ModelSignature(inputs=Schema([TensorSpec(rows.dtype, (-1, *rows.shape[1:]))]))
    settings = {"signature": signature, "input_example": rows, "serialization_format": "pt2"}
    mlflow.pytorch.save_model(model.eval(), str(folder), pip_requirements=["torch"], **settings)


def _load_torch(folder: Path, classes: NDArray[Any] | None) -> Any:
    import torch

    program = torch.export.load(folder / "data" / "model.pt2")
    network = program.module()
    wanted = program.example_inputs[0][0].dtype

    def run(rows: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            given: NDArray[Any] = network(torch.as_tensor(rows).to(wanted)).numpy()
        return given

    return Network(run)


def _save_onnx(model: Any, folder: Path, example: Any) -> None:
    import mlflow.onnx

    mlflow.onnx.save_model(model, str(folder), pip_requirements=["onnx", "onnxruntime"], save_as_external_data=False)


def _load_onnx(folder: Path, classes: NDArray[Any] | None) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    kind = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}[source.type]
    outputs = [one.name for one in session.get_outputs() if len(one.shape or ()) == 2] or [
        session.get_outputs()[-1].name
    ]
    wanted = "probabilities" if "probabilities" in outputs else outputs[0]
    return Network(lambda rows: np.asarray(session.run([wanted], {source.name: rows.astype(kind)})[0]))


class Flavour(NamedTuple):
    """How models of one library are recognised, written and read."""

    modules: tuple[str, ...]  # where the class, or one that it inherits from, is defined
    classes: tuple[str, ...]
    save: Callable[[Any, Path, Any], None]
    load: Callable[[Path, NDArray[Any] | None], Any]


FLAVOURS = {
    "lightgbm": Flavour(("lightgbm",), ("LGBMClassifier", "Booster"), _save_lightgbm, _load_lightgbm),
    "xgboost": Flavour(("xgboost",), ("XGBClassifier",), _save_xgboost, _load_xgboost),
    "catboost": Flavour(("catboost",), ("CatBoostClassifier",), _save_catboost, _load_catboost),
    "pytorch": Flavour(("torch",), ("Module",), _save_torch, _load_torch),
    "onnx": Flavour(("onnx",), ("ModelProto",), _save_onnx, _load_onnx),
    "sklearn": Flavour(("sklearn",), ("BaseEstimator",), _save_sklearn, _load_sklearn),
}


def flavour_of(model: Any) -> str:
    """Return the flavour of a model; refuse one that none of them can write."""
    for name, flavour in FLAVOURS.items():
        for kind in type(model).__mro__:
            if kind.__module__.split(".")[0] in flavour.modules and kind.__name__ in flavour.classes:
                return name
    raise no_flavour(model)


def save_native(model: Any, folder: Path, example: Any = None) -> dict[str, Any]:
    """Write a model into a folder of its own; return what must be known to read it again."""
    name = flavour_of(model)
    FLAVOURS[name].save(model, folder, example)
    classes = getattr(model, "classes_", None) if name == "lightgbm" else None
    return {"flavour": name, "classes": None if classes is None else storable_labels(np.asarray(classes))}


def load_native(folder: Path, stored: dict[str, Any]) -> Any:
    """Return a model that was written."""
    if stored["flavour"] not in FLAVOURS:
        raise unknown_kind(folder, "flavour", stored["flavour"])
    kept = stored["classes"]
    classes = None if kept is None else check_stored_labels(folder, kept, "classes")
    return FLAVOURS[stored["flavour"]].load(folder, classes)
