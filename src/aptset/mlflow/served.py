"""What a request to a logged model holds, how it becomes rows, and what is answered: a frame of prediction sets.

The description is written when a model is logged, and read by what ``mlflow.pyfunc`` loads.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.models.signature import ModelSignature
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Map, ParamSchema, ParamSpec, Schema
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from aptset import Calibration, ConformalClassifier, PredictionSets, load
from aptset.core.row_seeds import is_missing
from aptset.core.store import damaged
from aptset.core.tables import matrix_of_table
from aptset.estimator.columns import ColumnOfFit, NamedColumns, missing_columns
from aptset.estimator.models import LabelledModel
from aptset.mlflow.native_models import load_native

SETS, MODELS, ACCEPTANCE = "sets", "models", "acceptance.aptset"
Floats = NDArray[np.float64]
_FILE = "served.json"


@dataclass(frozen=True)
class Description:
    """What a request holds, and how it becomes rows of a model.

    Parameters
    ----------
    kind : {"frame", "numbers", "list", "arrays", "probabilities"}
        What the model takes: a frame by name, a matrix of numbers, a list of the values of one column (texts), an array
        whose rows are nested lists in one column; or nothing at all, since the request has probabilities.
    columns : list
        The columns of a request, in order; those of probabilities are the classes.
    id_column, group_column : str
        The column of ids, which may be left out; that of groups, if calibration was passed groups of rows.
    logits : bool
        Whether the model, or the request, gives logits in place of probabilities.
    alpha : float, optional
        The level of requests that name none; by default that of the classifier.
    models : list
        What must be known to read the models again.
    features : dict, optional
        The columns of the frame with their types, where a model comes with a calibration; a classifier knows its own.
    """

    kind: Literal["frame", "numbers", "list", "arrays", "probabilities"]
    columns: list[Any]
    id_column: str = "id"
    group_column: str | None = None
    logits: bool = False
    alpha: float | None = None
    models: list[dict[str, Any]] = field(default_factory=list)
    features: dict[str, Any] | None = None

    def write(self, folder: Path) -> None:
        """Write it as JSON."""
        (folder / _FILE).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Description:
        """Return what was written."""
        try:
            return cls(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
        except (OSError, TypeError, ValueError) as error:
            raise damaged(folder, f"its {_FILE} cannot be read", "Log the model again.") from error

    def rows(self, frame: Any) -> Any:
        """Return the rows of a request as the model takes them."""
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise missing_columns(missing, list(frame.columns))
        if self.kind == "frame":
            features = NamedColumns.of_json(self.features) if self.features else NamedColumns()
            return features.in_front(frame[self.columns])
        if self.kind == "list":
            return frame[self.columns[0]].tolist()
        if self.kind == "arrays":
            return np.array(frame[self.columns[0]].tolist())
        matrix, other = matrix_of_table(frame[self.columns])
        if matrix is None:  # a column of nulls alone holds objects
            matrix, other = matrix_of_table(frame[self.columns].map(lambda one: math.nan if is_missing(one) else one))
        if matrix is None:
            raise TypeError(f"column {other!r} must hold numbers.")
        return matrix


def groups_of(sets: Any) -> Any:
    """Return the groups of a calibration, or of that of a classifier."""
    return sets.held_out.groups if isinstance(sets, Calibration) else sets.fitted_.rule.groups


def has_groups_of_rows(sets: Any) -> bool:
    """Tell whether a request must say the group of each row: a column of X, or a function of it, needs no other."""
    setting = None if isinstance(sets, Calibration) else sets.fitted_.rule.group_setting
    by_itself = setting is not None and not (isinstance(setting, str) and setting == "label")
    return groups_of(sets).by_row and not by_itself


def described_by(sets: Any, model: Any, example: Any) -> Description:
    """Return which columns a request has, and what becomes of them."""
    if isinstance(sets, Calibration) and model is None:
        return Description("probabilities", [str(label) for label in sets.classes.tolist()])
    if isinstance(sets, ConformalClassifier):
        features = sets.fitted_.rule.columns
        model, names = sets, getattr(sets, "feature_names_in_", None)
    else:
        features = NamedColumns.of(example, model)
        names = getattr(model, "feature_names_in_", None)
    if not features.columns and names is not None:
        features = NamedColumns([ColumnOfFit(name, "") for name in np.asarray(names).tolist()])
    if features.columns and isinstance(features.names[0], str):
        columns = [*features.names, *_other_columns(sets, features)]
        of_model = features.as_json() if isinstance(sets, Calibration) else None
        return Description("frame", columns, features=of_model)
    return _unnamed(model, example)


def _other_columns(sets: Any, features: NamedColumns) -> list[Any]:
    """Return the column that groups come from, where a frozen model does not see it."""
    setting = None if isinstance(sets, Calibration) else sets.fitted_.rule.group_setting
    setting = setting[0] if isinstance(setting, tuple) else setting
    of_rows = groups_of(sets).by_row and isinstance(setting, str)
    return [setting] if of_rows and setting not in features.names else []


def _unnamed(model: Any, example: Any) -> Description:
    """Return the columns of rows without names."""
    n_columns = getattr(model, "n_features_in_", None)
    if n_columns is None and example is not None:
        if np.ndim(example) > 2:
            return Description("arrays", ["x"])
        n_columns = np.shape(example)[1] if np.ndim(example) == 2 else None
    if n_columns is not None:
        return Description("numbers", [str(number) for number in range(int(n_columns))])
    if isinstance(model, ConformalClassifier) or np.ndim(example) == 1:
        return Description("list", ["text"])
    raise ValueError("input_example must be passed, some rows as the model takes them: it does not know its columns.")


def signature_of(described: Description, acceptance: Any) -> ModelSignature:
    """Return what a request has, and what comes back.

    Columns are of any type: MLflow refuses whole numbers where it was told of floats, and makes a text of a null.
    """
    inputs = [ColSpec(AnyType(), str(name)) for name in described.columns]
    if described.group_column is not None:
        inputs.append(ColSpec(AnyType(), described.group_column))
    inputs.append(ColSpec(AnyType(), described.id_column, required=False))
    outputs = [
        ColSpec(Array(DataType.string), "set"),
        ColSpec(DataType.long, "size"),
        ColSpec(DataType.string, "guess"),
        *([] if acceptance is None else [ColSpec(DataType.boolean, "act")]),
        ColSpec(Map(DataType.double), "p_values", required=False),
    ]
    params = [
        ParamSpec("alpha", "double", None),
        ParamSpec("alphas", "string", None),
        ParamSpec("p_values", "boolean", False),
        ParamSpec("assurance", "double", None),
    ]
    return ModelSignature(Schema(inputs), Schema(outputs), ParamSchema(params))


class Refused(MlflowException):  # type: ignore[misc]
    """A request that cannot be answered, in one sentence: the server would put the whole request before it."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        super().__init__(sentence, error_code=INVALID_PARAMETER_VALUE)

    @property
    def message(self) -> str:
        """What is wrong."""
        return self._sentence

    @message.setter
    def message(self, text: str) -> None:
        """Keep the first sentence."""


