"""The rows that all splits are drawn from, checked and put in an order that their content decides."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from pickle import PicklingError
from typing import Any

import numpy as np
from joblib import hash as content_hash
from joblib import wrap_non_picklable_objects
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from aptset import ConformalClassifier, CoverageMonitor, LabelBands, PredictionSets
from aptset.audits.results import PartResult, SplitResult, Splits, TestedRows, laws_of
from aptset.core import validate
from aptset.core.dates import Times, read_times
from aptset.core.groupings import refuse_overlapping
from aptset.core.groups import groups_overlap
from aptset.core.labels import check_length, coded_list, columns_of
from aptset.core.randomization import all_at_once
from aptset.core.row_groups import check_clusters, plural
from aptset.core.runner import run_tasks
from aptset.core.tables import plain_list, without_column
from aptset.estimator.checks import check_test_share, check_training_data
from aptset.estimator.fitting import fresh, pair_seeds, take
from aptset.metrics import OF_SPLITS, check_extra
from aptset.metrics.evaluation_rows import as_group_list
from aptset.metrics.features import can_be_sliced, features_of
from aptset.metrics.monitor_checks import rows_to_monitor
from aptset.metrics.outcome import Outcome, RowClusters


def check_auditable(model: ConformalClassifier) -> None:
    """Refuse a promise that random splits do not show, or whose law the verdicts do not know."""
    if model.weights is not None:
        raise ValueError(
            "weights must be left out here: weights are for test rows of another distribution, and the test rows of "
            "random splits have the same one. Make a report on rows of the other distribution."
        )
    if model.assurance is not None:
        raise ValueError(
            "assurance must be None for audit and compare, whose verdicts are about sets that cover 1 - "
            f"alpha on average; got {model.assurance}. Leave it out here: sets with assurance cover more."
        )
    validate.alpha(model.alpha)


def as_conformal(model: Any, calibration: Any, alpha: float | None, **settings: Any) -> ConformalClassifier:
    """Return the classifier to audit: the one given, or a model wrapped into one."""
    if isinstance(model, ConformalClassifier):
        check_auditable(model)
        same: ConformalClassifier = fresh(model).set_params(**({} if alpha is None else {"alpha": alpha}))
        return same
    return ConformalClassifier(model, calibration=calibration, alpha=0.1 if alpha is None else alpha, **settings)


def check_seed(seed: Any) -> int:
    """Return the seed, from which every split draws its own numbers."""
    return validate.whole(seed, "random_state", 0, "a whole number, not negative, so that runs can go on")


def check_times(time: Any, n_rows: int, generator: np.random.Generator) -> tuple[NDArray[np.intp], str]:
    """Return the place of each row in time, and how times were read: ranks, ties at random; by default the row order.

    Ties in the order of the rows would bring that order back in, which is another question.
    """
    if time is None:
        return np.arange(n_rows), ""
    times = time if isinstance(time, Times) else read_times(plain_list(time), "time")
    check_length(times.keys, n_rows, "time")
    order = sorted(generator.permutation(n_rows).tolist(), key=times.keys.__getitem__)
    place = np.empty(n_rows, dtype=np.intp)
    place[order] = np.arange(n_rows)
    return place, times.words()


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that all splits are drawn from, in an order that their content decides; ``position``: where they stood.

    Where a row stands must not decide how it is split, trained on or tested, or no reordering would be as likely as any
    other.
    """

    X: Any  # the user's: any kind of rows that the model takes
    y: NDArray[Any]
    groups: list[Any] | None
    position: NDArray[np.intp]
    n_test: int
    features: Any  # what slices are made of; None for no slices
    content: NDArray[np.intp]  # equal for rows with the same features and label
    times: str = ""  # how the times of the rows were read, in words; "" for the order of the rows
    clusters: NDArray[np.intp] | None = None  # the number of each row's cluster: ``n_test`` of them test
    noun: str = "row"  # what a cluster is called

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes with any value in the rows."""
        content = (self.X, self.y, self.groups, self.position, self.n_test, self.features)
        return fingerprint(content if self.clusters is None else (*content, self.clusters))

    @cached_property
    def n_units(self) -> int:
        """How many rows there are, or clusters, of which each is on one side of a split."""
        return len(self.y) if self.clusters is None else int(self.clusters.max()) + 1

    @property
    def about(self) -> str:
        """What a promise is about, in words; nothing where rows stand alone."""
        return "" if self.clusters is None else f" for a row of a new {self.noun}"

    def in_words(self) -> str:
        """Say what splits are made of, and how much of it tests."""
        if self.clusters is None:
            return f"{len(self.y)} rows, {self.n_test} test"
        return f"{len(self.y)} rows of {self.n_units} {plural(self.noun)}, {self.n_test} {plural(self.noun)} test"

    def rows_of(self, units: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of some clusters, upward; without clusters the rows themselves."""
        if self.clusters is None:
            return np.sort(units)
        chosen = np.zeros(self.n_units, dtype=np.bool_)
        chosen[units] = True
        return np.flatnonzero(chosen[self.clusters])

    def places(self, generator: np.random.Generator) -> NDArray[np.intp]:
        """Return the place of each row; of a cluster that of one of its rows, drawn so that its size does not count."""
        if self.clusters is None:
            return self.position
        order = generator.permutation(len(self.y))
        _, first = np.unique(self.clusters[order], return_index=True)
        return self.position[order[first]]

    def means(self, values: NDArray[np.float64], among: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Return the mean of each cluster's rows, (clusters, columns), NaN where none is among the chosen."""
        chosen = np.ones(len(self.y), dtype=np.bool_) if among is None else among
        if self.clusters is None:
            return values
        times = np.bincount(self.clusters[chosen], minlength=self.n_units)
        sums = [np.bincount(self.clusters[chosen], column[chosen], minlength=self.n_units) for column in values.T]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.array(sums) / times).T

    @cached_property
    def titles(self) -> dict[str, dict[Any, str]]:
        """The text of every label and group, the same in every split and never the same for two of them."""
        parts = {"label": self.y.tolist(), "group": self.groups or []}
        return {part: _titles(list(dict.fromkeys(values))) for part, values in parts.items()}


