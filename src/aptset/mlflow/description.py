"""What a request to a logged model holds, and how it becomes rows: told when it is logged, read when it is served."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from mlflow.models.signature import ModelSignature
from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Map, ParamSchema, ParamSpec, Schema

from aptset import Calibration, ConformalClassifier
from aptset.core.row_seeds import is_missing
from aptset.core.store import damaged
from aptset.core.tables import matrix_of_table
from aptset.estimator.columns import ColumnOfFit, NamedColumns, missing_columns

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
