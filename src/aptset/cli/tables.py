"""Rows of a table: to train on, with a target; or new ones, for a classifier that knows which columns it wants."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from aptset.arrow.formats import TableFile
from aptset.arrow.sources import as_texts
from aptset.cli.columns import Plan, Writing, is_missing, plan_columns
from aptset.cli.files import about_skipped, check_distinct_columns, check_some_labelled, in_file, lacks
from aptset.cli.models import takes_raw_columns
from aptset.core.dates import Times, dates_of, read_times
from aptset.core.groups import is_grouping
from aptset.core.labels import TRUTH, as_objects, plain_label
from aptset.core.validate import warn_caller

WAY_OF_DATES = "Pass --dates day-first, or --dates month-first."


def check_target(path: Path, target: str, labels: Any) -> None:
    """Refuse rows without a label."""
    if None in labels:
        n_missing = sum(label is None for label in labels)
        raise ValueError(
            f"{path}, row {labels.index(None)}, column {target!r}: the label is missing, as in {n_missing:,} of "
            f"{len(labels):,} rows. Pass --skip-unlabelled to leave such rows out."
        )


_WHOLE, _DECIMAL = re.compile(r"-?(0|[1-9]\d{0,17})"), re.compile(r"-?\d{1,15}\.\d{1,15}")


def typed_labels(texts: Sequence[str], kind: Any = None) -> NDArray[Any]:
    """Return labels as what they are: whole numbers, truth values, other numbers, or texts.

    ``kind`` is the type of the column in a file that has types: there a text stays one. 007 is a text, and not 7.
    """
    is_text = kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))
    different = [] if is_text else list(dict.fromkeys(texts))
    if different and all(_WHOLE.fullmatch(text) for text in different):
        return np.array([int(text) for text in texts], dtype=np.int64)
    if different and all(text.lower() in TRUTH for text in different):
        return np.array([TRUTH[text.lower()] for text in texts], dtype=np.bool_)
    if different and all(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) for text in different):
        numbers = np.array([float(text) for text in texts])
        return numbers.astype(np.int64) if (numbers == np.floor(numbers)).all() else numbers
    return as_objects(list(texts))


def labels_among(texts: Sequence[str], classes: Sequence[Any]) -> NDArray[Any]:
    """Return labels of a file as the classes that they stand for.

    One that stands for none is a number where the classes are numbers and it can be one; else it stays a text.
    """
    table = {plain_label(str(label)): label for label in classes} | {str(label): label for label in classes}
    are_numbers = all(isinstance(label, int | float) and not isinstance(label, bool) for label in classes)
    known = {text: table.get(text, table.get(plain_label(text), text)) for text in dict.fromkeys(texts)}
    for text in [text for text, label in known.items() if label is text and are_numbers]:
        number = typed_labels([text]).tolist()[0]
        known[text] = text if isinstance(number, bool) else number
    labels = [known[text] for text in texts]
    are_texts = any(isinstance(label, str) for label in known.values())
    return as_objects(labels) if are_texts or not labels else np.array(labels)


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
    is_float, is_whole = pa.types.is_floating(values.type), pa.types.is_integer(values.type)
    if not (is_float or is_whole or pa.types.is_decimal(values.type)):
        return
    known = [label for label in labels if label is not None]
    distinct, has_parts = len(set(known)), any("." in label for label in known)
    if distinct > (20 if has_parts else max(50, len(labels) // 2)):
        raise ValueError(
            f"{path}: --target {target} must hold class labels; it holds {distinct} different numbers, as in "
            "a regression problem. Cut it into classes first; or put a letter in front of the numbers if "
            "they are names."
        )


def check_number_columns(path: Path, table: Any, names: Sequence[str]) -> None:
    """Refuse columns that were numbers when a model was trained and are none now."""
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
    skip_unlabelled: bool = False
    writing: Writing = field(default_factory=Writing)


@dataclass(frozen=True)
class TableRows:
    """The rows of a table with a target."""

    plan: Plan
    features: pd.DataFrame
    labels: NDArray[Any]
    groups: NDArray[Any] | None
    numbers: NDArray[np.intp]  # which rows of the file these are: those with a label
    remarks: tuple[str, ...] = ()
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
    """Return the features, the labels as what they are, and the groups as texts if they are a column.

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
        if name is not None and name not in names:
            raise lacks(path, f"a column {name!r}", names, [name])
    others = guessed.select([name for name in names if name not in (target, left_out, cluster)])
    others, writing = _as_written(file, others, choice.writing)
    plan = _with_all(plan_columns(others, choice.drop, choice.features, choice.keep_text, writing), raw)
    if not plan.used:
        reasons = "; ".join(f"{column.name}: {column.left_out}" for column in plan.columns[:5])
        what = "at least one column besides the target that a model can use" + (f" ({reasons})" if reasons else "")
        raise lacks(path, what, names)
    # Read once more: as a label or a group a number is a text, as a feature it stays a number.
    table = file.table((target, *plan.texts)) if file.is_text else guessed
    texts = as_texts(table[target])
    check_no_regression(path, target, guessed[target], texts)
    if not choice.skip_unlabelled:
        check_target(path, target, texts)
    rows = np.array([row for row, text in enumerate(texts) if text is not None], dtype=np.intp)
    check_some_labelled(path, len(rows), len(texts))
    try:
        features = plan.frame(table).iloc[rows]
        check_finite_features(features)
    except (ValueError, TypeError) as error:
        raise in_file(error, path) from error
    by = as_objects(as_texts(file.table((str(groups),))[groups]))[rows] if is_column else None
    kind = None if file.is_text else table[target].type
    kind = kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind
    labels = typed_labels([str(texts[row]) for row in rows.tolist()], kind)
    members = None
    if cluster is not None:
        texts_of_clusters = as_objects(as_texts(file.table((cluster,))[cluster]))[rows]
        members = pd.Series(texts_of_clusters, name=cluster, dtype=object)
    remarks = (about_skipped(len(texts) - len(rows), len(texts)),) if len(rows) < len(texts) else ()
    warn_alike(path, target, labels)
    warn_copies(path, target, plan, features, labels)
    return TableRows(plan, features, labels, by, rows, remarks, members)


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
    by_user = ("--drop", "not among --features")
    kept = [column if column.left_out in by_user else replace(column, left_out="") for column in plan.columns]
    return Plan(tuple(kept))


