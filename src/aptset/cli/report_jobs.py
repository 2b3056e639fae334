"""What ``aptset report`` does: from a table, or from probabilities and an artefact, to a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset import Calibration, ConformalClassifier, Taxonomy, audit, compare, report
from aptset.arrow.formats import TableFile
from aptset.arrow.sources import as_texts
from aptset.audits.audit import Audit, about_new_labels
from aptset.audits.compare import Comparison
from aptset.cli.demo import demo_classifier
from aptset.cli.files import ProbabilityFile, about_skipped, lacks
from aptset.cli.models import make_model, takes_raw_columns
from aptset.cli.prediction_jobs import check_weights_wanted
from aptset.cli.probability_jobs import all_rows, labelled_batches, named
from aptset.cli.raw_rows import check_some_known, labelled_rows
from aptset.cli.table_jobs import Settings, TableResult, run_table, warn_of_clusters
from aptset.cli.tables import ColumnChoice, labels_among, model_for, read_rows, times_of
from aptset.core.files import atomic_path, check_other_files
from aptset.core.labels import as_objects
from aptset.core.runner import counting
from aptset.estimator.fitting import fresh
from aptset.reports.making import Report, need_jinja


def _for_classes(classes: Any, taxonomy: Taxonomy | None = None, **of_page: Any) -> dict[str, Any]:
    """Return what a page shows besides, with the classes themselves in the tree, where a file has their texts."""
    if taxonomy is not None:
        labels = dict(zip(taxonomy.labels, labels_among(taxonomy.labels, classes.tolist()).tolist(), strict=True))
        parents = {labels.get(node, node): parent for node, parent in taxonomy.parents.items()}
        of_page["taxonomy"] = Taxonomy(parents, root=taxonomy.root)
    return of_page


def report_table(
    file: TableFile, target: str, out: Path, title: str | None, settings: Settings, **of_page: Any
) -> tuple[Report, TableResult]:
    """Train and calibrate on 70 % of a table, and write the page about the others."""
    need_jinja()
    result = run_table(file, target, settings)
    title = title or f"{file.path.name}: prediction sets for {target}"
    groups = None if result.rows.groups is None else result.rows.groups[result.test]
    of_rows: dict[str, Any] = {"groups": groups, "ids": result.ids, "features": result.rows.sliceable(result.test)}
    of_rows["clusters"] = None if result.rows.clusters is None else result.rows.clusters.iloc[result.test]
    X = result.rows.features.iloc[result.test]
    of_rows |= {"title": title, "progress": settings.progress, "remarks": result.rows.remarks}
    of_rows |= _for_classes(result.classifier.classes_, **of_page)
    made = report(result.classifier, X, result.truth, out, **of_rows)
    first, *others = result.evaluations
    first = replace(first, overall=made.evaluation.overall | first.overall)  # metrics on request are the page's
    return made, replace(result, evaluations=[first, *others])


def report_folder(
    file: TableFile,
    folder: Path,
    alpha: float | None,
    out: Path,
    title: str | None,
    trust: Sequence[str],
    progress: bool,
    assurance: Any = None,
    skip_unlabelled: bool = False,
    cluster: str | None = None,
    **of_page: Any,
) -> Report:
    """Write the page about labelled rows and the classifier that a run saved."""
    need_jinja()
    classifier, rows, ids = labelled_rows(file, folder, trust, skip_unlabelled)
    title = title or f"{file.path.name}: prediction sets by {folder.name}"
    of_rows: dict[str, Any] = {"groups": rows.groups, "ids": ids, "features": rows.sliceable()}
    of_rows |= {"alpha": alpha, "title": title, "progress": progress, "remarks": rows.remarks, "assurance": assurance}
    if cluster is not None:
        table = file.table((cluster,))
        if cluster not in table.column_names:
            raise lacks(file.path, f"a column {cluster!r}", table.column_names, [cluster])
        members = as_objects(as_texts(table[cluster]))[rows.numbers]
        of_rows["clusters"] = named(members.tolist(), cluster)
    of_rows |= _for_classes(classifier.classes_, **of_page)
    return report(classifier, rows.features, rows.labels, out, **of_rows)


def report_probabilities(
    sources: Iterable[ProbabilityFile],
    called: str,
    label: str,
    total: int | None,
    calibration: Calibration,
    alpha: float,
    out: Path,
    title: str | None,
    normalize: bool,
    progress: bool,
    assurance: Any = None,
    skip_unlabelled: bool = False,
    **of_page: Any,
) -> Report:
    """Write the page about a file of probabilities and true labels, with sets by a calibration."""
    names = [str(name) for name in calibration.classes.tolist()]
    checked = (check_weights_wanted(source, calibration) for source in sources)
    with counting(total, "rows", progress) as on_rows:
        skipped = list[int]() if skip_unlabelled else None
        matrices, of_rows, _, logits = all_rows(labelled_batches(checked, names, skipped, True), on_rows)
    truth = labels_among(of_rows.pop("labels"), calibration.classes.tolist())
    check_some_known(Path(called), label, truth, calibration.classes.tolist())
    of_rows |= {"normalize": normalize or None, "logits": logits, "alpha": alpha, "progress": progress}
    of_rows["assurance"] = assurance
    if skipped and sum(skipped):
        of_rows["remarks"] = (about_skipped(sum(skipped), sum(skipped) + len(truth)),)
    of_rows["title"] = title or f"{called}: what the prediction sets are worth"
    of_rows |= _for_classes(calibration.classes, **of_page)
    return report(calibration, np.concatenate(matrices), truth, out, **of_rows)


def report_demo(alpha: float, seed: int, out: Path, title: str | None, progress: bool, **of_page: Any) -> Report:
    """Write the page about the handwritten digits that ship with scikit-learn."""
    classifier, X, y, features, groups = demo_classifier(alpha, seed)
    title = title or "Handwritten digits: what the prediction sets are worth"
    return report(classifier, X, y, out, groups=groups, features=features, title=title, progress=progress, **of_page)


def audit_table(
    file: TableFile,
    target: str | None,
    model: str,
    calibrations: tuple[str, ...],
    groups: str | None,
    time: str | None,
    out: Path,
    choice: ColumnChoice,
    trust: Sequence[str],
    dates: str | None = None,
    run: Path | None = None,
    cluster: str | None = None,
    **settings: Any,
) -> tuple[Audit, list[str]]:
    """Audit a model on a table; return what was found, and the names of the files that were written."""
    need_jinja()  # now, not after all splits
    check_other_files([out / "audit.html", out / "splits.csv"], [file.path])
    remarks: tuple[str, ...] = ()
    if run is not None:  # as it was set up there
        if cluster is not None:
            raise ValueError(
                "--cluster cannot be given with -c FOLDER, whose model is set up already. Leave one of the two out."
            )
        audited_model, rows, _ = labelled_rows(file, run, trust, choice.skip_unlabelled)
        if rows.groups is not None:
            remarks = ("The run calibrated within groups; the audit calibrates all rows of a split together.",)
        remarks += about_new_labels(rows.labels.tolist(), audited_model.classes_.tolist())
        audited_model, rows = fresh(audited_model), replace(rows, labels=of_one_kind(rows.labels))
    else:
        estimator = make_model(model, trust)
        raw = takes_raw_columns(estimator)
        of_table: dict[str, Any] = {"choice": choice, "raw": raw, "cluster": cluster}
        rows = read_rows(file, str(target), groups, time, may_be_grouping=False, **of_table)
        if cluster is None:
            asked = Settings(calibration=calibrations[0], alphas=(settings["alpha"],), groups=groups, row_id=time)
            warn_of_clusters(file, replace(rows, groups=None), replace(asked, choice=choice), estimator)
        audited_model = model_for(file.path, rows.plan, estimator, calibrations)
    times = None if time is None else times_of(file, time, rows.numbers, dates)
    result = audit(
        audited_model,
        rows.features,
        rows.labels,
        calibrations=list(calibrations),
        groups=rows.groups,
        features=_but_for(rows.sliceable(), time),
        time=times,
        clusters=rows.clusters,
        folder=out / "splits",
        **settings,
    )
    audited = replace(result, remarks=(*rows.remarks, *remarks, *result.remarks))
    audited.report(out / "audit.html", f"{file.path.name}: is the promise kept?")
    return audited, ["audit.html", *_write_splits(audited, out)]


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
        """Return each combination: model, calibration, score, share, and whether chance decides."""
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
    target: str,
    alternatives: Alternatives,
    groups: str | None,
    out: Path,
    choice: ColumnChoice,
    trust: Sequence[str],
    cluster: str | None = None,
    **settings: Any,
) -> tuple[Comparison, list[str]]:
    """Compare models and settings on a table; return what was found, and the names of the files that were written."""
    need_jinja()
    check_other_files([out / "compare.html", out / "splits.csv"], [file.path])
    made = {name: make_model(name, trust) for name in alternatives.models}
    raw = any(map(takes_raw_columns, made.values()))
    rows = read_rows(file, target, groups, may_be_grouping=False, choice=choice, raw=raw, cluster=cluster)
    ready = {name: model_for(file.path, rows.plan, model, alternatives.calibrations) for name, model in made.items()}
    candidates = alternatives.candidates(ready)
    settings |= {"features": rows.sliceable(), "clusters": rows.clusters}
    settings |= {"groups": rows.groups, "folder": out / "splits"}
    comparison = replace(compare(candidates, rows.features, rows.labels, **settings), remarks=rows.remarks)
    comparison.report(out / "compare.html", f"{file.path.name}: which has the better sets?")
    return comparison, ["compare.html", *_write_splits(comparison, out)]


def _write_splits(result: Audit | Comparison, out: Path) -> list[str]:
    """Write one line for each candidate and split."""
    import pandas as pd

    with atomic_path(out / "splits.csv") as path:
        pd.DataFrame(result.splits.columns()).to_csv(path, index=False)
    return ["splits.csv"]


def verdicts_as_json(result: Audit | Comparison) -> dict[str, Any]:
    """Return the verdicts as plain values."""
    return {name: verdict.as_json() for name, verdict in result.verdicts.items()}
