"""Rows of a table: to train on, with a target; or new ones, for a classifier that knows which columns it wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aptset.commands.checks import (
    check_columns,
    check_finite_features,
    check_no_regression,
    check_number_columns,
    check_target,
)
from aptset.commands.columns import Column, Plan, plan_columns
from aptset.commands.models import takes_raw_columns
from aptset.commands.reading import as_texts, kind_of, read_table
from aptset.estimator.columns import dates_of
from aptset.groups import is_grouping
from aptset.labels import as_objects


@dataclass(frozen=True)
class Choice:
    """What the user said about columns."""

    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    keep_text: bool = False


@dataclass(frozen=True)
class TableRows:
    """The rows of a table with a target."""

    plan: Plan
    features: pd.DataFrame
    labels: NDArray[Any]
    groups: NDArray[Any] | None

    def sliceable(self, rows: Any = None) -> pd.DataFrame | None:
        """Return the columns that slices are made of, dates as dates; texts of many values are left out."""
        frame = self.features if rows is None else self.features.iloc[rows]
        found = {name: frame[name] for name in self.plan.names("number", "category")}
        for column in self.plan.used:
            if column.kind == "date":
                found[column.name] = dates_of(frame[column.name], column.format)
        return pd.DataFrame(found, index=frame.index) if found else None


def read_rows(
    path: Path,
    target: str,
    groups: str | None,
    left_out: str | None = None,
    may_be_grouping: bool = True,
    choice: Choice | None = None,
    raw: bool = False,
) -> TableRows:
    """Return the features, the labels as texts, and the groups as texts if they are a column.

    A label is what is written in the file, as for every other command: only an empty cell has none.
    Where the calibration may group rows itself, "label" stands for that and not for a column. With ``raw``, for a model
    that prepares its columns itself, no column is left out but those that the user named.
    """
    choice = Choice() if choice is None else choice
    is_column = groups is not None and not (is_grouping(groups) and may_be_grouping)
    guessed = read_table(path)
    names = guessed.column_names
    check_columns(path, len(set(names)) == len(names), "distinct column names", names)
    for name in (target, groups if is_column else None, left_out, *choice.drop, *choice.features):
        check_columns(path, name is None or name in names, f"a column {name!r}", names)
    others = guessed.select([name for name in names if name not in (target, left_out)])
    plan = _with_all(plan_columns(others, choice.drop, choice.features, choice.keep_text), raw)
    check_columns(path, len(plan.used) > 0, _nothing_left(plan), names)
    # Read once more: as a label or a group a number is a text, as a feature it stays a number.
    table = read_table(path, (target, *plan.texts)) if kind_of(path) == "csv" else guessed
    labels = as_texts(table[target])
    check_no_regression(path, target, guessed[target], labels)
    check_target(path, target, labels)
    features = plan.frame(table)
    check_finite_features(path, features)
    by = as_objects(as_texts(read_table(path, (str(groups),))[groups])) if is_column else None
    return TableRows(plan, features, as_objects(labels), by)


def _with_all(plan: Plan, raw: bool) -> Plan:
    """Use every column that the user did not leave out, where a model prepares its columns itself."""
    if not raw:
        return plan
    kept = [
        Column(column.name, column.kind, column.values, column.missing, "" if not by_user else column.left_out)
        for column in plan.columns
        for by_user in [column.left_out in ("--drop", "not among --features")]
    ]
    return Plan(tuple(kept))


def _nothing_left(plan: Plan) -> str:
    reasons = "; ".join(f"{column.name}: {column.left_out}" for column in plan.columns[:5])
    return "at least one column besides the target that a model can use" + (f" ({reasons})" if reasons else "")


def model_for(path: Path, plan: Plan, model: Any, calibrations: Sequence[str]) -> Any:
    """Return a model behind the steps that its columns need, unless it takes them itself.

    Out of bag there are no steps: they would be fitted on the very rows that the trees must not have seen.
    """
    if takes_raw_columns(model):
        return model
    if "out-of-bag" not in calibrations:
        return plan.pipeline(model)
    others = plan.names("category", "date", "text")
    wanted = "columns of numbers alone for --calibration out-of-bag"
    way_out = f"leave out {_some(others)} (--drop), or pass --calibration bootstrap"
    check_columns(path, not others, f"{wanted}; {way_out}", plan.names())
    return model


@dataclass(frozen=True)
class NewRows:
    """Rows for a classifier that was saved by ``run``, and the columns that travel along."""

    features: pd.DataFrame
    groups: NDArray[Any] | None
    ids: NDArray[Any] | None
    others: dict[str, pa.Array]


def read_new_rows(path: Path, table: dict[str, Any], row_id: str | None, groups: str | None) -> NewRows:
    """Return the rows of a file as the classifier of a folder takes them."""
    plan = Plan.of_json(table["columns"])
    row_id, groups = row_id or table["id"], groups or table["groups"]
    written = read_table(path, tuple(read_table(path).column_names)) if kind_of(path) == "csv" else read_table(path)
    names = written.column_names
    check_columns(path, len(set(names)) == len(names), "distinct column names", names)
    missing = [name for name in (*plan.names(), row_id, groups) if name is not None and name not in names]
    check_columns(path, not missing, f"the columns that the model was trained on; missing: {_some(missing)}", names)
    typed = read_table(path, plan.texts, plan.names("number")) if kind_of(path) == "csv" else written
    check_number_columns(path, typed, plan.names("number"))
    features = plan.frame(typed)
    check_finite_features(path, features)
    by, ids = (None if name is None else as_objects(as_texts(written[name])) for name in (groups, row_id))
    others = {name: written[name].combine_chunks() for name in names}
    return NewRows(features, by, ids, others)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
