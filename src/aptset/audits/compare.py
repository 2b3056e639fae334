"""``aptset.compare``: which model has the better sets, on the same splits?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aptset import Estimate
from aptset.audits.dataset import (
    as_conformal,
    groups_shown,
    prepare,
    split_and_measure,
)
from aptset.audits.results import Difference, Records, Splits
from aptset.audits.verdicts import Verdict, judge, splits_page
from aptset.core import validate
from aptset.core.tables import Backend, Display, html_table
from aptset.estimator.checks import check_estimator_can
from aptset.metrics.coverage_distribution import FALSE_ALARMS
from aptset.metrics.estimates import paired_mean, resampled_mean
from aptset.reports.making import check_page_path, save_page

_ABOUT: tuple[Literal["models"], Literal["data"]] = ("models", "data")
_BY_ROW = {"size": "values", "coverage": "hits"}  # metrics that are means over rows


@dataclass(frozen=True, repr=False)
class Comparison:
    """Candidates on the same random splits; made by :func:`compare`.

    Attributes
    ----------
    ranking : list of str
        The names: those that agree with the promise first, then by mean size.
    verdicts : dict of Verdict
        For each candidate: was the promise kept?
    alpha : float
        The level.
    n, n_test : int
        All rows, and the rows that test in each split.
    remarks : tuple of str
        Sentences about the rows, such as how many were left out.
    """

    splits: Splits
    verdicts: dict[str, Verdict]
    ranking: list[str]
    alpha: float
    n: int
    n_test: int
    remarks: tuple[str, ...] = ()

    def difference(
        self,
        first: str,
        second: str,
        metric: str = "size",
        confidence: float = 0.95,
        about: Literal["models", "data"] = "models",
    ) -> Estimate:
        """Return the mean of first minus second over the splits, with its interval.

        Parameters
        ----------
        first, second : str
            Two candidates.
        metric : str, default="size"
            What is compared: "size", "coverage", "worst_slice", "size_given_coverage".
        confidence : float, default=0.95
            Of this interval alone.
        about : {"models", "data"}, default="models"
            What the interval is about. "models": the models of these splits, on new rows; from the spread of size and
            coverage between rows, each of which counts once. "data": models trained on other data of this kind; by the
            corrected variance of Nadeau and Bengio, which is approximate, and much wider. The metrics of whole splits
            have this one only.
        """
        validate.one_of(metric, tuple(self.splits.metrics), "metric")
        validate.one_of(about, ("models", "data"), "about")
        for name in (first, second):
            validate.one_of(name, tuple(self.splits.candidates), "candidate")
        if about == "models" and metric in _BY_ROW:
            return paired_mean(*self.splits.paired(first, second, _BY_ROW[metric]), confidence)
        paired = self.splits.values(first, metric) - self.splits.values(second, metric)
        return resampled_mean(paired, self.splits.test_share, confidence)

    @property
    def each(self) -> float:
        """Confidence of each interval, so that those of all pairs hold at once with 0.95: who is best, the data say."""
        count = len(self.ranking)
        return 1 - 0.05 / (count * (count - 1) / 2)

    def headline(self) -> str:
        """Return who is best in a few words."""
        best, *others = self.ranking
        if not self.verdicts[best].kept:
            return "No candidate keeps the promise"
        agree = " of those that agree with the promise" if not all(v.kept for v in self.verdicts.values()) else ""
        rivals = [other for other in others if self.verdicts[other].kept]
        if not self._leads(best, rivals, "models"):
            return f"{best} comes first{agree}, without a clear lead"
        doubt = "" if self._leads(best, rivals, "data") else "; other data may give another result"
        return f"{best} has the smallest sets{agree}{doubt}"

    def _leads(self, best: str, rivals: list[str], about: Literal["models", "data"]) -> bool:
        return all(self.difference(rival, best, "size", self.each, about).low > 0 for rival in rivals)

    def _sentence(self, best: str, other: str) -> str:
        """Say how the best differs from another."""
        size, slices, gap = (
            self.difference(other, best, metric, self.each) for metric in ("size", "worst_slice", "coverage")
        )
        covers = [f"{float(self.verdicts[name].coverage):.3f}" for name in (best, other)]
        if not self.verdicts[other].kept and self.verdicts[best].kept:
            return f"{other} does not keep the promise (coverage {covers[1]}); {best} agrees with it ({covers[0]})."
        elsewhere = self.difference(other, best, "size", self.each, "data")
        interval = (
            f"interval {size.low:.2g} to {size.high:.2g}; on other data {elsewhere.low:.2g} to {elsewhere.high:.2g}"
        )
        if size.low > 0:
            text = f"{best}'s sets are {float(size):.2f} labels smaller on average than {other}'s ({interval})"
        else:
            text = f"No clear difference in size between {best} and {other} ({float(size):.2g} labels, {interval})"
        how = "without a clear" if gap.low <= 0 <= gap.high else "with a"
        text += f", {how} difference in coverage ({covers[0]} and {covers[1]})"
        if np.isnan(slices):
            return text + "."
        way = "lower" if slices.high < 0 else "higher" if slices.low > 0 else "about the same"
        ends = f"difference {float(slices):.2g}, {slices.low:.2g} to {slices.high:.2g}"
        return f"{text}; worst-slice coverage of {other} is {way} ({ends})."

    def recommendation(self) -> tuple[str, str]:
        """Return the candidate to take, and the reason.

        Among those that agree with the promise and whose sets are not clearly larger than the smallest, the one whose
        worst slice is covered best.
        """
        best, *others = self.ranking
        if not self.verdicts[best].kept:
            return best, "none of them keeps the promise; look at the rows first (aptset audit)"
        alike = [name for name in others if self.verdicts[name].kept and not self._leads(best, [name], "models")]
        sizes = {name: float(self.splits.values(name, "size").mean()) for name in self.ranking}
        if not alike:
            rival = next((name for name in others if self.verdicts[name].kept), None)
            beside = f"; {rival} has {sizes[rival]:.2f}" if rival else ""
            return best, f"it agrees with the promise and has the smallest sets, {sizes[best]:.2f} labels{beside}"
        slices = {name: self._mean_slice(name) for name in (best, *alike)}
        chosen = best if np.isnan(slices[best]) else max((best, *alike), key=lambda name: slices[name])
        same = ", ".join(name for name in (best, *alike) if name != chosen)
        worst = f", and its worst slice is covered best, {slices[chosen]:.3f}" if not np.isnan(slices[chosen]) else ""
        small = f"its sets, {sizes[chosen]:.2f} labels, are as small as those of {same}"
        return chosen, f"it agrees with the promise, {small}{worst}"

    def _mean_slice(self, name: str) -> float:
        """Return the coverage of the worst slice over splits that had rows enough to look for one; NaN if none had."""
        values = self.splits.values(name, "worst_slice")
        return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else float("nan")

    def sentences(self) -> list[str]:
        """Return a plain sentence for each candidate against the best."""
        best, *others = self.ranking
        return [self._sentence(best, other) for other in others]

    def differences(self) -> Records[Difference]:
        """Return the paired differences of each candidate from the best, metric by metric."""
        best = self.ranking[0]
        differences = []
        for name in self.ranking[1:]:
            for metric in self.splits.metrics:
                one, other = (self.difference(name, best, metric, self.each, about) for about in _ABOUT)
                differences.append(Difference(name, best, metric, float(one), one.low, one.high, other.low, other.high))
        return Records(differences)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the paired differences from the best candidate with both intervals; all pairs hold at once."""
        return self.differences().to_frame(backend)

    def report(self, path: str | Path, title: str = "Which model has the better sets?") -> Path:
        """Write one HTML page about the comparison, which works offline, and return its path."""
        target = check_page_path(path)
        whole = " clusters" if self.splits.results[0].over_clusters else ""
        how = (
            f"{self.splits.repetitions} random splits of {self.n:,} rows, the same for every candidate; in each, "
            f"{self.n_test:,}{whole} test, the others train and calibrate. Best first: {', '.join(self.ranking)}."
        )
        page = splits_page(
            title,
            self.splits,
            self.verdicts,
            self.alpha,
            how,
            headline=self.headline(),
            sentences=[*self.remarks, *self.sentences()],
            differences=self.differences(),
        )
        return save_page(page, target)

    def plot(self, metric: str = "size") -> Display:
        """Draw the mean of a metric for each candidate, best first."""
        validate.one_of(metric, tuple(self.splits.metrics), "metric")
        means = [self.splits.mean(self.splits.values(name, metric), metric) for name in self.ranking]
        columns = {"candidate": self.ranking, metric: [float(m) for m in means]}
        columns |= {"low": [m.low for m in means], "high": [m.high for m in means]}
        marks = [1 - self.alpha] if self.splits.metrics[metric].aims_at_level else []
        return Display(columns, "bar", f"{metric.replace('_', ' ')} by candidate", "candidate", metric, marks)

    def _repr_html_(self) -> str:
        """Return the means, best first, and what is recommended, for notebooks."""
        rows = [
            (name, *(f"{float(self.splits.mean(self.splits.values(name, m), m)):.4g}" for m in self.splits.metrics))
            for name in self.ranking
        ]
        head = f"Comparison of {len(rows)} candidates on {self.splits.repetitions} splits, alpha={self.alpha:g}"
        return html_table(
            head,
            ("", *(metric.short for metric in self.splits.metrics.values())),
            rows,
            [*self.remarks, *self.sentences(), self.advice()],
        )

    def __repr__(self) -> str:
        long = min(44, max(map(len, self.ranking)))
        head = f"Comparison of {len(self.ranking)} candidates on {self.splits.repetitions} splits of {self.n} rows"
        widths = {column: max(8, 1 + len(metric.short)) for column, metric in self.splits.metrics.items()}
        lines = [
            f"  {'':<{long}} " + " ".join(f"{self.splits.metrics[m].short:>{width}}" for m, width in widths.items())
        ]
        for name in self.ranking:
            means = {m: float(self.splits.mean(self.splits.values(name, m), m)) for m in self.splits.metrics}
            lines.append(f"  {name[:44]:<{long}} " + " ".join(f"{means[m]:>{width}.4g}" for m, width in widths.items()))
        head = f"{head}, alpha={self.alpha:g}, best first"
        return "\n".join([head, *lines, "", *self.remarks, *self.sentences(), "", self.advice()])

    def advice(self) -> str:
        """Return the recommendation as a sentence."""
        name, reason = self.recommendation()
        return f"Recommended: {name}: {reason}."


