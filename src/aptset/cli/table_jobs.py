"""The main job on a table of the user's own: train, calibrate, judge on held-out rows, write the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pandas import Series, factorize
from sklearn.model_selection import train_test_split

from aptset import (
    ConformalClassifier,
    Estimate,
    Evaluation,
    LabelBands,
    Ordered,
    PredictionSets,
    Prevalence,
    Split,
    coverage_test,
    evaluate,
)
from aptset.arrow.formats import Dialect, TableFile
from aptset.arrow.sources import as_texts
from aptset.cli.artefacts import imported_score
from aptset.cli.columns import Plan
from aptset.cli.inputs import label_settings
from aptset.cli.models import make_model, takes_raw_columns
from aptset.cli.options import assurance_of, choice_of, column_of_groups, errors_of, labels_in_groups
from aptset.cli.probability_jobs import errors_by_name
from aptset.cli.tables import ColumnChoice, TableRows, labels_among, likely_cluster, model_for, read_rows
from aptset.cli.writing import (
    SetsWriter,
    as_json,
    columns_of_decisions,
    evaluations_as_json,
    write_decisions,
)
from aptset.core import validate
from aptset.core.files import atomic_path
from aptset.core.groups import is_grouping
from aptset.core.labels import as_objects
from aptset.core.levels import check_assurance
from aptset.core.randomization import all_at_once
from aptset.core.row_groups import noun_of, plural
from aptset.core.validate import warn_caller
from aptset.estimator.checks import check_test_share
from aptset.estimator.storage import FACTS, save_classifier
from aptset.metrics.estimates import in_words, percent
from aptset.metrics.planning import CoverageTest

_FEWEST_CLUSTERS, _MOST_TRIED = 20, 20_000  # clusters and rows for which it is tried what clusters cost
WRITTEN = ("sets.parquet", "evaluation.json", FACTS)


@dataclass(frozen=True)
class Settings:
    """What a run is asked for, besides the table."""

    model: str = "logistic"
    calibration: str = "split"
    share: float | None = None
    alphas: tuple[Any, ...] = (0.1,)
    conformity: Any = "adaptive"
    level: str = "nominal"
    randomized: bool = True
    allow_empty: bool = True
    groups: str | None = None
    bands: LabelBands | None = None
    row_id: str | None = None
    cluster: str | None = None
    seed: int = 0
    test_share: float = 0.3
    jobs: int | None = None
    progress: bool = False
    trust: tuple[str, ...] = ()
    error: Any = None
    choice: ColumnChoice = field(default_factory=ColumnChoice)
    assurance: Any = None

    @classmethod
    def of(cls, options: dict[str, Any], quiet: bool) -> Settings:
        """Return the settings that the options of a command that trains stand for."""
        named = {each.name: options[each.name] for each in fields(cls) if each.name in options}
        conformity, bands = label_settings(options, quiet)
        named |= {"conformity": conformity, "bands": bands, "assurance": assurance_of(options)}
        error = errors_of(options["errors"]) if options.get("errors") else None  # of rows acted on, if that is asked
        return cls(**named | {"choice": choice_of(options), "error": error, "progress": not quiet})

    @property
    def column(self) -> str | None:
        """The column of the groups of rows; a grouping that has a name is one of labels."""
        return self.groups if is_grouping(self.groups) else column_of_groups(self.groups)

    def of_fit(self, groups: Any) -> Any:
        """Return groups of rows as calibration takes them: with labels, where both decide."""
        return (groups, "label") if groups is not None and labels_in_groups(self.groups) else groups

    def for_labels(self, labels: NDArray[Any]) -> Settings:
        """Return the same settings with the labels of bands, counts and orders, which come as texts, as they are."""
        bands, score = self.bands, self.conformity
        if bands is not None:
            bands = LabelBands(_keyed(bands.bands, labels))
        if isinstance(score, Prevalence):
            score = Prevalence(_keyed(score.counts, labels))
        if isinstance(score, Ordered) and score.order is not None:
            named = labels_among([str(label) for label in score.order], list(dict.fromkeys(labels.tolist())))
            score = replace(score, order=named.tolist())
        return replace(self, bands=bands, conformity=score)

    def classifier(self, model: Any) -> ConformalClassifier:
        """Return the classifier that the settings stand for."""
        split = None
        if self.share is not None:
            if self.calibration != "split":
                what = "--share is for --calibration split, where some rows calibrate"
                raise ValueError(f"{what}; got {self.calibration!r}.")
            split = Split(validate.share(self.share, "share", "the share of rows that calibrates"))
        return ConformalClassifier(
            model,
            calibration=self.calibration if split is None else split,
            conformity=imported_score(self.conformity),
            alpha=self.alphas[0],
            level=self.level,  # type: ignore[arg-type]
            randomized=self.randomized,
            allow_empty=self.allow_empty,
            groups=self.groups if is_grouping(self.groups) else self.bands,
            n_jobs=self.jobs,
            progress=self.progress,
            random_state=self.seed,
            assurance=self.assurance,
        )


def _keyed(table: Mapping[Any, Any], labels: NDArray[Any]) -> dict[Any, Any]:
    """Return a table of labels by the labels themselves."""
    keys = labels_among([str(key) for key in table], list(dict.fromkeys(labels.tolist())))
    return dict(zip(keys.tolist(), table.values(), strict=True))


DECIDED = "decisions.parquet"


@dataclass(frozen=True)
class Decided:
    """Which test rows are acted on, what is promised of them, and what was measured."""

    frame: Any
    truth: NDArray[Any]
    promise: str

    def as_json(self) -> dict[str, Any]:
        """Return the promise and the measurement as plain values."""
        act = self.frame["act"].to_numpy()
        is_wrong = np.asarray(self.frame["guess"].tolist()) != self.truth
        covers = np.array([label in members for label, members in zip(self.truth, self.frame["set"], strict=True)])
        wrong = float(is_wrong[act].mean()) if act.any() else None
        covered = float(covers[~act].mean()) if (~act).any() else None
        return {"promise": self.promise, "share": float(act.mean()), "wrong": wrong, "coverage_of_asked": covered}

    def text(self) -> list[str]:
        """Return the same in words."""
        measured = self.as_json()
        wrong = "nothing" if measured["wrong"] is None else f"{measured['wrong']:.1%}"
        covered = "none" if measured["coverage_of_asked"] is None else f"{measured['coverage_of_asked']:.1%}"
        return [
            f"Acting: {self.promise}",
            f"Measured: {measured['share']:.1%} of the test rows are acted on, {wrong} of these wrong; sets hold the "
            f"truth of {covered} of the others.",
        ]


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
    coverage_test: CoverageTest | None
    ids: NDArray[Any] | None
    is_raw: bool
    dialect: Dialect
    decided: Decided | None = None

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
        assert self.evaluation.model is not None, "run_table passes the probabilities"
        right, rows = percent(self.evaluation.model.accuracy, self.evaluation.n), self.evaluation.n
        lines = [self.rows.plan.describe(self.rows.features), *_namesakes(self.target, self.rows.plan.names()), ""]
        if self.is_raw:
            lines = [f"Your model takes the columns as they are: {', '.join(self.rows.plan.names()[:12])}.", ""]
        lines += self.rows.remarks
        clusters = fitted.held_out.clusters
        what = "rows" if clusters is None else clusters.nouns
        lines += [
            f"{self.classifier.n_calibration_} {what} calibrate ({fitted.rule.scheme.name}), {rows} test. "
            f"The most likely label is right in {right} of the test rows.",
        ]
        for evaluation in self.evaluations:
            lines += [
                self._promised(evaluation.alpha),
                f"Measured: coverage {in_words(evaluation.coverage)}, mean size {float(evaluation.mean_size):.3g}.",
            ]
        if self.coverage_test is not None:
            lines.append(self.coverage_test.sentence())
        lines += [] if self.decided is None else self.decided.text()
        return "\n".join([*lines, "", *(repr(evaluation) for evaluation in self.evaluations)])

    def _promised(self, alpha: Any) -> str:
        """Return the promise at one level in words, and with what assurance."""
        promise = promise_of(self.classifier, alpha)
        if isinstance(promise, dict):
            shown = ", ".join(f"{name} {100 * part:.4g} %" for name, part in promise.items())
            text = f"Promised: coverage of at least {shown}"
        else:
            text = f"Promised: coverage of at least {100 * promise:.4g} % (asked for: {100 * (1 - alpha):.4g} %)"
        clusters = self.classifier.fitted_.held_out.clusters
        text += "" if clusters is None else f" for {clusters.about}"
        sure = check_assurance(self.settings.assurance)
        return f"{text}." if sure is None else f"{text}, by this calibration with {sure}."

    def write(self, folder: Path) -> list[str]:
        """Write the sets, the evaluation, and the classifier that `aptset predict -c` takes; return the names."""
        folder.mkdir(parents=True, exist_ok=True)
        label = "label" if self.target in ("row", "size", "set") else self.target
        others = {"row": pa.array(self.rows.numbers[self.test]), label: pa.array(self.truth.tolist())}
        names, alphas = self.classifier.classes_.tolist(), self.settings.alphas
        test = self.coverage_test
        verdict = {} if test is None else {"verdict": test.sentence(), "state": test.state}
        promise = {"promise": promise_of(self.classifier), "p_value": test and test.p_value, "target": self.target}
        # Each takes its place when all are written: a full disk leaves the results of an earlier run as they were.
        path, writer = folder / WRITTEN[0], SetsWriter(folder / WRITTEN[0], list(others), names, alphas)
        with atomic_path(path) as writer.target, closing(writer), atomic_path(folder / WRITTEN[1]) as evaluation:
            writer.write(others, self.sets)
            writer.close()
            evaluation.write_bytes(as_json(evaluations_as_json(self.evaluations, **promise, **verdict)))
            if self.decided is not None:
                write_decisions(folder / DECIDED, others, columns_of_decisions(self.decided.frame), [*map(str, names)])
            decided = [] if self.decided is None else [DECIDED]
            return [*WRITTEN[:2], *decided, *save_classifier(self.classifier, folder, self.table())]

    def table(self) -> dict[str, Any]:
        """Return how rows of a file become rows of X, for those who predict later."""
        groups = None if is_grouping(self.settings.groups) else self.settings.column
        columns = self.rows.plan.as_json()
        table = {"target": self.target, "columns": columns, "groups": groups, "id": self.settings.row_id}
        return {**table, "dialect": self.dialect._asdict()}


def _namesakes(target: str, names: Sequence[str]) -> list[str]:
    """Say which columns are called nearly as the target is: they may tell the label, and no new row will have that."""
    namesakes = [name for name in names if name.casefold().strip() == target.casefold().strip()]
    return [
        f"  look twice {name}: called as the target is; if it tells the label, pass --drop {name!r}"
        for name in namesakes
    ]


def promise_of(classifier: ConformalClassifier, alpha: Any = None) -> Any:
    """Return the promise at a level, to each label or group by its name in text where levels differ."""
    promise: Any = classifier.guarantee(alpha)
    if not isinstance(promise, dict):
        return promise
    names = [", ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in promise]
    return dict(zip(names, promise.values(), strict=True))


def split_rows(rows: TableRows, share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows that train and calibrate, and those that test: of clusters, where rows belong together."""
    if rows.clusters is None:
        of_rows, _ = check_test_share(share, len(rows.labels))
        train, test = train_test_split(np.arange(len(rows.labels)), test_size=of_rows, random_state=seed)
        return train, test
    codes, names = factorize(rows.clusters)
    of_clusters, _ = check_test_share(share, len(names), str(rows.clusters.name))
    train, test = train_test_split(np.arange(len(names)), test_size=of_clusters, random_state=seed)
    return np.flatnonzero(np.isin(codes, train)), np.flatnonzero(np.isin(codes, test))


