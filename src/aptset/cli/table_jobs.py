"""The main job on a table of the user's own: train, calibrate, judge on held-out rows, write the results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter, warn

import numpy as np
from numpy.typing import NDArray
from pandas import Series, factorize
from sklearn.model_selection import train_test_split

from aptset import ConformalClassifier, Estimate, Evaluation, LabelBands, PredictionSets, Split, coverage_test, evaluate
from aptset.arrow.formats import TableFile
from aptset.arrow.layout import as_texts
from aptset.cli.columns import Plan
from aptset.cli.files import SetsWriter
from aptset.cli.models import make_model, takes_raw_columns
from aptset.cli.probability_jobs import as_json, evaluation_as_json, imported_score
from aptset.cli.tables import ColumnChoice, TableRows, likely_cluster, model_for, read_rows
from aptset.conformal.clusters import promise_about
from aptset.core.clusters import noun_of, plural
from aptset.core.files import atomic_path
from aptset.core.groups import is_grouping
from aptset.core.labels import as_objects
from aptset.core.validate import all_at_once, check_share_of_split
from aptset.estimator.storage import FACTS, save_classifier
from aptset.metrics.estimates import in_p
from aptset.scores import Score

_FEWEST_CLUSTERS, _MOST_TRIED = 20, 20_000  # clusters and rows for which it is tried what clusters cost
WRITTEN = ("sets.parquet", "evaluation.json", FACTS)


@dataclass(frozen=True)
class Settings:
    """What a run is asked for, besides the table."""

    model: str = "logistic"
    calibration: str = "split"
    share: float | None = None
    alphas: tuple[float, ...] = (0.1,)
    conformity: str | Score = "adaptive"
    level: str = "nominal"
    randomized: bool = True
    groups: str | None = None
    bands: LabelBands | None = None
    row_id: str | None = None
    cluster: str | None = None
    seed: int = 0
    jobs: int | None = None
    progress: bool = False
    trust: tuple[str, ...] = ()
    choice: ColumnChoice = field(default_factory=ColumnChoice)

    def classifier(self, model: Any) -> ConformalClassifier:
        """Return the classifier that the settings stand for."""
        return ConformalClassifier(
            model,
            calibration=calibration_of(self.calibration, self.share),
            conformity=imported_score(self.conformity),
            alpha=self.alphas[0],
            level=self.level,  # type: ignore[arg-type]
            randomized=self.randomized,
            groups=self.groups if is_grouping(self.groups) else self.bands,
            n_jobs=self.jobs,
            progress=self.progress,
            random_state=self.seed,
        )


def calibration_of(name: str, share: float | None) -> Any:
    """Return a calibration by its name, with the share of rows that calibrates."""
    return name if share is None else Split(check_share_of_split(name, share))


@dataclass(frozen=True)
class TableResult:
    """What a run on a table found, ready to print or to write."""

    classifier: ConformalClassifier
    rows: TableRows
    settings: Settings
    target: str
    test: NDArray[np.intp]
    sets: list[PredictionSets]
    evaluations: list[Evaluation]
    p_value: float | None
    ids: NDArray[Any] | None
    is_raw: bool

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation at the first level."""
        return self.evaluations[0]

    @property
    def truth(self) -> NDArray[Any]:
        """The labels of the test rows."""
        labels: NDArray[Any] = self.rows.labels[self.test]
        return labels

    def text(self) -> str:
        """Return what was done with the columns, the promise and the measurement in words."""
        fitted = self.classifier.fitted_
        accuracy = float(np.mean(self.classifier.predict(self.rows.features.iloc[self.test]) == self.truth))
        lines = [self.rows.plan.describe(), *_namesakes(self.target, self.rows.plan.names()), ""]
        if self.is_raw:
            lines = [f"Your model takes the columns as they are: {', '.join(self.rows.plan.names()[:12])}.", ""]
        clusters = fitted.held_out.clusters
        what = "rows" if clusters is None else clusters.nouns
        lines += [
            f"{self.classifier.n_calibration_} {what} calibrate ({fitted.rule.scheme.name}), {self.evaluation.n} test. "
            f"The model's first guess is right in {accuracy:.1%} of the test rows.",
        ]
        for evaluation in self.evaluations:
            alpha = float(evaluation.alpha or 0)
            promise = f"{self.classifier.guarantee(alpha):.4g}{promise_about(clusters)}"
            lines += [
                f"Promised: coverage of at least {promise} (asked for: {1 - alpha:g}).",
                f"Measured: coverage {evaluation.coverage!r}, mean size {evaluation.mean_size!r}.",
            ]
        if self.p_value is not None:
            verdict = "agrees with" if self.p_value > 0.01 else "does NOT agree with"
            lines.append(f"The measurement {verdict} a valid calibration of this size ({in_p(self.p_value)}).")
        return "\n".join([*lines, "", *(repr(evaluation) for evaluation in self.evaluations)])

    def write(self, folder: Path) -> list[str]:
        """Write the sets, the evaluation, and the classifier that `aptset predict -c` takes; return the names."""
        import pyarrow as pa

        folder.mkdir(parents=True, exist_ok=True)
        label = "label" if self.target in ("row", "size", "set") else self.target
        others = {"row": pa.array(self.test), label: pa.array(self.truth.tolist())}
        names, alphas = self.classifier.classes_.tolist(), self.settings.alphas
        promise = {"promise": self.classifier.guarantee(), "p_value": self.p_value, "target": self.target}
        # Each takes its place when all are written: a full disk leaves the results of an earlier run as they were.
        with (
            SetsWriter(folder / WRITTEN[0], list(others), names, alphas) as writer,
            atomic_path(folder / WRITTEN[1]) as evaluation,
        ):
            writer.write(others, self.sets)
            writer.close()
            evaluation.write_bytes(as_json(evaluations_as_json(self.evaluations, **promise)))
            return [*WRITTEN[:2], *save_classifier(self.classifier, folder, self.table())]

    def table(self) -> dict[str, Any]:
        """Return how rows of a file become rows of X, for those who predict later."""
        groups = None if is_grouping(self.settings.groups) else self.settings.groups
        columns = self.rows.plan.as_json()
        return {"target": self.target, "columns": columns, "groups": groups, "id": self.settings.row_id}


