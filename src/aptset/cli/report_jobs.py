"""What ``aptset report`` does: from a table, or from probabilities and an artefact, to a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Calibration, ConformalClassifier, Taxonomy, audit, compare, report
from aptset.arrow.formats import TableFile
from aptset.arrow.sources import as_texts
from aptset.cli.artefacts import imported_score
from aptset.cli.demo import demo_classifier
from aptset.cli.files import ProbabilityFile, about_skipped, lacks
from aptset.cli.models import make_model, takes_raw_columns
from aptset.cli.options import counting, way_of_dates
from aptset.cli.probability_jobs import all_rows, check_weights_wanted, labelled_batches, named
from aptset.cli.raw_rows import check_some_known, labelled_rows
from aptset.cli.table_jobs import Settings, TableResult, run_table, warn_of_clusters
from aptset.cli.tables import ColumnChoice, TableRows, labels_among, model_for, read_rows, times_of
from aptset.core.files import atomic_path, check_other_files
from aptset.core.labels import as_objects
from aptset.core.validate import need_jinja
from aptset.estimator.fitting import fresh
from aptset.metrics.evaluation import about_new_labels


def _write_page(
    model: Any, classes: Any, X: Any, y: Any, out: Path, of_page: dict[str, Any], title: str, **of_rows: Any
) -> Any:
    """Write a page; the classes themselves stand in a tree of labels, which a file has as texts."""
    tree: Taxonomy | None = of_page["taxonomy"]
    if tree is not None:
        labels = dict(zip(tree.labels, labels_among(tree.labels, classes.tolist()).tolist(), strict=True))
        tree = Taxonomy({labels.get(node, node): parent for node, parent in tree.parents.items()}, root=tree.root)
    asked = {**of_page, "taxonomy": tree, "title": of_page["title"] or title}
    return report(model, X, y, out, **asked, **of_rows)


def report_table(file: TableFile, target: str, out: Path, settings: Settings, of_page: dict[str, Any]) -> TableResult:
    """Train and calibrate on 70 % of a table, and write the page about the others."""
    need_jinja()
    result = run_table(file, target, settings)
    rows, test, classifier = result.rows, result.test, result.classifier
    made = _write_page(
        classifier,
        classifier.classes_,
        rows.features.iloc[test],
        result.truth,
        out,
        of_page,
        f"{file.path.name}: prediction sets for {target}",
        groups=None if rows.groups is None else rows.groups[test],
        ids=result.ids,
        features=rows.sliceable(test),
        clusters=None if rows.clusters is None else rows.clusters.iloc[test],
        remarks=rows.remarks,
    )
    first, *others = result.evaluations
    first = replace(first, overall=made.evaluation.overall | first.overall)  # metrics on request are the page's
    return replace(result, evaluations=[first, *others])


def report_folder(
    file: TableFile, folder: Path, alpha: float | None, out: Path, options: Mapping[str, Any], of_page: dict[str, Any]
) -> Any:
    """Write the page about labelled rows and the classifier that a run saved."""
    need_jinja()
    classifier, rows, ids = labelled_rows(file, folder, options["trust"], options["skip_unlabelled"])
    members, cluster = None, options["cluster"]
    if cluster is not None:
        table = file.table((cluster,))
        if cluster not in table.column_names:
            raise lacks(file.path, f"a column {cluster!r}", table.column_names, [cluster])
        members = named(as_objects(as_texts(table[cluster]))[rows.numbers].tolist(), cluster)
    title = f"{file.path.name}: prediction sets by {folder.name}"
    of_rows = {"groups": rows.groups, "ids": ids, "features": rows.sliceable(), "clusters": members, "alpha": alpha}
    of_rows["remarks"] = rows.remarks
    return _write_page(classifier, classifier.classes_, rows.features, rows.labels, out, of_page, title, **of_rows)


def report_probabilities(
    sources: Iterable[ProbabilityFile],
    one: ProbabilityFile | None,
    calibration: Calibration,
    out: Path,
    options: Mapping[str, Any],
    of_page: dict[str, Any],
) -> Any:
    """Write the page about files of probabilities and true labels, or ``one`` of them, with sets by a calibration."""
    classes = calibration.classes.tolist()
    called, total = (options["probs"][0], None) if one is None else (one.path.name, one.file.rows)
    checked = (check_weights_wanted(source, calibration) for source in sources)
    skipped = list[int]() if options["skip_unlabelled"] else None
    with counting(total, of_page["progress"]) as on_rows:
        batches = labelled_batches(checked, [str(name) for name in classes], skipped, may_be_unknown=True)
        matrices, of_rows, _, logits = all_rows(batches, on_rows)
    truth = labels_among(of_rows.pop("labels"), classes)
    check_some_known(Path(called), options["label"], truth, classes)
    of_rows |= {"normalize": options["normalize"] or None, "logits": logits, "alpha": options["alphas"][0]}
    if skipped and sum(skipped):
        of_rows["remarks"] = (about_skipped(sum(skipped), sum(skipped) + len(truth)),)
    title, rows = f"{called}: what the prediction sets are worth", np.concatenate(matrices)
    return _write_page(calibration, calibration.classes, rows, truth, out, of_page, title, **of_rows)


def report_demo(alpha: float, seed: int, out: Path, of_page: dict[str, Any]) -> Any:
    """Write the page about the handwritten digits that ship with scikit-learn."""
    classifier, X, y, features, groups = demo_classifier(alpha, seed)
    of_page["title"] = of_page["title"] or "Handwritten digits: what the prediction sets are worth"
    return report(classifier, X, y, out, groups=groups, features=features, **of_page)


def audit_table(
    file: TableFile, run: Path | None, alpha: float | None, out: Path, choice: ColumnChoice, options: Mapping[str, Any]
) -> tuple[dict[str, Any], str]:
    """Audit a model on a table and write the page; return the results for machines, and in words."""
    need_jinja()  # now, not after all splits
    check_other_files([out / "audit.html", out / "splits.csv"], [file.path])
    time, remarks = options["time"], tuple[str, ...]()
    if run is None:
        model, rows = _model_of_table(file, alpha, choice, options)
    elif options["cluster"] is not None:
        raise ValueError(
            "--cluster cannot be given with -c FOLDER, whose model is set up already. Leave one of the two out."
        )
    else:  # as it was set up there
        fitted, rows, _ = labelled_rows(file, run, options["trust"], choice.skip_unlabelled)
        if rows.groups is not None:
            remarks = ("The run calibrated within groups; the audit calibrates all rows of a split together.",)
        remarks += about_new_labels(rows.labels.tolist(), fitted.classes_.tolist())
        model, rows = fresh(fitted), replace(rows, labels=of_one_kind(rows.labels))
    result = audit(
        model,
        rows.features,
        rows.labels,
        calibrations=list(options["calibrations"]),
        groups=rows.groups,
        features=_but_for(rows.sliceable(), time),
        time=None if time is None else times_of(file, time, rows.numbers, way_of_dates(options)),
        clusters=rows.clusters,
        folder=out / "splits",
        alpha=alpha,
        level=options["level"],
        randomized=options["randomized"],
        conformity=imported_score(options["conformity"]),
        **settings_of_splits(options),
    )
    audited = replace(result, remarks=(*rows.remarks, *remarks, *result.remarks))
    audited.report(out / "audit.html", f"{file.path.name}: is the promise kept?")
    written = ["audit.html", *_write_splits(audited.splits, out)]
    facts = {"verdicts": verdicts_as_json(audited.verdicts), "drift": audited.drift.warning, "out": str(out)}
    facts |= {"remarks": list(audited.remarks)} if audited.remarks else {}
    return {**facts, "written": written}, f"{audited!r}\n\nWritten to {out}: {', '.join(written)}"


def _model_of_table(
    file: TableFile, alpha: float | None, choice: ColumnChoice, options: Mapping[str, Any]
) -> tuple[Any, TableRows]:
    """Return the model that is named, behind the steps that the columns of a table need, and its rows."""
    groups, time, calibrations = options["groups"], options["time"], options["calibrations"]
    model = make_model(options["model"], options["trust"])
    of_table: dict[str, Any] = {"choice": choice, "raw": takes_raw_columns(model), "cluster": options["cluster"]}
    rows = read_rows(file, str(options["target"]), groups, time, may_be_grouping=False, **of_table)
    if options["cluster"] is None:
        asked = Settings(calibration=calibrations[0], alphas=(alpha,), groups=groups, row_id=time, choice=choice)
        warn_of_clusters(file, replace(rows, groups=None), asked, model)
    return model_for(file.path, rows.plan, model, calibrations), rows


def settings_of_splits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked of many splits, in the words of the library."""
    settings = {name: options[name] for name in ("repetitions", "test_share", "extra_metrics")}
    return {**settings, "n_jobs": options["jobs"], "random_state": options["seed"], "progress": not options["quiet"]}


