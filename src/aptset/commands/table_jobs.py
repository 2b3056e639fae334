"""The main job on a table of the user's own: train, calibrate, judge on held-out rows, write the results."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from aptset.commands.probability_jobs import evaluation_as_json, write_json
from aptset.commands.reading import as_texts, read_table
from aptset.commands.writer import SetsWriter
from aptset.estimator.classifier import ConformalClassifier
from aptset.judging.evaluation import Evaluation, evaluate
from aptset.judging.planning import coverage_test
from aptset.probabilities.calibration import Calibration
from aptset.validation.files import check_columns, check_finite_features, check_model_name, check_target
from aptset.validation.outcomes import as_objects

MODELS: dict[str, Any] = {
    "logistic": LogisticRegression(max_iter=1000),
    "forest": RandomForestClassifier(n_estimators=200),
    "boosting": HistGradientBoostingClassifier(),
    "bayes": GaussianNB(),
    "neighbours": KNeighborsClassifier(),
    "tree": DecisionTreeClassifier(),
}
WRITTEN = ("sets.parquet", "evaluation.json", "calibration.aptset")
MOST_VALUES = 50  # of a text column that slices are made of; more is a name or an id


@dataclass(frozen=True)
class TableResult:
    """What a run on a table found, ready to print or to write."""

    classifier: ConformalClassifier
    evaluation: Evaluation
    sets: Any
    rows: NDArray[np.intp]
    truth: list[str]
    target: str
    p_value: float | None
    features: pd.DataFrame
    groups: NDArray[Any] | None
    ids: NDArray[Any] | None = None

    def text(self) -> str:
        """Return the promise and the measurement in words."""
        alpha = float(self.evaluation.alpha or 0)
        fitted = self.classifier.fitted_
        lines = [
            f"{self.classifier.n_calibration_} rows calibrate ({fitted.rule.scheme.name}), {self.evaluation.n} test.",
            f"Promised: coverage of at least {self.classifier.guarantee():.4g} (asked for: {1 - alpha:g}).",
            f"Measured: coverage {self.evaluation.coverage!r}, mean size {self.evaluation.mean_size!r}.",
        ]
        if self.p_value is not None:
            verdict = "agrees with" if self.p_value > 0.01 else "does NOT agree with"
            lines.append(f"The measurement {verdict} a valid calibration of this size (p = {self.p_value:.3g}).")
        return "\n".join([*lines, "", repr(self.evaluation)])

    def write(self, folder: Path) -> list[str]:
        """Write sets.parquet, evaluation.json and, for one model, calibration.aptset; return their names."""
        import pyarrow as pa

        folder.mkdir(parents=True, exist_ok=True)
        label = "label" if self.target in ("row", "size", "set") else self.target
        others = {"row": pa.array(self.rows), label: pa.array(self.truth)}
        with SetsWriter(folder / WRITTEN[0], list(others), self.classifier.classes_.tolist()) as writer:
            writer.write(others, self.sets)
        promise = {"promise": self.classifier.guarantee(), "p_value": self.p_value, "target": self.target}
        write_json(folder / WRITTEN[1], evaluation_as_json(self.evaluation, **promise))
        written = list(WRITTEN[:2])
        fitted = self.classifier.fitted_
        if len(fitted.held_out.folds) == 1:
            rule, names = fitted.rule, self.classifier.classes_
            Calibration(fitted.held_out, names, rule.score, rule.key, rule.chance, self.classifier.allow_empty).save(
                folder / WRITTEN[2]
            )
            written.append(WRITTEN[2])
        return written


def run_table(
    path: Path,
    target: str,
    model: str,
    calibration: str,
    alpha: float,
    groups: str | None,
    seed: int,
    jobs: int | None,
    row_id: str | None = None,
) -> TableResult:
    """Train and calibrate on 70 % of the rows, judge on the others."""
    features, labels, by = read_rows(path, target, groups, row_id)
    ids = None if row_id is None else as_objects(as_texts(read_table(path, (row_id,))[row_id]))
    train, test = train_test_split(np.arange(len(labels)), test_size=0.3, random_state=seed)
    classifier = ConformalClassifier(
        make_model(model),
        calibration=calibration,
        alpha=alpha,
        groups="label" if groups == "label" else None,
        n_jobs=jobs,
        random_state=seed,
    ).fit(
        features.iloc[train],
        labels[train],
        groups=None if by is None else by[train],
        ids=None if ids is None else ids[train],
    )
    of_test, test_ids = None if by is None else by[test], None if ids is None else ids[test]
    sets: Any = classifier.predict_set(features.iloc[test], groups=of_test, ids=test_ids)
    evaluation = evaluate(sets, labels[test], groups=of_test, alpha=alpha)
    p_value = None
    if classifier.fitted_.rule.scheme.name == "split" and groups is None:
        p_value = coverage_test(sets.covers(labels[test]), n=classifier.n_calibration_, alpha=alpha).p_value
    found = (features.iloc[test], of_test, test_ids)
    return TableResult(classifier, evaluation, sets, test, labels[test].tolist(), target, p_value, *found)


def read_rows(
    path: Path, target: str, groups: str | None, left_out: str | None = None, may_be_label: bool = True
) -> tuple[pd.DataFrame, NDArray[Any], NDArray[Any] | None]:
    """Return the features, the labels as texts, and the groups as texts if they are a column.

    A label is what is written in the file, as for every other command: only an empty cell has none.
    Where calibration may be within labels, "label" stands for that and not for a column.
    """
    is_column = groups is not None and not (groups == "label" and may_be_label)
    table = read_table(path, (target,))
    names = table.column_names
    check_columns(path, len(set(names)) == len(names), "distinct column names", names)
    for name in (target, groups if is_column else None, left_out):
        check_columns(path, name is None or name in names, f"a column {name!r}", names)
    labels = as_texts(table[target])
    check_target(path, target, labels)
    features = plain_columns(table.to_pandas().drop(columns=[target, *([left_out] if left_out else [])]))
    check_columns(path, features.shape[1] > 0, "at least one column besides the target", names)
    check_finite_features(path, features)
    # Read once more: as a group a number is a text, as a feature it stays a number.
    by = as_objects(as_texts(read_table(path, (str(groups),))[groups])) if is_column else None
    return features, as_objects(labels), by


def make_model(name: str) -> Any:
    """Return a classifier with sensible preprocessing for numbers, categories and missing values."""
    if ":" in name:
        model = check_model_name(name, lambda: _import_model(*name.split(":", 1)))
    else:
        model = clone(check_model_name(name, lambda: MODELS[name], sorted(MODELS)))
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing", keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False, max_categories=100),
    )
    prepare = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (make_pipeline(FunctionTransformer(as_text), texts), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(prepare, model)


def _import_model(module: str, attribute: str) -> Any:
    """Return a copy of an estimator, or what a class or a function makes; None if there is nothing of that name."""
    if "" not in sys.path:
        sys.path.insert(0, "")  # a module of the user's own, beside the table
    found = getattr(import_module(module), attribute, None)
    if found is None:
        return None
    is_estimator = hasattr(found, "get_params") and not isinstance(found, type)
    return clone(found) if is_estimator else found()


def plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return numbers as float64, durations as seconds, and everything else as objects."""
    plain = {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_timedelta64_dtype(column):
            column = column.dt.total_seconds()
        is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        plain[name] = column.astype("float64") if is_number else column.astype(object)
    return pd.DataFrame(plain, index=frame.index)


def as_text(X: pd.DataFrame) -> Any:
    """Turn categories, booleans, dates and texts into plain texts, missing ones into NaN."""
    return (
        X.astype(object)
        .map(lambda value: np.nan if np.ndim(value) == 0 and pd.isna(value) else str(value))
        .to_numpy(dtype=object)
    )


def sliceable(frame: pd.DataFrame) -> pd.DataFrame | None:
    """Return what slices can be made of: numbers with gaps filled by the median, and texts with few values."""
    numbers = frame.select_dtypes("number")
    others = [name for name in frame.columns if name not in numbers.columns]
    texts = [name for name in others if frame[name].map(str).nunique() <= MOST_VALUES]
    found = pd.concat([numbers.fillna(numbers.median().fillna(0.0)), frame[texts]], axis=1)
    return found if found.shape[1] else None