def _namesakes(target: str, names: Sequence[str]) -> list[str]:
    """Say which columns are called nearly as the target is: they may tell the label, and no new row will have that."""
    namesakes = [name for name in names if name.casefold().strip() == target.casefold().strip()]
    return [
        f"  look twice {name}: called as the target is; if it tells the label, pass --drop {name!r}"
        for name in namesakes
    ]


def evaluations_as_json(evaluations: list[Evaluation], **more: Any) -> dict[str, Any]:
    """Return the evaluation at the first level, and those at the other levels under ``others``."""
    first, *others = evaluations
    content = evaluation_as_json(first, **more)
    return {**content, "others": [evaluation_as_json(other) for other in others]} if others else content


def split_rows(rows: TableRows, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows that train and calibrate, and the 30 % that test: of clusters, where rows belong together."""
    if rows.clusters is None:
        train, test = train_test_split(np.arange(len(rows.labels)), test_size=0.3, random_state=seed)
        return train, test
    codes, names = factorize(rows.clusters)
    train, test = train_test_split(np.arange(len(names)), test_size=0.3, random_state=seed)
    return np.flatnonzero(np.isin(codes, train)), np.flatnonzero(np.isin(codes, test))


def warn_of_clusters(file: TableFile, rows: TableRows, settings: Settings, model: Any) -> None:
    """Say once that a column looks like an id whose rows belong together, and what that costs, where it can be told."""
    column = likely_cluster(file, rows.plan, {settings.groups, settings.row_id})
    if column is None:
        return
    values = Series(as_texts(file.table((column,))[column]), name=column, dtype=object)
    noun, n_values, cost = noun_of(column), values.nunique(), ""
    pooled = _coverage_apart(file, replace(rows, clusters=values), settings, model)
    if pooled is not None:
        cost = (
            f" Tried on rows of {pooled.n} {plural(noun)} that neither trained nor calibrated, sets that count rows "
            f"one by one cover {float(pooled):.3g} (standard error {pooled.standard_error:.2g}); asked for is "
            f"{1 - settings.alphas[0]:g}."
        )
    warn(
        f"column {column!r} has {n_values:,} values in {len(values):,} rows, and looks as if it says which rows "
        f"belong together. Nothing is promised about rows of a new {noun} then.{cost} Pass --cluster {column}, or "
        f"--drop {column} if rows are independent.",
        stacklevel=2,
    )


def _coverage_apart(file: TableFile, rows: TableRows, settings: Settings, model: Any) -> Estimate | None:
    """Return how sets that count rows one by one cover rows of new clusters; None where that cannot be told."""
    clusters = rows.clusters
    assert clusters is not None
    if clusters.nunique() < _FEWEST_CLUSTERS or len(clusters) > _MOST_TRIED or clusters.isna().any():
        return None
    train, test = split_rows(rows, settings.seed)
    features = rows.features.drop(columns=str(clusters.name), errors="ignore")
    plan = Plan(tuple(column for column in rows.plan.columns if column.name != clusters.name))
    tried = replace(settings, progress=False).classifier(model_for(file.path, plan, model, [settings.calibration]))
    by = [None if rows.groups is None else rows.groups[side] for side in (train, test)]
    with catch_warnings(), suppress(ValueError, TypeError), all_at_once():
        simplefilter("ignore")
        tried.fit(features.iloc[train], rows.labels[train], groups=by[0])
        sets = tried.predict_set(features.iloc[test], groups=by[1])
        return evaluate(sets, rows.labels[test], clusters=clusters.iloc[test]).coverage
    return None


def run_table(file: TableFile, target: str, settings: Settings) -> TableResult:
    """Train and calibrate on 70 % of the rows, judge on the others."""
    model = make_model(settings.model, settings.trust)
    groups, row_id = settings.groups, settings.row_id
    of_table: dict[str, Any] = {"choice": settings.choice, "cluster": settings.cluster}
    rows = read_rows(file, target, groups, row_id, raw=takes_raw_columns(model), **of_table)
    ids = None if row_id is None else as_objects(as_texts(file.table((row_id,))[row_id]))
    train, test = split_rows(rows, settings.seed)
    if rows.clusters is None:
        warn_of_clusters(file, rows, settings, model)
    by = rows.groups
    classifier = settings.classifier(model_for(file.path, rows.plan, model, [settings.calibration])).fit(
        rows.features.iloc[train],
        rows.labels[train],
        groups=None if by is None else by[train],
        ids=None if ids is None else ids[train],
        clusters=None if rows.clusters is None else rows.clusters.iloc[train],
    )
    of_test, test_ids = None if by is None else by[test], None if ids is None else ids[test]
    X, y = rows.features.iloc[test], rows.labels[test]
    with all_at_once():
        sets = classifier.predict_set(X, settings.alphas, groups=of_test, ids=test_ids)
    shown = of_test if settings.bands is None else settings.bands.of(y)
    clusters = None if rows.clusters is None else rows.clusters.iloc[test]
    evaluations = [
        evaluate(of_level, y, groups=shown, alpha=alpha, clusters=clusters)
        for of_level, alpha in zip(sets, settings.alphas, strict=True)
    ]
    p_value = None
    if (
        clusters is None
        and classifier.fitted_.rule.scheme.name == "split"
        and groups is None
        and settings.bands is None
    ):
        n, alpha = classifier.n_calibration_, settings.alphas[0]
        p_value = coverage_test(sets[0].covers(y), n=n, alpha=alpha).p_value
    is_raw = classifier.estimator is model
    return TableResult(classifier, rows, settings, target, test, sets, evaluations, p_value, test_ids, is_raw)