@dataclass(frozen=True)
class RowsAsked:
    """What belongs to rows of a request besides the columns of the model."""

    ids: list[Any] | None
    groups: list[Any] | None
    u: Any


def levels_of(params: dict[str, Any]) -> list[Any]:
    """Return the levels that a request asks for; [None] for the model's own."""
    alpha, several = params.get("alpha"), params.get("alphas")
    if alpha is not None and several is not None:
        raise ValueError(f"alpha and alphas must not both be passed; got alpha={alpha!r} and alphas={several!r}.")
    asked = alpha if several is None else several
    if not isinstance(asked, str):
        return [asked]
    try:
        return [float(part) for part in asked.split(",")]
    except ValueError:
        raise ValueError(
            f'alphas must be levels in (0, 1) with commas between them, such as "0.05,0.1"; got {asked!r}.'
        ) from None


class PyfuncModel:
    """A classifier or a calibration behind ``mlflow.pyfunc``."""

    def __init__(self, folder: Path) -> None:
        self.description = Description.read(folder)
        self.sets, self.model = load_sets(folder, self.description)
        self.acceptance = load(folder / ACCEPTANCE) if (folder / ACCEPTANCE).exists() else None

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return a frame with ``set``, ``size`` and ``guess`` of each row, and ``act`` where acceptance was learned."""
        try:
            frame = model_input if isinstance(model_input, pd.DataFrame) else pd.DataFrame(model_input)
            return self._answer(frame, params or {})
        except (ValueError, TypeError) as error:
            raise Refused(" ".join(str(error).split())) from None

    def _answer(self, frame: Any, params: dict[str, Any]) -> Any:
        levels, assurance = levels_of(params), params.get("assurance")
        levels = [self.description.alpha] if levels == [None] else levels
        request = RowsAsked(self._values(frame, self.description.id_column), None, None)
        if self.description.group_column is not None:
            request = replace(request, groups=self._values(frame, self.description.group_column))
        chance = self.sets.chance if isinstance(self.sets, Calibration) else self.sets.fitted_.rule.chance
        if chance.source == "given":  # uniforms of the caller's, and a request has none
            request = replace(request, ids=None, u="fresh")
        rows = self.description.rows(frame)
        if self.model is not None:
            rows = self.model.predict_proba(rows)
        sets, p_values, probabilities = self._ask(rows, levels[0], assurance, request)
        of_levels = {"": sets}
        for level in levels[1:]:
            of_levels[f" {level:.10g}"] = self._ask(rows, level, assurance, request)[0]
        return self._frame(of_levels, p_values if params.get("p_values") else None, probabilities, request, frame.index)

    def _ask(self, rows: Any, alpha: Any, assurance: Any, request: RowsAsked) -> tuple[PredictionSets, Floats, Any]:
        """Return sets, p-values and probabilities (or logits) at one level."""
        given = {**asdict(request), "assurance": assurance}
        if isinstance(self.sets, Calibration):
            alpha = 0.1 if alpha is None else alpha
            return *self.sets.sets_and_p_values(rows, alpha, logits=self.description.logits, **given), rows
        answer: tuple[PredictionSets, Floats, Any] = self.sets._answer(rows, alpha, **given)
        return answer

    def _frame(
        self,
        of_levels: dict[str, PredictionSets],
        p_values: Floats | None,
        probabilities: Any,
        request: RowsAsked,
        index: Any,
    ) -> Any:
        columns: dict[str, Any] = {}
        for suffix, sets in of_levels.items():
            columns[f"set{suffix}"] = [texts_of(row) for row in sets]
            columns[f"size{suffix}"] = sets.sizes
        classes = of_levels[""].classes
        columns["guess"] = texts_of(classes[np.argmax(probabilities, axis=1)])
        if self.acceptance is not None:
            of_rows = replace(request, groups=None) if self.acceptance.is_one else request
            columns["act"] = self.acceptance.accept(probabilities, logits=self.description.logits, **asdict(of_rows))
        if p_values is not None:
            names = texts_of(classes)
            columns["p_values"] = [dict(zip(names, row, strict=True)) for row in np.asarray(p_values).tolist()]
        return pd.DataFrame(columns, index=index)

    def _values(self, frame: Any, name: str) -> list[Any] | None:
        """Return a column that is not the model's; None where it is left out, or empty."""
        values = frame[name].tolist() if name in frame.columns and name not in self.description.columns else []
        return None if all(map(is_missing, values)) else values


