"""One random split of the rows, one candidate: train, calibrate, test, write down what happened; and many of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from aptset.audits.dataset import Pool, check_seed, check_unweighted, fingerprint
from aptset.audits.results import PartResult, SplitResult, Splits, TestedRows
from aptset.core.labels import coded_list, columns_of
from aptset.core.runner import run_tasks
from aptset.core.validate import all_at_once
from aptset.estimator.classifier import ConformalClassifier
from aptset.estimator.fitting import fresh
from aptset.metrics import OF_SPLITS
from aptset.metrics.monitor import CoverageMonitor, rows_to_monitor
from aptset.metrics.outcome import Outcome

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

    @cached_property
    def key(self) -> str:
        """All that the result depends on, as text."""
        model = fingerprint(self.model)
        wanted = f"rows={self.keeps} metrics={','.join(OF_SPLITS)} form={_FORM}"
        return f"{self.candidate} r{self.repetition} seed={self.seed} {self.pool.fingerprint} {model} {wanted}"

    @property
    def weight(self) -> float:
        """Every split takes about as long as any other."""
        return 1.0

    def split(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the rows that train and calibrate, and those that test."""
        n, n_test = len(self.pool.y), self.pool.n_test
        if self.repetition < 0:
            order = np.argsort(self.pool.position)
            return np.sort(order[: n - n_test]), np.sort(order[n - n_test :])
        order = np.random.default_rng([self.seed, self.repetition, 1]).permutation(n)
        return np.sort(order[n_test:]), np.sort(order[:n_test])

    def run(self) -> list[dict[str, Any]]:
        """Train, calibrate and test."""
        train, test = self.split()
        seed = int(np.random.default_rng([self.seed, self.repetition + 1, 2]).integers(2**31))
        model = fresh(self.model).set_params(random_state=seed)
        with warnings.catch_warnings():  # labels that a training part lacks are counted here, once for all splits
            warnings.filterwarnings("ignore", "a new row carries a label that y does not hold")
            model.fit(_safe_indexing(self.pool.X, train), self.pool.y[train])
        X, y = _safe_indexing(self.pool.X, test), self.pool.y[test]
        with all_at_once():
            sets = model.predict_set(X)
        tested = None
        if self.keeps:
            covered = sets.covers(y).astype(int).tolist()  # what the sets did, which no p-value alone can tell
            values = sets.sizes if self.keeps == "sizes" else _p_of_truth(model, X, columns_of(y, sets.classes))
            tested = TestedRows(test.tolist(), values.tolist(), covered)
        outcome, laws = Outcome.of(sets, y), _laws(model, y)
        result = SplitResult(
            self.candidate,
            self.repetition,
            rows=len(y),
            covered=int(outcome.covered.sum()),
            promise=model.guarantee(),
            laws=laws,
            metrics=self._metrics(outcome, test, seed),
            parts=list(self._parts(outcome, y, test)),
            tested=tested,
            monitor=None if self.repetition >= 0 or laws is None else self._monitored(model, outcome, test),
        )
        return [result.as_row()]

    def _monitored(self, model: ConformalClassifier, outcome: Outcome, test: NDArray[np.intp]) -> str | None:
        """Return what a monitor says along the last rows, after one split that is large enough for a miss."""
        held_out = model.calibration_.held_out
        if held_out.groups.kind != "all" or held_out.n < rows_to_monitor(model.alpha):
            return None
        covered = outcome.covered[np.argsort(self.pool.position[test])]
        monitor = CoverageMonitor(held_out.n, model.alpha).update(covered)
        evidence = monitor.evidence_in_words()
        return f"A monitor along the last rows ends at {evidence} ({monitor.alarm:g} would be an alarm)."

    def _metrics(self, outcome: Outcome, test: NDArray[np.intp], seed: int) -> dict[str, float]:
        """Return every metric of the table that splits show; NaN for those of features where there are none."""
        features = None if self.pool.features is None else _safe_indexing(self.pool.features, test)
        alpha = self.model.alpha
        return {name: one.value(outcome, X=features, alpha=alpha, random_state=seed) for name, one in OF_SPLITS.items()}

    def _parts(self, outcome: Outcome, y: NDArray[Any], test: NDArray[np.intp]) -> Iterator[PartResult]:
        """Yield what happened within each label and group."""
        parts = {"label": y.tolist()}
        if self.pool.groups is not None:
            parts["group"] = [self.pool.groups[row] for row in test.tolist()]
        for part, values in parts.items():
            several = coded_list(values)
            sums = [np.bincount(several.codes, weight) for weight in (None, outcome.covered, outcome.sizes)]
            for name, rows, covered, size in zip(several.values, *(one.tolist() for one in sums), strict=True):
                yield PartResult(part, self.pool.titles[part][name], rows, int(covered), size / rows)


def _p_of_truth(model: ConformalClassifier, X: Any, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the p-value of each row's true label, 0 for a label that the model does not know."""
    with all_at_once():
        p_values = model.p_values(X)
    of_truth = np.take_along_axis(p_values, np.maximum(columns, 0)[:, None], axis=1)[:, 0]
    return np.where(columns < 0, 0.0, of_truth)


def _laws(model: ConformalClassifier, y: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Return (test rows, calibration rows) of each part whose count has a Beta-binomial law; None if there is none.

    With a promise for every label, test rows with labels that no other row has are in no part.
    """
    held_out = model.calibration_.held_out
    if len(held_out.folds) > 1 or held_out.groups.kind == "row":
        return None
    if held_out.groups.kind == "all":
        return [(len(y), held_out.n)]
    columns = columns_of(y, model.classes_)
    of_test = held_out.groups.ids_of_labels(None, columns[columns >= 0])
    known = [(int((of_test == group).sum()), int(size)) for group, size in enumerate(held_out.sizes.tolist())]
    return [law for law in known if law[0] > 0]


def as_conformal(model: Any, calibration: Any, alpha: float | None, **settings: Any) -> ConformalClassifier:
    """Return the classifier to audit: the one given, or a model wrapped into one."""
    if isinstance(model, ConformalClassifier):
        check_unweighted(model.weights)
        same: ConformalClassifier = fresh(model).set_params(**({} if alpha is None else {"alpha": alpha}))
        return same
    return ConformalClassifier(model, calibration=calibration, alpha=0.1 if alpha is None else alpha, **settings)


def split_and_measure(
    candidates: dict[str, ConformalClassifier],
    pool: Pool,
    repetitions: int,
    seed: int,
    folder: str | Path | None,
    n_jobs: int | None,
    progress: bool,
    in_order: bool = False,
) -> Splits:
    """Run every candidate on the same splits, through the experiment runner."""
    check_seed(seed)
    enough = max(10, _MOST_TESTED // pool.n_test)
    numbers = [*range(repetitions), *([-1] if in_order else [])]
    first = next(iter(candidates))

    def kept(name: str) -> str:
        """An audit looks along the rows of its first candidate, a comparison at the sizes of all of them."""
        return "sizes" if not in_order else "p_values" if name == first else ""

    tasks = [
        RandomSplit(pool, name, model, number, seed, kept(name) if 0 <= number < enough else "")
        for number in numbers
        for name, model in candidates.items()
        if number >= 0 or name == first
    ]
    done = run_tasks(tasks, None if folder is None else Path(folder), n_jobs, progress)
    results = [SplitResult.of_row(row) for one in done for row in one.rows]
    return Splits(list(candidates), results, pool.n_test / len(pool.y), repetitions)
