"""Rows of a table: to train on, with a target; or new ones, for a classifier that knows which columns it wants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aptset.arrow.formats import TableFile
from aptset.arrow.layout import as_texts
from aptset.cli.checks import check_columns, check_distinct_columns, shifted_rows
from aptset.cli.columns import Column, Plan, plan_columns
from aptset.cli.models import takes_raw_columns
from aptset.core.groups import is_grouping
from aptset.core.labels import as_objects
from aptset.estimator.columns import dates_of


def check_target(path: Path, target: str, labels: Any) -> None:
    """Refuse rows without a label."""
    if None in labels:
        raise ValueError(
            f"{path}, row {labels.index(None)}, column {target!r}: the label is missing. Drop such rows first."
        )


def check_finite_features(features: Any) -> None:
    """Refuse infinite numbers, which no model takes; missing ones are filled later."""
    for name in features.select_dtypes("number").columns:
        wrong = np.isinf(features[name].to_numpy())
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"row {row}, column {name!r}: numbers must be finite; got {features[name].iloc[row]}. "
                "Leave the cell empty if the value is missing."
            )


def check_no_regression(path: Path, target: str, values: Any, labels: Any) -> None:
    """Refuse a target that measures instead of naming: many numbers, hardly any of them twice."""
    import pyarrow as pa

    is_float, is_whole = pa.types.is_floating(values.type), pa.types.is_integer(values.type)
    if not (is_float or is_whole or pa.types.is_decimal(values.type)):
        return
    known = [label for label in labels if label is not None]
    distinct, has_parts = len(set(known)), any("." in label for label in known)
    if distinct > (20 if has_parts else max(50, len(labels) // 2)):
        raise ValueError(
            f"{path}: --target {target} must be labels; it has {distinct} different values, numbers: a regression "
            "problem. Cut it into classes first, or write a letter in front if the numbers are names."
        )


def check_number_columns(path: Path, table: Any, names: Sequence[str]) -> None:
    """Refuse columns that were numbers when a model was trained and are none now."""
    import pyarrow as pa

    for name in names:
        kind = table[name].type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_duration, pa.types.is_null)
        if not any(test(kind) for test in tests):
            raise ValueError(
                f"{path}: column {name!r} must hold numbers, as it did when the model was trained; it holds {kind}."
            )


@dataclass(frozen=True)
class ColumnChoice:
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
    clusters: pd.Series | None = None

    def sliceable(self, rows: Any = None) -> pd.DataFrame | None:
        """Return the columns that slices are made of, dates as dates; texts of many values are left out."""
        frame = self.features if rows is None else self.features.iloc[rows]
        columns = {name: frame[name] for name in self.plan.names("number", "category")}
        for column in self.plan.used:
            if column.kind == "date":
                columns[column.name] = dates_of(frame[column.name], column.format)
        return pd.DataFrame(columns, index=frame.index) if columns else None


def read_rows(
    file: TableFile,
    target: str,
    groups: str | None,
    left_out: str | None = None,
    may_be_grouping: bool = True,
    choice: ColumnChoice | None = None,
    raw: bool = False,
    cluster: str | None = None,
) -> TableRows:
    """Return the features, the labels as texts, and the groups as texts if they are a column.

    A label is what is written in the file, as for every other command: only an empty cell has none.
    Where the calibration may group rows itself, "label" stands for that and not for a column. With ``raw``, for a model
    that prepares its columns itself, no column is left out but those that the user named.
    """
    choice, path = ColumnChoice() if choice is None else choice, file.path
    is_column = groups is not None and not (is_grouping(groups) and may_be_grouping)
    guessed = file.table()
    names = guessed.column_names
    check_distinct_columns(path, names)
    for name in (target, groups if is_column else None, left_out, cluster, *choice.drop, *choice.features):
        check_columns(path, name is None or name in names, f"a column {name!r}", names, [str(name)])
    others = guessed.select([name for name in names if name not in (target, left_out, cluster)])
    plan = _with_all(plan_columns(others, choice.drop, choice.features, choice.keep_text), raw)
    check_columns(path, len(plan.used) > 0, _nothing_left(plan), names)
    # Read once more: as a label or a group a number is a text, as a feature it stays a number.
    table = file.table((target, *plan.texts)) if file.is_text else guessed
    labels = as_texts(table[target])
    check_no_regression(path, target, guessed[target], labels)
    check_target(path, target, labels)
    with shifted_rows(path, 0):
        features = plan.frame(table)
        check_finite_features(features)
    by = as_objects(as_texts(file.table((str(groups),))[groups])) if is_column else None
    members = None
    if cluster is not None:
        members = pd.Series(as_texts(file.table((cluster,))[cluster]), name=cluster, dtype=object)
    return TableRows(plan, features, as_objects(labels), by, members)


_NAMES_OF_CLUSTERS = re.compile(
    r"(^|[ _.-])(id|patient|subject|person|participant|donor|animal|mouse|family|household|site|hospital|clinic|centre"
    r"|center|document|session|device|user|customer|student|school|scene|video|speaker)"
    r"([ _.-]?(id|no|nr|number|code))?$",
    re.IGNORECASE,
)


def likely_cluster(file: TableFile, plan: Plan, taken: set[Any]) -> str | None:
    """Return a column that looks like an id with repeats: by its name, or texts of letters and digits like P0012.

    It must have at least 5 values, most of which come several times.
    """
    table = file.table()
    for column in plan.columns:
        values = table[column.name]
        if column.name in taken or column.left_out in ("--drop", "not among --features"):
            continue
        texts = [text for text in as_texts(values) if text is not None]
        times = Counter(texts)
        repeated = sum(count for count in times.values() if count > 1)
        if len(times) < 5 or 2 * len(times) > len(texts) or repeated < 0.8 * len(values):
            continue
        is_code = column.kind != "number" and all(re.fullmatch(r"[A-Za-z]{1,8}[ _.-]?\d+", text) for text in times)
        is_float = column.kind == "number" and any("." in text for text in times)
        is_named = _NAMES_OF_CLUSTERS.search(column.name) is not None or re.search(r"[a-z]I[Dd]$", column.name)
        if is_code or (is_named and not is_float and column.kind != "date"):
            return column.name
    return None


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
    way_out = f"leave out {some_of(others)} (--drop), or pass --calibration bootstrap"
    check_columns(path, not others, f"{wanted}; {way_out}", plan.names())
    return model


def some_of(names: Sequence[str]) -> str:
    """Return the first few names of a list in words."""
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