def groups_shown(groups: Any, models: Iterable[ConformalClassifier], y: Any) -> Any:
    """Return the groups to break results down by: as passed, or the bands of the labels, if models share them."""
    settings: list[Any] = [model.groups for model in models]
    is_shared = isinstance(settings[0], LabelBands) and all(one == settings[0] for one in settings)
    return settings[0].of(y) if groups is None and is_shared else groups


def prepare(
    X: Any,
    y: Any,
    groups: Any,
    time: Any,
    test_share: float,
    features: Any = None,
    seed: int = 0,
    clusters: Any = None,
) -> tuple[Pool, float]:
    """Check the rows, and decide how many test."""
    X, labels, _ = check_training_data(ConformalClassifier(None), X, y, minimum=10)
    members = None if clusters is None else check_clusters(clusters, X, len(labels), 0)
    X = without_column(X, clusters) if isinstance(clusters, str) else X
    refuse_overlapping(groups_overlap(groups), "place in an audit", "Pass one group for each row.")
    of_rows = as_group_list(groups)
    if of_rows is not None:
        check_length(of_rows, len(labels), "groups")
    if features is not None:
        features_of(features, None, len(labels))  # refused now, not in the middle of the splits
    elif can_be_sliced(X, len(labels)):
        features = X
    n_units, noun = (len(labels), "row") if members is None else (int(members.numbers().max()) + 1, members.noun)
    share, n_test = check_test_share(test_share, n_units, noun)
    position, times = check_times(time, len(labels), np.random.default_rng([check_seed(seed), 3]))
    order, content = by_content(X, labels, seed)
    of_rows = None if of_rows is None else [of_rows[row] for row in order.tolist()]
    numbers = None if members is None else members.some(order).numbers()
    shared, X, y, position = features is X, take(X, order), labels[order], position[order]
    features = X if shared else None if features is None else take(features, order)
    return Pool(X, y, of_rows, position, n_test, features, content, times, numbers, noun), share


