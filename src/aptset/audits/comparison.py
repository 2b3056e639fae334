"""What a comparison found: differences between candidates on the same splits, each with its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aptset.audits.comparison_words import headline, recommended, sentence
from aptset.audits.pages import splits_page
from aptset.audits.results import Splits
from aptset.audits.values import Difference, Records
from aptset.audits.verdicts import Verdict
from aptset.data.displays import Display
from aptset.data.setting_checks import (
    check_option,
)
from aptset.data.tables import Backend, html_table
from aptset.judging.estimates import Estimate, paired_mean, resampled_mean
from aptset.judging.metrics import OF_SPLITS
from aptset.reports.checks import check_page_path
from aptset.reports.render import save_page

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
    """

    splits: Splits
    verdicts: dict[str, Verdict]
    ranking: list[str]
    alpha: float
    n: int
    n_test: int

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
        check_option(metric, tuple(OF_SPLITS), "metric")
        check_option(about, ("models", "data"), "about")
        for name in (first, second):
            check_option(name, tuple(self.splits.candidates), "candidate")
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
        return headline(self)

    def sentences(self) -> list[str]:
        """Return a plain sentence for each candidate against the best."""
        best, *others = self.ranking
        return [sentence(self, best, other) for other in others]

    def recommendation(self) -> tuple[str, str]:
        """Return the candidate to take, and the reason.

        Among those that agree with the promise and whose sets are not clearly larger than the smallest, the one whose
        worst slice is covered best.
        """
        return recommended(self)

    def differences(self) -> Records[Difference]:
        """Return the paired differences of each candidate from the best, metric by metric."""
        best = self.ranking[0]
        found = []
        for name in self.ranking[1:]:
            for metric in OF_SPLITS:
                one, other = (self.difference(name, best, metric, self.each, about) for about in _ABOUT)
                found.append(Difference(name, best, metric, float(one), one.low, one.high, other.low, other.high))
        return Records(found)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the paired differences from the best candidate with both intervals; all pairs hold at once."""
        return self.differences().to_frame(backend)

    def report(self, path: str | Path, title: str = "Which model has the better sets?") -> Path:
        """Write one HTML page about the comparison, which works offline, and return its path."""
        target = check_page_path(path)
        how = (
            f"{self.splits.repetitions} random splits of {self.n:,} rows, the same for every candidate; in each, "
            f"{self.n_test:,} test, the others train and calibrate. Best first: {', '.join(self.ranking)}."
        )
        page = splits_page(
            title,
            self.splits,
            self.verdicts,
            self.alpha,
            how,
            headline=self.headline(),
            sentences=self.sentences(),
            differences=self.differences(),
        )
        return save_page(page, target)

    def plot(self, metric: str = "size") -> Display:
        """Draw the mean of a metric for each candidate, best first."""
        check_option(metric, tuple(OF_SPLITS), "metric")
        means = [self.splits.mean(self.splits.values(name, metric), metric) for name in self.ranking]
        columns = {"candidate": self.ranking, metric: [float(m) for m in means]}
        columns |= {"low": [m.low for m in means], "high": [m.high for m in means]}
        marks = [1 - self.alpha] if OF_SPLITS[metric].aims_at_level else []
        return Display(columns, "bar", f"{metric.replace('_', ' ')} by candidate", "candidate", metric, marks)

    def _repr_html_(self) -> str:
        """Return the means, best first, and what is recommended, for notebooks."""
        rows = [
            (name, *(f"{float(self.splits.mean(self.splits.values(name, m), m)):.4g}" for m in OF_SPLITS))
            for name in self.ranking
        ]
        head = f"Comparison of {len(rows)} candidates on {self.splits.repetitions} splits, alpha={self.alpha:g}"
        return html_table(head, ("", *(metric.short for metric in OF_SPLITS.values())), rows, [self.advice()])

    def __repr__(self) -> str:
        long = min(44, max(map(len, self.ranking)))
        head = f"Comparison of {len(self.ranking)} candidates on {self.splits.repetitions} splits of {self.n} rows"
        widths = {column: max(8, 1 + len(metric.short)) for column, metric in OF_SPLITS.items()}
        lines = [f"  {'':<{long}} " + " ".join(f"{OF_SPLITS[m].short:>{width}}" for m, width in widths.items())]
        for name in self.ranking:
            means = {m: float(self.splits.mean(self.splits.values(name, m), m)) for m in OF_SPLITS}
            lines.append(f"  {name[:44]:<{long}} " + " ".join(f"{means[m]:>{width}.4g}" for m, width in widths.items()))
        head = f"{head}, alpha={self.alpha:g}, best first"
        return "\n".join([head, *lines, "", *self.sentences(), "", self.advice()])

    def advice(self) -> str:
        """Return the recommendation as a sentence."""
        name, reason = self.recommendation()
        return f"Recommended: {name}: {reason}."
