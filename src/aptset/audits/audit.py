"""``aptset.audit``: is the promise kept on these data, for this model?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aptset import ConformalClassifier
from aptset.audits.dataset import (
    Pool,
    RandomSplit,
    as_conformal,
    groups_shown,
    prepare,
    split_and_measure,
)
from aptset.audits.results import Distribution, Records, Splits, distribution
from aptset.audits.verdicts import OF_DRIFT, Drift, Verdict, judge, look_for_drift, splits_page
from aptset.core import validate
from aptset.core.dates import Times
from aptset.core.labels import coded_list, known_columns
from aptset.core.runner import side_by_side
from aptset.core.tables import Backend, Display, html_table, make_table
from aptset.core.validate import warn_caller
from aptset.estimator.checks import check_calibrations, check_estimator_can, is_frozen
from aptset.metrics.coverage_distribution import FALSE_ALARMS
from aptset.metrics.evaluation import about_new_labels
from aptset.reports.making import check_page_path, save_page

ENDING = "  If rows are independent draws from one source, at most one audit in 100 gives a warning."


@dataclass(frozen=True, repr=False)
class Audit:
    """What many random splits of the same rows say; made by :func:`audit`.

    Attributes
    ----------
    verdicts : dict of Verdict
        For each calibration: was the promise kept? With an exact chance where the calibration has an exact law.
    drift : Drift
        Do the rows look exchangeable along their order, or along ``time``?
    alpha : float
        The level.
    n, n_test, repetitions : int
        All rows, rows (or clusters) that test in each split, splits.
    made_of : str
        What splits are made of, in words.
    remarks : tuple of str
        Sentences about the rows: labels that the model does not know, rows that were left out.
    """

    splits: Splits
    verdicts: dict[str, Verdict]
    drift: Drift
    alpha: float
    n: int
    n_test: int
    made_of: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def repetitions(self) -> int:
        """Number of random splits."""
        return self.splits.repetitions

    def summary(self) -> Records[Distribution]:
        """Return mean, spread and quantiles over the splits of every metric, overall and by label and group."""
        return self.splits.summary()

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row for each calibration and split: coverage, worst slice, sizes."""
        return make_table(self.splits.columns(), backend)

    def plot(self, metric: str = "coverage", candidate: str | None = None) -> Display:
        """Draw how a metric is distributed over the splits of a calibration (by default the first)."""
        validate.one_of(metric, tuple(self.splits.metrics), "metric")
        names = tuple(self.verdicts)
        values = self.splits.values(validate.one_of(candidate or names[0], names, "candidate"), metric)
        marks = [1 - self.alpha] if self.splits.metrics[metric].aims_at_level else []
        title = f"{metric.replace('_', ' ')} over {self.repetitions} random splits"
        return Display(distribution(values, metric), "line", title, metric, "share of splits", marks)

    def report(self, path: str | Path, title: str = "Is the promise kept on these data?") -> Path:
        """Write one HTML page about the audit, which works offline, and return its path."""
        target = check_page_path(path)
        how = f"{self.repetitions} random splits of {self.n:,} rows; in each, {self.n_test:,} test, the others train."
        if self.splits.results[0].over_clusters:
            how = f"{self.repetitions} random splits of {self.made_of} in each, the others train. Clusters count once."
        page = splits_page(title, self.splits, self.verdicts, self.alpha, how, self.drift, sentences=[*self.remarks])
        return save_page(page, target)

    def _repr_html_(self) -> str:
        """Return the verdicts for notebooks."""
        head = f"Audit at alpha={self.alpha:g}: {self.repetitions} random splits of {self.made_of}"
        rows = [(name, verdict.sentence()) for name, verdict in self.verdicts.items()]
        drift = f"Drift: {self.drift.sentence()}"
        notes = [*self.remarks, drift, ENDING.strip()]
        return html_table(head, ("calibration", "verdict"), rows, notes) + self.splits.html()

    def __repr__(self) -> str:
        head = f"Audit at alpha={self.alpha:g}: {self.repetitions} random splits of {self.made_of}"
        verdicts = [f"  {name}: {verdict.sentence()}" for name, verdict in self.verdicts.items()]
        verdicts += [f"  {sentence}" for sentence in self.remarks]
        return "\n".join([head, *verdicts, "", self.splits.text(), "", f"  Drift: {self.drift.sentence()}", ENDING])