def by_content(X: Any, y: NDArray[Any], key: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return an order of the rows that only their content decides, and the number of the content of each, in it."""
    words = pair_seeds(X, y, key)
    order = np.argsort(words, kind="stable")
    return order, np.cumsum(np.diff(words[order], prepend=words[order[:1]]) != 0)


def fingerprint(value: Any) -> str:
    """Return a text that changes with the content of a value."""
    try:
        return str(content_hash(value))
    except (PicklingError, AttributeError, TypeError):  # functions and classes made on the spot
        return str(content_hash(wrap_non_picklable_objects(value)))


def _titles(values: list[Any]) -> dict[Any, str]:
    times = Counter(str(value) for value in values)
    return {value: str(value) if times[str(value)] == 1 else repr(value) for value in values}


_FORM = 3  # of what is written down: files of another form are left alone
_MOST_TESTED = 2_000_000  # test rows over all splits of a candidate that something is written down about


@dataclass(frozen=True)
class RandomSplit:
    """A task for the runner. All candidates of a repetition share their rows; repetition -1 tests on the last rows."""

    pool: Pool
    candidate: str
    model: Any
    repetition: int
    seed: int
    keeps: str = ""  # what to write down for every test row: "p_values" of the true label, "sizes", or nothing
    extra: tuple[str, ...] = ()  # metrics that are measured on request
    made_of: str = ""  # the fingerprints of rows and model, where they are known: all repetitions share them

    @cached_property
    def key(self) -> str:
        """All that the result depends on, as text."""
        made_of = self.made_of or f"{self.pool.fingerprint} {fingerprint(self.model)}"
        wanted = f"rows={self.keeps} metrics={','.join([*OF_SPLITS, *self.extra])} form={_FORM}"
        return f"{self.candidate} r{self.repetition} seed={self.seed} {made_of} {wanted}"

    @property
    def weight(self) -> float:
        """Every split takes about as long as any other."""
        return 1.0

    def units(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows, or clusters, that train and calibrate, and those that test, in any order."""
        n, n_test = self.pool.n_units, self.pool.n_test
        if self.repetition < 0:
            order = np.argsort(self.pool.places(np.random.default_rng([self.seed, 5])))
            return order[: n - n_test], order[n - n_test :]
        order = np.random.default_rng([self.seed, self.repetition, 1]).permutation(n)
        return order[n_test:], order[:n_test]

    def split(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows that train and calibrate, and those that test."""
        train, test = self.units()
        return self.pool.rows_of(train), self.pool.rows_of(test)

    def run(self) -> list[dict[str, Any]]:
        """Train, calibrate and test."""
        train, test = self.split()
        seed = int(np.random.default_rng([self.seed, self.repetition + 1, 2]).integers(2**31))
        model = fresh(self.model).set_params(random_state=seed)
        with warnings.catch_warnings():  # labels that a training part lacks are counted here, once for all splits
            warnings.filterwarnings("ignore", "a new row carries a label that y does not hold")
            clusters = {} if self.pool.clusters is None else {"clusters": self.pool.clusters[train]}
            model.fit(_safe_indexing(self.pool.X, train), self.pool.y[train], **clusters)
        X, y = _safe_indexing(self.pool.X, test), self.pool.y[test]
        with all_at_once():
            sets, p_values = self._answers(model, X)
        outcome, laws = Outcome.of(sets, y), laws_of(model, y)
        if self.pool.clusters is not None:
            outcome = replace(outcome, clusters=RowClusters(self.pool.clusters[test]))
        result = SplitResult(
            self.candidate,
            self.repetition,
            rows=len(y),
            covered=int(outcome.covered.sum()),
            promise=model.guarantee(),
            laws=laws,
            metrics=self._metrics(outcome, test, seed),
            parts=list(self._parts(outcome, y, test)),
            tested=self._tested(sets, p_values, y, test) if self.keeps else None,
            monitor=None if self.repetition >= 0 or laws is None else self._monitored(model, outcome, test),
            over_clusters=self.pool.clusters is not None,
        )
        return [result.as_row()]

    def _answers(self, model: ConformalClassifier, X: Any) -> tuple[PredictionSets, NDArray[np.float64] | None]:
        """Return the sets, and the p-values if they are wanted: one answer of the model is enough for both.

        A subclass may give other sets, and they are what is audited.
        """
        if self.keeps == "p_values" and type(model) is ConformalClassifier:
            return model.sets_and_p_values(X)
        return model.predict_set(X), model.p_values(X) if self.keeps == "p_values" else None

    def _tested(
        self, sets: PredictionSets, p_values: NDArray[np.float64] | None, y: NDArray[Any], test: NDArray[np.intp]
    ) -> TestedRows:
        """Return the test rows one by one; sizes of clusters by their means, since rows are no evidence by themselves.

        Whether a set covers is what the set did, which no p-value alone can tell.
        """
        covered = sets.covers(y).astype(int)
        if p_values is not None:
            columns = columns_of(y, sets.classes)
            of_truth = np.take_along_axis(p_values, np.maximum(columns, 0)[:, None], axis=1)[:, 0]
            return TestedRows(test, np.where(columns < 0, 0.0, of_truth), covered)  # 0: no label that the model knows
        if self.pool.clusters is None:
            return TestedRows(test, sets.sizes, covered)
        number = self.pool.clusters[test]
        times = np.bincount(number)
        means = [np.bincount(number, values)[times > 0] / times[times > 0] for values in (sets.sizes, covered)]
        return TestedRows(np.flatnonzero(times), means[0], means[1])

    def _monitored(self, model: ConformalClassifier, outcome: Outcome, test: NDArray[np.intp]) -> str | None:
        """Return what a monitor says along the last rows, after one split that is large enough for a miss."""
        held_out = model.calibration_.held_out
        alpha = float(validate.alpha(model.alpha))
        if not held_out.groups.is_one or held_out.n < rows_to_monitor(alpha):
            return None
        covered = outcome.covered[np.argsort(self.pool.position[test])]
        monitor = CoverageMonitor(held_out.n, alpha).update(covered)
        evidence = monitor.evidence_in_words()
        return f"A monitor along the last rows ends at {evidence} ({monitor.alarm:g} would be an alarm)."

    def _metrics(self, outcome: Outcome, test: NDArray[np.intp], seed: int) -> dict[str, float]:
        """Return every metric of the table that splits show; NaN for those of features where there are none."""
        features = None if self.pool.features is None else _safe_indexing(self.pool.features, test)
        wanted = OF_SPLITS | {one.column: one for one in check_extra(self.extra).values()}
        known = {"X": features, "alpha": self.model.alpha, "random_state": seed}
        return {name: one.value(outcome, **known) for name, one in wanted.items()}

    def _parts(self, outcome: Outcome, y: NDArray[Any], test: NDArray[np.intp]) -> Iterator[PartResult]:
        """Yield what happened within each label and group."""
        parts = {"label": y.tolist()}
        if self.pool.groups is not None:
            parts["group"] = [self.pool.groups[row] for row in test.tolist()]
        for part, values in parts.items():
            several = coded_list(values)
            if outcome.clusters is not None:
                for number, name in enumerate(several.values):
                    rows = np.flatnonzero(several.codes == number)
                    share = float(outcome.share(outcome.covered, 0.95, rows))
                    size = float(outcome.mean_size(0.95, rows))
                    yield PartResult(part, self.pool.titles[part][name], len(rows), share * len(rows), size)
                continue
            sums = [np.bincount(several.codes, weight) for weight in (None, outcome.covered, outcome.sizes)]
            for name, rows, covered, size in zip(several.values, *(one.tolist() for one in sums), strict=True):
                yield PartResult(part, self.pool.titles[part][name], rows, int(covered), size / rows)


def split_and_measure(
    candidates: dict[str, ConformalClassifier],
    pool: Pool,
    repetitions: int,
    seed: int,
    folder: str | Path | None,
    n_jobs: int | None,
    progress: bool,
    in_order: bool = False,
    extra_metrics: Any = (),
) -> Splits:
    """Run every candidate on the same splits, through the experiment runner."""
    rule = "a whole number, at least 2"
    repetitions = validate.whole(repetitions, "repetitions", 2, rule, way_out="100 is a good number.")
    check_seed(seed)
    extra = tuple(check_extra(extra_metrics))
    if extra and pool.features is None:
        raise ValueError(
            f"features must be given for {extra[0]}: X holds nothing that a model of misses can be fitted on."
        )
    enough = max(10, _MOST_TESTED // pool.n_test)
    numbers = [*range(repetitions), *([-1] if in_order else [])]
    first = next(iter(candidates))

    def kept(name: str) -> str:
        """An audit looks along the rows of its first candidate, a comparison at the sizes of all of them."""
        return "sizes" if not in_order else "p_values" if name == first else ""

    rows = "" if folder is None else pool.fingerprint  # tells from others only what is kept
    made_of = {name: f"{rows} {fingerprint(model)}" for name, model in candidates.items()}
    tasks = [
        RandomSplit(pool, name, model, number, seed, kept(name) if 0 <= number < enough else "", extra, made_of[name])
        for number in numbers
        for name, model in candidates.items()
        if number >= 0 or name == first
    ]
    done = run_tasks(tasks, None if folder is None else Path(folder), n_jobs, progress)
    results = [SplitResult.of_row(row) for one in done for row in one.rows]
    return Splits(list(candidates), results, pool.n_test / pool.n_units, repetitions)