def _as_written(file: TableFile, guessed: Any, writing: Writing) -> tuple[Any, Writing]:
    """Return columns as texts where the marks of the user, or of a file with decimal commas, decide what they say.

    A reader takes 1.234 for a number with a decimal point, which it is not where commas are.
    """
    if not file.is_text or (writing.thousands is None and writing.decimal is None and not file.decimals):
        return guessed, writing
    marks = writing if writing != Writing(writing.dates) else replace(writing, decimal=",")
    written = file.table(tuple(guessed.column_names))
    for number, name in enumerate(guessed.column_names):
        texts = [text for text in as_texts(written[name]) if text is not None and not is_missing(text)]
        if any(mark in text for text in texts for mark in ".,") and marks.styles(texts):
            guessed = guessed.set_column(number, name, written[name])
    return guessed, marks


def times_of(file: TableFile, column: str, rows: NDArray[np.intp], dates: Any = None) -> Times:
    """Return the times of some rows, which are numbers or dates throughout; ``dates`` says which way, if need be."""
    values = file.table((column,))[column].take(pa.array(rows))
    return read_times(values.to_pylist(), f"{file.path}, column {column!r}", dates, WAY_OF_DATES)


def warn_alike(path: Path, target: str, labels: NDArray[Any]) -> None:
    """Say which labels are the same but for case and blanks: they are classes of their own, which few people want."""
    spellings: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels.tolist()):
        if isinstance(label, str):
            spellings.setdefault(" ".join(label.casefold().split()), []).append(label)
    alike = [" and ".join(map(repr, sorted(names))) for names in spellings.values() if len(names) > 1]
    if alike:
        more = f", and {len(alike) - 3} more" if len(alike) > 3 else ""
        warn_caller(
            f"{path}, column {target!r}: some labels differ only in case or blanks: "
            f"{'; '.join(alike[:3])}{more}. They are taken for different classes. If they are the same, write "
            "them in one way."
        )


_COPY, _FEWEST, _SAMPLE, _MOST_COLUMNS = 0.99, 40, 5000, 300


def warn_copies(path: Path, target: str, plan: Plan, features: pd.DataFrame, labels: NDArray[Any]) -> None:
    """Say which columns give the label away: one alone tells it in nearly every row, as a copy of it would."""
    rows = np.random.default_rng(0).permutation(len(labels))[:_SAMPLE]
    codes = np.unique(labels[rows].astype(str), return_inverse=True)[1]
    counts = np.bincount(codes)
    if len(rows) < _FEWEST or not 2 <= len(counts) <= len(rows) / 10 or counts.max() > 0.9 * len(rows):
        return
    named = [column.name for column in plan.used[:_MOST_COLUMNS] if column.kind != "text"]
    copies = [name for name in named if _tells(features[name].iloc[rows], codes, len(counts)) >= _COPY]
    if copies:
        verb = "column gives" if len(copies) == 1 else "columns give"
        way_out = " ".join(f"--drop {name!r}" for name in copies[:4])
        warn_caller(
            f"{path}: the {verb} the label {target!r} away: {some_of(copies)}. Each alone tells it in at least "
            f"{_COPY:.0%} of the rows, as good as a copy of it. If new rows will not have it, pass {way_out}."
        )


def _tells(column: Any, codes: NDArray[Any], n_classes: int) -> float:
    """Return the share of rows whose label a column tells: by its values, or by one interval for each class."""
    if column.dtype.kind == "f":
        filled = column.fillna(column.min() - 1 if column.notna().any() else 0).to_numpy()[:, None]
        tree = DecisionTreeClassifier(max_leaf_nodes=n_classes, random_state=0).fit(filled, codes)
        return float(tree.score(filled, codes))
    values = pd.factorize(column.astype(str))[0]
    if values.max() + 1 > len(codes) / 5:  # where hardly a value comes twice, each tells its own label
        return 0.0
    return float(np.asarray(pd.crosstab(values, codes).max(axis=1)).sum() / len(codes))


def model_for(path: Path, plan: Plan, model: Any, calibrations: Sequence[str]) -> Any:
    """Return a model behind the steps that its columns need, unless it takes them itself.

    Out of bag there are no steps: they would be fitted on the very rows that the trees must not have seen.
    """
    if takes_raw_columns(model):
        return model
    if "out-of-bag" not in calibrations:
        return plan.pipeline(model)
    others = plan.names("category", "date", "text")
    if others:
        way_out = f"leave out {some_of(others)} (--drop), or pass --calibration bootstrap"
        what = f"columns of numbers alone for --calibration out-of-bag; {way_out}"
        raise lacks(path, what, plan.names())
    return model


def some_of(names: Sequence[str]) -> str:
    """Return the first few names of a list in words."""
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