def unseen_rows(pool: Pool, repetitions: int, seed: int) -> NDArray[np.intp]:
    """Return the test rows of all splits whose label no training row of the split has."""
    codes = coded_list(pool.y.tolist()).codes

    def of_split(number: int) -> NDArray[np.intp]:
        train, test = RandomSplit(pool, "", None, number, seed).units()
        of_training = codes[train if pool.clusters is None else pool.rows_of(train)]
        in_training = np.bincount(of_training, minlength=int(codes.max()) + 1) > 0
        if in_training.all():
            return test[:0]
        rows = pool.rows_of(test)
        unseen: NDArray[np.intp] = rows[~in_training[codes[rows]]]
        return unseen

    return np.concatenate(side_by_side([partial(of_split, number) for number in range(repetitions)]))


def _about_labels(estimator: Any, pool: Pool, candidates: dict[str, Any], splits: Splits, seed: int) -> list[str]:
    """Say which labels the fitted classifier does not know, and which ones the training rows of splits lack."""
    labels, model = pool.y.tolist(), getattr(estimator, "estimator", estimator)
    knows = model if is_frozen(model) else estimator if isinstance(estimator, ConformalClassifier) else None
    classes, said = getattr(knows, "classes_", None), list[str]()
    if classes is not None:
        known_columns(pool.y, classes, "y")
        said += about_new_labels(labels, classes.tolist(), is_frozen(model))
    known = set(classes.tolist() if classes is not None and is_frozen(model) else ())
    rows = unseen_rows(pool, splits.repetitions, seed).tolist()
    unseen = Counter(labels[row] for row in rows if labels[row] not in known)
    if unseen and all(one.classes is None for one in candidates.values()):
        tested = sum(one.rows for one in splits.of(next(iter(candidates))))
        named = ", ".join(map(repr, list(unseen)[:5])) + (", ..." if len(unseen) > 5 else "")
        said.append(
            f"{sum(unseen.values()):,} of {tested:,} test labels, over all splits, are in no training row of their "
            f"split: {named}. No set can hold them."
        )
    return said