def _but_for(features: Any, time: str | None) -> Any:
    """Return what drift is looked for in: a column of times changes along the times by itself."""
    is_there = features is not None and time in features.columns and len(features.columns) > 1
    return features.drop(columns=time) if is_there else features


def of_one_kind(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels that can be trained on together: all of them as texts, if one of them can only be a text."""
    values = labels.tolist()
    return as_objects([str(label) for label in values]) if any(isinstance(label, str) for label in values) else labels


@dataclass(frozen=True)
class Alternatives:
    """What is compared: every combination of these."""

    models: tuple[str, ...] = ("logistic",)
    calibrations: tuple[str, ...] = ("split",)
    conformities: tuple[str, ...] = ("adaptive",)
    shares: tuple[float, ...] = ()
    randomized: tuple[bool, ...] = (True,)
    level: str = "nominal"

    def names(self) -> list[tuple[str, ...]]:
        """Return each combination: model, calibration, score, share, and whether sets are randomized."""
        combinations: list[tuple[Any, ...]] = []
        for one in product(self.models, self.calibrations, self.conformities, self.shares or (None,), self.randomized):
            share = None if one[1] != "split" else one[3]
            combinations.append((*one[:3], share, one[4]))
        return list(dict.fromkeys(combinations))

    def candidates(self, made: dict[str, Any]) -> dict[str, ConformalClassifier]:
        """Return a classifier for each combination, named by what differs."""
        every = self.names()
        differs = [len({one[k] for one in every}) > 1 for k in range(5)]
        classifiers = {}
        for one in every:
            model, calibration, conformity, share, randomized = one
            words = (model, calibration, conformity, f"share {share}", "randomized" if randomized else "deterministic")
            name = "/".join(str(word) for word, is_told in zip(words, differs, strict=True) if is_told) or str(model)
            settings = Settings(
                calibration=str(calibration),
                conformity=str(conformity),
                share=None if share is None else float(share),
                randomized=bool(randomized),
                level=self.level,
            )
            classifiers[name] = settings.classifier(made[str(model)])
        return classifiers


def compare_table(
    file: TableFile,
    alternatives: Alternatives,
    alpha: float,
    out: Path,
    choice: ColumnChoice,
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], str]:
    """Compare models and settings on a table and write the page; return the results for machines, and in words."""
    need_jinja()
    check_other_files([out / "compare.html", out / "splits.csv"], [file.path])
    made = {name: make_model(name, options["trust"]) for name in alternatives.models}
    of_table: dict[str, Any] = {"choice": choice, "raw": any(map(takes_raw_columns, made.values()))}
    groups, cluster = options["groups"], options["cluster"]
    rows = read_rows(file, options["target"], groups, may_be_grouping=False, cluster=cluster, **of_table)
    ready = {name: model_for(file.path, rows.plan, model, alternatives.calibrations) for name, model in made.items()}
    of_rows: dict[str, Any] = {"groups": rows.groups, "features": rows.sliceable(), "clusters": rows.clusters}
    of_rows |= {"alpha": alpha, "folder": out / "splits", **settings_of_splits(options)}
    comparison = compare(alternatives.candidates(ready), rows.features, rows.labels, **of_rows)
    comparison = replace(comparison, remarks=rows.remarks)
    comparison.report(out / "compare.html", f"{file.path.name}: which has the better sets?")
    written = ["compare.html", *_write_splits(comparison.splits, out)]
    facts: dict[str, Any] = {"ranking": comparison.ranking, "sentences": comparison.sentences()}
    facts["recommended"] = comparison.recommendation()[0]
    facts |= {"remarks": list(comparison.remarks)} if comparison.remarks else {}
    facts |= {"verdicts": verdicts_as_json(comparison.verdicts), "out": str(out), "written": written}
    return facts, f"{comparison!r}\n\nWritten to {out}: {', '.join(written)}"


def _write_splits(splits: Any, out: Path) -> list[str]:
    """Write one line for each candidate and split."""
    import pandas as pd

    with atomic_path(out / "splits.csv") as path:
        pd.DataFrame(splits.columns()).to_csv(path, index=False)
    return ["splits.csv"]


def verdicts_as_json(verdicts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdicts as plain values."""
    return {name: verdict.as_json() for name, verdict in verdicts.items()}
