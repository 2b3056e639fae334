"""A flavour of MLflow: models that are logged, loaded and served with their prediction sets, without a pickle.

A logged folder holds the aptset store (``data/aptset/sets``) and each model in the flavour of its own library
(``data/aptset/models/0``, ...), which MLflow can load alone. mlflow is an extra.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aptset.core.validate import install

if find_spec("mlflow") is None:
    raise ModuleNotFoundError(f"aptset.mlflow needs mlflow: {install('mlflow')}")

import mlflow
from mlflow.models import Model
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator

from aptset import AcceptanceThreshold, Calibration, ConformalClassifier, evaluate, report
from aptset.core.levels import check_level
from aptset.estimator.models import LabelledModel, Member
from aptset.mlflow.native_models import as_taken, flavour_of, save_native
from aptset.mlflow.served import (
    ACCEPTANCE,
    MODELS,
    SETS,
    Description,
    described_by,
    groups_of,
    has_groups_of_rows,
    load_sets,
    signature_of,
)
from aptset.mlflow.served import _load_pyfunc as _load_pyfunc  # which MLflow asks for by this name

__all__ = ["load_model", "log_evaluation", "log_model", "save_model"]

_DATA = "data/aptset"  # where MLflow puts a folder of that name
_ALWAYS = ("aptset", "numpy", "pandas", "scikit-learn", "skops")
_OF_FLAVOUR = {
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "catboost": "catboost",
    "pytorch": "torch",
    "onnx": "onnxruntime",
}


def save_model(
    sets: Any,
    path: str | Path,
    model: Any = None,
    *,
    acceptance: AcceptanceThreshold | None = None,
    alpha: float | None = None,
    logits: bool = False,
    input_example: Any = None,
    id_column: str = "id",
    group_column: str = "group",
    metadata: Mapping[str, Any] | None = None,
    pip_requirements: list[str] | None = None,
    mlflow_model: Model | None = None,
) -> None:
    """Write a folder that MLflow loads, serves and deploys as a model of prediction sets.

    Parameters
    ----------
    sets : ConformalClassifier or Calibration
        A fitted classifier, with its models; or a calibration, alone or with ``model``.
    path : path
        A folder that is not there yet.
    model : classifier, network or graph, optional
        With a calibration: the model whose probabilities were calibrated, of scikit-learn, LightGBM, XGBoost, CatBoost,
        PyTorch or ONNX. Without it, a request holds probabilities, one column for each class.
    acceptance : AcceptanceThreshold, optional
        When to act on a guess: the frame then has a column ``act``. See :func:`aptset.learn_acceptance`.
    alpha : float, optional
        The level of requests that name none; by default that of the classifier, 0.1 for a calibration.
    logits : bool, default=False
        Whether the model (or a request without one) gives logits; for a calibration only.
    input_example : array or data frame, optional
        Rows as the model takes them, where a calibration comes with a model that does not know its columns.
    id_column : str, default="id"
        The column of a request that names its rows. It may be left out; u then comes from the content.
    group_column : str, default="group"
        The column with the group of each row, where groups were passed to ``fit`` or ``calibrate``.
    metadata : mapping, optional
        Kept with the model, beside what aptset says of it.
    pip_requirements : list of str, optional
        By default aptset and the libraries of the models, in the versions that are installed.
    mlflow_model : mlflow.models.Model, optional
        What MLflow passes when the model is logged.

    Examples
    --------
    >>> import aptset.mlflow, mlflow, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     aptset.mlflow.save_model(classifier, f"{folder}/model")
    ...     served = mlflow.pyfunc.load_model(f"{folder}/model")
    ...     frame = served.predict(X.iloc[:2], params={"alpha": 0.05})
    >>> frame.columns.tolist(), frame["set"].tolist()
    (['set', 'size', 'guess'], [['0'], ['0']])
    """
    _check(sets, model, acceptance, logits)
    if alpha is not None:
        check_level(alpha)
    described = described_by(sets, model, input_example)
    described = replace(described, id_column=id_column, logits=logits, alpha=alpha)
    if has_groups_of_rows(sets):
        described = replace(described, group_column=group_column)
    for name in (id_column, described.group_column):
        if name is not None and name in described.columns:
            raise ValueError(f"id_column and group_column must not name a column of the model; got {name!r}.")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / Path(_DATA).name
        (data / MODELS).mkdir(parents=True)
        described = _write_models(sets, model, data, described, input_example)
        described.write(data)
        if acceptance is not None:
            acceptance.save(data / ACCEPTANCE)
        whole = Model() if mlflow_model is None else mlflow_model
        facts = _facts(sets, described)
        whole.add_flavor("aptset", aptset_version=facts["versions"]["aptset"], data=_DATA, kind=type(sets).__name__)
        with warnings.catch_warnings():  # MLflow asks for an example of rows, to guess a signature that is known here
            warnings.filterwarnings("ignore", message=".*input example was not provided")
            mlflow.pyfunc.save_model(
                str(path),
                loader_module="aptset.mlflow",
                data_path=str(data),
                mlflow_model=whole,
                signature=signature_of(described, acceptance),
                metadata={**(whole.metadata or {}), **(metadata or {}), "aptset": facts},
                pip_requirements=pip_requirements or [f"{name}=={one}" for name, one in facts["versions"].items()],
            )


def log_model(
    sets: Any,
    name: str = "sets",
    model: Any = None,
    *,
    test: tuple[Any, Any] | None = None,
    registered_model_name: str | None = None,
    **settings: Any,
) -> Any:
    """Log a model of prediction sets to the active run of MLflow, or to a new one.

    Parameters
    ----------
    sets, model
        As in :func:`save_model`.
    name : str, default="sets"
        The name of the logged model.
    test : pair of rows and labels, optional
        Rows that neither trained nor calibrated: :func:`log_evaluation` logs what the sets are worth on them.
    registered_model_name : str, optional
        Register the model under this name, too.
    **settings
        As in :func:`save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Examples
    --------
    >>> import aptset.mlflow, mlflow
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> classifier = aptset.ConformalClassifier(GaussianNB(), random_state=0).fit(X[::2], y[::2])
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     info = aptset.mlflow.log_model(classifier, test=(X[1::2], y[1::2]))
    >>> mlflow.pyfunc.load_model(info.model_uri).predict(X[:2])  # doctest: +SKIP
    """
    flavour = sys.modules["aptset.mlflow"]
    info = Model.log(
        None, flavour, name=name, sets=sets, model=model, registered_model_name=registered_model_name, **settings
    )
    if test is not None:
        log_evaluation(sets, *test, model=model, logits=settings.get("logits", False), alpha=settings.get("alpha"))
    return info


def log_evaluation(
    sets: Any, X: Any, y: Any, *, model: Any = None, alpha: float | None = None, logits: bool = False
) -> Any:
    """Log what sets are worth on labelled rows: numbers as metrics, tables and the report's page as artefacts.

    Parameters
    ----------
    sets : ConformalClassifier or Calibration
        What was logged.
    X, y : rows and labels
        That neither trained nor calibrated; of a calibration without a model, probabilities.
    model, alpha, logits
        As in :func:`save_model`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import aptset.mlflow, mlflow
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     aptset.mlflow.log_evaluation(classifier, X_test, y_test, alpha=0.05)
    """
    is_calibration = isinstance(sets, Calibration)
    rows = X if model is None else _says(model, X)
    level = (0.1 if is_calibration else sets.alpha) if alpha is None else alpha
    how: dict[str, Any] = {"logits": logits} if is_calibration else {}
    made, p_values = sets.sets_and_p_values(rows, level, **how)
    evaluation = evaluate(made, y, alpha=level, p_values=p_values)
    with tempfile.TemporaryDirectory() as folder:
        report(sets, rows, y, Path(folder) / "report.html", alpha=level, **how)
        evaluation.to_frame().to_csv(Path(folder) / "evaluation.csv", index=False)
        mlflow.log_artifacts(folder, "aptset")
    mlflow.log_metrics({metric.name: float(estimate) for metric, estimate in evaluation.estimates()})
    mlflow.log_params({"aptset_alpha": level, "aptset_test_rows": len(made)})
    return evaluation


def _says(model: Any, X: Any) -> Any:
    """Return what a model says of rows."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    if flavour_of(model) != "pytorch":
        raise TypeError("X must be the probabilities of the rows for a model without predict_proba; leave model out.")
    return model(as_taken(model, X)).detach().numpy()


def load_model(model_uri: str, dst_path: str | None = None) -> Any:
    """Return the classifier, or the calibration, of a logged model.

    Parameters
    ----------
    model_uri : str
        As MLflow names models: "models:/name/1", "runs:/...", or a folder.
    dst_path : str, optional
        Where a model from elsewhere is put.

    Returns
    -------
    ConformalClassifier or Calibration
        The model of a calibration is loaded by MLflow's own flavour, from ``{model_uri}/data/aptset/models/0``.

    Examples
    --------
    >>> import aptset.mlflow, tempfile
    >>> calibration = aptset.calibrate([[0.75, 0.25]] * 20, [0] * 20, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     aptset.mlflow.save_model(calibration, f"{folder}/model")
    ...     aptset.mlflow.load_model(f"{folder}/model")
    Calibration(n=20, 2 classes, Adaptive())
    """
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path)) / _DATA
    return load_sets(folder, Description.read(folder))[0]


def _check(sets: Any, model: Any, acceptance: Any, logits: bool) -> None:
    """Refuse what cannot be served."""
    if not isinstance(sets, ConformalClassifier | Calibration):
        raise TypeError(
            f"sets must be a fitted ConformalClassifier or a Calibration; got {type(sets).__name__}. Folds that were "
            "trained elsewhere have several models, and a request asks one."
        )
    if isinstance(sets, ConformalClassifier) and (model is not None or logits):
        raise ValueError("model and logits must be left out for a ConformalClassifier, which has its models.")
    if acceptance is not None and not isinstance(acceptance, AcceptanceThreshold):
        raise TypeError(
            f"acceptance must be an AcceptanceThreshold; got {type(acceptance).__name__}. Pass "
            "acceptance.threshold(error=0.05), for instance."
        )
    if isinstance(sets, ConformalClassifier):
        sets._fitted()
    if groups_of(sets).overlaps:
        raise ValueError("sets must not have overlapping groups to be served: a request has one group for each row.")


def _write_models(sets: Any, model: Any, data: Path, described: Description, example: Any) -> Description:
    """Write the store, and each model in its own flavour."""
    if isinstance(sets, Calibration):
        sets.save(data / SETS)
        if model is None:
            return described
        return replace(described, models=[save_native(model, data / MODELS / "0", example)])
    fitted = sets.fitted_
    if isinstance(fitted.models[0], Member):  # of one forest, which the store keeps
        sets.save(data / SETS)
        return described
    natives = [_native(model) for model in fitted.models]
    stored = [save_native(native, data / MODELS / str(number)) for number, native in enumerate(natives)]
    settings = sets.get_params(deep=False)
    if isinstance(settings["estimator"], FrozenEstimator):
        settings["estimator"] = FrozenEstimator(DummyClassifier())
    places = [_place_of(model) for model in fitted.models]
    ConformalClassifier(**settings)._keep(replace(fitted, models=places)).save(data / SETS)
    return replace(described, models=stored)


def _native(model: Any) -> Any:
    if isinstance(model, LabelledModel):
        return model.model
    return model.estimator if isinstance(model, FrozenEstimator) else model


def _place_of(model: Any) -> Any:
    """Return what stands in the store for a model that is beside it."""
    if isinstance(model, LabelledModel):
        return LabelledModel(DummyClassifier(), model.labels)
    return FrozenEstimator(DummyClassifier()) if isinstance(model, FrozenEstimator) else DummyClassifier()


def _facts(sets: Any, described: Description) -> dict[str, Any]:
    """Return what is promised, and what it rests on, as plain values."""
    is_calibration = isinstance(sets, Calibration)
    alpha = described.alpha if described.alpha is not None else 0.1 if is_calibration else sets.alpha
    classes = sets.classes if is_calibration else sets.classes_
    of_models = {_OF_FLAVOUR.get(one["flavour"]) for one in described.models} - {None}
    wanted = (*_ALWAYS, *sorted(map(str, of_models)))
    return {
        "guarantee": _plain(sets.guarantee(alpha)),
        "alpha": _plain(alpha),
        "n": int(sets.n if is_calibration else sets.n_calibration_),
        "score": repr(sets.conformity if is_calibration else sets.conformity_),
        "scheme": "split" if is_calibration else sets.fitted_.rule.scheme.name,
        "classes": [str(label) for label in classes.tolist()],
        "groups": groups_of(sets).kind,
        "versions": {name: number for name in wanted if (number := _version(name)) is not None},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): float(part) for name, part in value.items()}
    return float(value)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