def audit(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    calibrations: Any = ("split", "cv+"),
    alpha: float | None = None,
    conformity: Any = "adaptive",
    level: Literal["nominal", "guaranteed"] = "nominal",
    randomized: bool = True,
    repetitions: int = 100,
    test_share: float = 0.3,
    groups: ArrayLike | None = None,
    features: Any = None,
    time: ArrayLike | Times | None = None,
    folder: str | Path | None = None,
    n_jobs: int | None = 1,
    progress: bool = False,
    random_state: int = 0,
    clusters: Any = None,
    extra_metrics: str | Sequence[str] = (),
) -> Audit:
    """Split the rows at random again and again, train, calibrate and test each time: is the promise kept?

    Random splits are exchangeable by construction, so the verdict is about the method and the model on these rows. What
    it cannot see is a world that changes: that is what the look at drift, along the order of the rows, is for. It looks
    at how strange the rows are to the model, at labels, at features and at the last rows, and for rows that were
    copied. Splits and models do not depend on the order of the rows. If rows are drawn independently from one source,
    all verdicts and checks together speak up for nothing in at most one of 100 audits. Rows that somebody designed,
    every combination so many times, are no such draw: they look copied.

    Parameters
    ----------
    estimator : classifier
        A model, or a ConformalClassifier, which is then audited as it is.
    X, y
        All rows and their labels.
    calibrations : sequence, default=("split", "cv+")
        The calibrations to audit; not used for a ConformalClassifier.
    alpha : float, optional
        The level; by default the one of the ConformalClassifier, else 0.1.
    conformity, level, randomized
        As in :class:`ConformalClassifier`; not used for one.
    repetitions : int, default=100
        Number of random splits.
    test_share : float, default=0.3
        Share of the rows that test.
    groups : array, optional
        A group for each row, to break coverage and size down.
    features : array or data frame, optional
        What to look for the worst slice in; by default X, if it holds numbers, dates or categories.
    time : array, optional
        When each row was taken: numbers or dates, also as texts (2024-12-31, 31.12.2024, 12/31/2024), all written in
        one way; by default the order of the rows. Rows of one time have no order: it is drawn.
    folder : path, optional
        Where finished splits are kept, so that a run that was stopped goes on where it was.
    n_jobs : int, default=1
        Worker processes; -1 for one per core. No result depends on it. Within ``joblib.parallel_config("dask")``
        anything but 1 means the workers of the cluster, which get the data once.
    progress : bool, default=False
        Show a bar, on terminals and in notebooks.
    random_state : int, default=0
        Seed of splits, models and uniforms.
    clusters : array or name of a column of X, optional
        For rows that belong together, such as images of one patient: the id of each row's cluster. Clusters are split,
        calibrated and judged as a whole; the promise is about a row of a new cluster, and drift is looked for from
        cluster to cluster.
    extra_metrics : str or sequence of str, optional
        Metrics that are measured on request only, since they fit a model: "coverage_unevenness" fits eight in every
        split.

    Returns
    -------
    Audit

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import aptset
    >>> X, y = load_iris(return_X_y=True)
    >>> order = __import__("numpy").random.default_rng(0).permutation(150)
    >>> found = aptset.audit(GaussianNB(), X[order], y[order], calibrations="split", repetitions=20)
    >>> found.verdicts["split"].kept, found.drift.warning
    (True, False)
    """
    if isinstance(estimator, ConformalClassifier):
        candidates = {"as given": as_conformal(estimator, None, alpha)}
    else:
        check_estimator_can(estimator)
        chosen = check_calibrations(calibrations)
        settings: dict[str, Any] = {"conformity": conformity, "level": level, "randomized": randomized}
        candidates = {str(one): as_conformal(estimator, one, alpha, **settings) for one in chosen}
    shown = groups_shown(groups, candidates.values(), y)
    pool, share = prepare(X, y, shown, time, test_share, features, random_state, clusters)
    how = (repetitions, random_state, folder, n_jobs, progress)
    splits = split_and_measure(candidates, pool, *how, in_order=True, extra_metrics=extra_metrics)
    exact = validate.alpha(next(iter(candidates.values())).alpha)
    # One of 100 audits may speak up for nothing; the look at drift takes most of that.
    each = (FALSE_ALARMS - OF_DRIFT) / len(candidates)
    jobs: list[Callable[[], Any]] = [
        partial(_drift, splits, pool, candidates, exact, random_state),
        lambda: {name: judge(splits.of(name), exact, share, each, pool.about) for name in candidates},
        partial(_about_labels, estimator, pool, candidates, splits, random_state),
    ]
    drift, verdicts, said = side_by_side(jobs)
    if drift.warning:
        warn_caller(drift.sentence())
    remarks = tuple(said)
    return Audit(splits, verdicts, drift, float(exact), len(pool.y), pool.n_test, pool.in_words(), remarks)


def _drift(
    splits: Splits, pool: Pool, candidates: dict[str, ConformalClassifier], alpha: Fraction, random_state: int
) -> Drift:
    first, model = next(iter(candidates.items()))
    is_by_label = isinstance(model.groups, str) and model.groups == "label"
    tested, last = splits.tested(first), splits.in_order(first)
    # A stream of its own: data that were drawn with the same seed must not know the reorderings.
    generator = np.random.default_rng([random_state, 4])
    return look_for_drift(tested, last, pool, alpha, generator, is_by_label)
