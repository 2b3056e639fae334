"""What ``mlflow.pyfunc`` loads: rows and parameters of a request in, a frame of prediction sets out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from aptset import Calibration, PredictionSets, load
from aptset.core.row_seeds import is_missing
from aptset.estimator.models import LabelledModel
from aptset.mlflow.description import Description
from aptset.mlflow.native_models import load_native

SETS, MODELS, ACCEPTANCE = "sets", "models", "acceptance.aptset"
Floats = NDArray[np.float64]


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