def rank(splits: Splits, verdicts: dict[str, Verdict]) -> list[str]:
    """Return the names, best first: whoever breaks the promise comes last, however small the sets."""
    return sorted(verdicts, key=lambda name: (not verdicts[name].kept, float(splits.values(name, "size").mean())))


def check_candidates(candidates: Any) -> dict[str, Any]:
    """Return the models to compare, by name."""
    if not isinstance(candidates, Mapping) or len(candidates) < 2:
        came = f"{len(candidates)} of them" if isinstance(candidates, Mapping) else type(candidates).__name__
        raise ValueError(
            f'candidates must be a dictionary of at least two, {{"name": model, ...}}; got {came}. They may be one '
            "model with several settings, ConformalClassifier(model, ...); for one alone there is aptset.audit."
        )
    return {str(name): model for name, model in candidates.items()}


def check_same_level(levels: Mapping[str, Any]) -> None:
    """Refuse candidates that promise different things."""
    if len(set(levels.values())) > 1:
        came = ", ".join(f"{name} has {float(level):g}" for name, level in levels.items())
        raise ValueError(
            f"candidates must have the same alpha, or sizes cannot be compared; got {came}. Pass alpha= to compare."
        )


def compare(
    candidates: dict[str, Any],
    X: Any,
    y: ArrayLike,
    *,
    calibration: Any = "split",
    alpha: float | None = None,
    conformity: Any = "adaptive",
    level: Literal["nominal", "guaranteed"] = "nominal",
    randomized: bool = True,
    repetitions: int = 100,
    test_share: float = 0.3,
    groups: ArrayLike | None = None,
    features: Any = None,
    folder: str | Path | None = None,
    n_jobs: int | None = 1,
    progress: bool = False,
    random_state: int = 0,
    clusters: Any = None,
    extra_metrics: str | Sequence[str] = (),
) -> Comparison:
    """Compare models by the size and the coverage of their sets, on the same random splits.

    Splits of the same rows are dependent, so a difference has two intervals: what the models of these splits do on new
    rows, row by row, each counting once; and what models from other data of this kind would do, with the corrected
    variance of Nadeau and Bengio (2003), which is wider. What is said about all pairs holds at once with 95 %.

    Parameters
    ----------
    candidates : dict
        Models by name; a ConformalClassifier is taken as it is, so calibrations and scores can be compared too.
    X, y
        All rows and their labels.
    calibration : str or object, default="split"
        How models that are no ConformalClassifier are calibrated.
    alpha, conformity, level, randomized, repetitions, test_share, groups, features, folder, n_jobs, progress
        As in :func:`audit`.
    random_state : int, default=0
        Seed of splits, models and uniforms.
    clusters : array or name of a column of X, optional
        As in :func:`audit`.
    extra_metrics : str or sequence of str, optional
        As in :func:`audit`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.dummy import DummyClassifier
    >>> import aptset
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {"guess": DummyClassifier(strategy="prior"), "bayes": GaussianNB()}
    >>> found = aptset.compare(models, X, y, repetitions=10)
    >>> found.ranking
    ['bayes', 'guess']
    >>> bool(found.difference("guess", "bayes", "size").low > 1)
    True
    """
    named = check_candidates(candidates)
    for model in named.values():
        check_estimator_can(model)
    settings: dict[str, Any] = {"conformity": conformity, "level": level, "randomized": randomized}
    models = {name: as_conformal(model, calibration, alpha, **settings) for name, model in named.items()}
    check_same_level({name: validate.alpha(model.alpha) for name, model in models.items()})
    shown = groups_shown(groups, models.values(), y)
    pool, share = prepare(X, y, shown, None, test_share, features, clusters=clusters)
    how = (repetitions, random_state, folder, n_jobs, progress)
    splits = split_and_measure(models, pool, *how, extra_metrics=extra_metrics)
    each = FALSE_ALARMS / len(models)
    exact = validate.alpha(next(iter(models.values())).alpha)
    verdicts = {name: judge(splits.of(name), exact, share, each, pool.about) for name in models}
    return Comparison(splits, verdicts, rank(splits, verdicts), float(exact), len(pool.y), pool.n_test)
