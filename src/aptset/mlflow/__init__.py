"""A flavour of MLflow: models that are logged, loaded and served with their prediction sets. mlflow is an extra."""

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("mlflow") is None:
    raise ModuleNotFoundError(f"aptset.mlflow needs mlflow: {install('mlflow')}")

from aptset.mlflow.flavour import load_model, log_evaluation, log_model, save_model
from aptset.mlflow.served import _load_pyfunc as _load_pyfunc  # which MLflow asks for by this name

__all__ = ["load_model", "log_evaluation", "log_model", "save_model"]