def texts_of(labels: NDArray[Any]) -> list[str]:
    """Return labels as texts."""
    return [str(label) for label in labels.tolist()]


def load_sets(folder: Path, description: Description) -> tuple[Any, Any]:
    """Return a classifier with its models and None, or a calibration and its model, if it has one."""
    models = [load_native(folder / MODELS / str(number), stored) for number, stored in enumerate(description.models)]
    sets = load(folder / SETS)
    if isinstance(sets, Calibration):
        return sets, models[0] if models else None
    if models:
        sets = with_models(sets, models)
    return sets, None


def with_models(classifier: Any, models: list[Any]) -> Any:
    """Return the classifier with these models behind the labels of those that it has."""
    fitted, kept = classifier.fitted_, []
    for place, model in zip(fitted.models, models, strict=True):
        if isinstance(place, LabelledModel):
            model = LabelledModel(model, place.labels)
        elif isinstance(place, FrozenEstimator):
            model = FrozenEstimator(model)
        kept.append(model)
    settings = classifier.get_params(deep=False)
    if isinstance(settings["estimator"], FrozenEstimator):
        settings["estimator"] = kept[0]
    return type(classifier)(**settings)._keep(replace(fitted, models=kept))


def _load_pyfunc(path: str) -> PyfuncModel:
    """Return what MLflow asks for predictions."""
    return PyfuncModel(Path(path))