def warn_of_clusters(file: TableFile, rows: TableRows, settings: Settings, model: Any) -> None:
    """Say once that a column looks like an id whose rows belong together, and what that costs, where it can be told."""
    column = likely_cluster(file, rows.plan, {settings.groups, settings.row_id})
    if column is None:
        return
    texts = as_objects(as_texts(file.table((column,))[column]))[rows.numbers]
    values = Series(texts, name=column, dtype=object)
    noun, n_values, cost = noun_of(column), values.nunique(), ""
    pooled = _coverage_apart(file, replace(rows, clusters=values), settings, model)
    if pooled is not None and not isinstance(settings.alphas[0], Mapping):
        cost = (
            f" On rows of {pooled.n} {plural(noun)} that were kept out of training and calibration, sets that "
            f"are calibrated row by row cover {float(pooled):.3g} (standard error "
            f"{pooled.standard_error:.2g}) instead of {1 - settings.alphas[0]:g}."
        )
    warn_caller(
        f"column {column!r} has {n_values:,} values in {len(values):,} rows, and seems to say which rows "
        f"belong together. If so, nothing is guaranteed for rows of a new {noun}.{cost} Pass --cluster "
        f"{column}, or --drop {column} if rows are independent."
    )


def _coverage_apart(file: TableFile, rows: TableRows, settings: Settings, model: Any) -> Estimate | None:
    """Return how sets that count rows one by one cover rows of new clusters; None where that cannot be told."""
    clusters = rows.clusters
    assert clusters is not None
    if clusters.nunique() < _FEWEST_CLUSTERS or len(clusters) > _MOST_TRIED or clusters.isna().any():
        return None
    train, test = split_rows(rows, settings.test_share, settings.seed)
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
    """Train and calibrate on most of the rows, by default 70 %, and judge on the others."""
    model, row_id = make_model(settings.model, settings.trust), settings.row_id
    of_table: dict[str, Any] = {"choice": settings.choice, "cluster": settings.cluster}
    rows = read_rows(file, target, settings.column, row_id, raw=takes_raw_columns(model), **of_table)
    settings = settings.for_labels(rows.labels)
    ids = None if row_id is None else as_objects(as_texts(file.table((row_id,))[row_id]))[rows.numbers]
    train, test = split_rows(rows, settings.test_share, settings.seed)
    if rows.clusters is None:
        warn_of_clusters(file, rows, settings, model)
    X, y, of_train = _side(rows, ids, train)
    of_train["groups"] = settings.of_fit(of_train["groups"])
    classifier = settings.classifier(model_for(file.path, rows.plan, model, [settings.calibration]))
    classifier.fit(X, y, **of_train)
    X, y, of_test = _side(rows, ids, test)
    clusters = of_test.pop("clusters")
    with all_at_once():
        sets = classifier.predict_set(X, settings.alphas, **of_test)
    shown = of_test["groups"] if settings.bands is None else settings.bands.of(y)
    common: dict[str, Any] = {"groups": shown, "probabilities": classifier.predict_proba(X), "clusters": clusters}
    evaluations = [
        replace(evaluate(of_level, y, alpha=alpha, **common), n_calibration=classifier.n_calibration_)
        for of_level, alpha in zip(sets, settings.alphas, strict=True)
    ]
    decided = None
    if settings.error is not None:
        error = errors_by_name(settings.error, classifier.classes_.tolist())
        frame = classifier.act_or_ask(X, error, settings.alphas[0], **of_test, backend="pandas")
        decided = Decided(frame, y, frame.attrs["promise"])
    tested = _coverage_test(classifier, settings, rows, sets[0].covers(y))
    measured = (sets, evaluations, tested, of_test["ids"], classifier.estimator is model)
    return TableResult(classifier, rows, settings, target, test, *measured, file.dialect, decided)


def _side(rows: TableRows, ids: Any, side: NDArray[np.intp]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the features and the labels of some rows, and what else is known of each."""
    groups, ids = (None if values is None else values[side] for values in (rows.groups, ids))
    clusters = None if rows.clusters is None else rows.clusters.iloc[side]
    return rows.features.iloc[side], rows.labels[side], {"groups": groups, "ids": ids, "clusters": clusters}


def _coverage_test(
    classifier: ConformalClassifier, settings: Settings, rows: TableRows, covered: NDArray[np.bool_]
) -> CoverageTest | None:
    """Return the test of the coverage at the first level, where its law is known: of a plain split."""
    is_plain = classifier.fitted_.rule.scheme.name == "split" and settings.column is None and settings.bands is None
    if not is_plain or rows.clusters is not None or settings.assurance is not None:
        return None
    return coverage_test(covered, n=classifier.n_calibration_, alpha=settings.alphas[0])
