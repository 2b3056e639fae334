"""Do the rows look exchangeable along their order, or along a column of times, and independent of each other?"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.audits.paths import PERMUTATIONS, columns_of_features, columns_of_labels, path_test
from aptset.audits.pool import Pool
from aptset.audits.repeats import repeated_rows, repeats_test
from aptset.audits.values import SplitResult, TestedRows
from aptset.data.labels import columns_of, in_order
from aptset.judging.estimates import in_p
from aptset.judging.laws import coverage_law

# For all checks together. An audit may speak up for nothing in 0.01 of cases; verdicts are sharp and get the rest.
FALSE_ALARMS = 0.009
CHECKS = 5


@dataclass(frozen=True)
class Drift:
    """Whether rows look alike from first to last, and each drawn for itself.

    Splits are made of rows in an order that their content decides, so all that is found about a row depends on the
    rows and the seed, and not on where it stands: if rows are exchangeable, every reordering is as likely, and the
    share of reorderings that go as far is an exact p-value, given the rows and the seed.

    Attributes
    ----------
    warning : bool
        Whether one of the checks speaks up: for rows that are drawn independently from one source, in fewer than one of
        100 data sets.
    p_order : float
        Permutation test: do the p-values of the true labels, from random splits, wander along the order?
    p_labels, p_features : float, float or None
        Permutation tests: do the shares of the labels change along the order, do the features? None without features
        that are numbers or categories.
    p_last : float or None
        Exact test: trained and calibrated on the earlier rows, do the sets cover fewer of the last rows than the
        Beta-binomial law allows (or, with a promise for every label, do more of them have new labels than reorderings
        show)? None without such a law.
    p_repeats : float
        Do rows repeat in numbers that no independent draw makes, whatever the source?
    repeated : int
        Rows that occur more than once, label and all.
    coverage_of_last : float
        Coverage of the last rows when the earlier rows train and calibrate.
    coverage : array
        Mean coverage in ten pieces of the order, from random splits.
    monitor : str or None
        What a :class:`CoverageMonitor` says along the last rows when the earlier rows train and calibrate; None where
        their misses have no such law.
    """

    warning: bool
    p_order: float
    p_labels: float
    p_features: float | None
    p_last: float | None
    p_repeats: float
    repeated: int
    coverage_of_last: float
    coverage: NDArray[np.float64]
    monitor: str | None = None

    @property
    def found(self) -> list[str]:
        """The names of the checks that speak up: order, labels, features, last, repeats."""
        names = ("order", "labels", "features", "last", "repeats")
        return [name for name in names if speaks_up(getattr(self, f"p_{name}"))]

    def sentence(self) -> str:
        """Return the finding in words."""
        return self._finding() + ("" if self.monitor is None else f" {self.monitor}")

    def _finding(self) -> str:
        tests = f"{in_p(self.p_order)} along the order, {_short(self.p_labels)} for the labels"
        tests += "" if self.p_features is None else f", {_short(self.p_features)} for the features"
        tests += "" if self.p_last is None else f", {_short(self.p_last)} for the last rows"
        repeats = f" {self.repeated:,} rows occur more than once." if self.repeated else ""
        if not self.warning:
            return f"No sign of drift ({tests}).{repeats}"
        along = self._along_the_order(tests) if self.found != ["repeats"] else f"No sign of drift ({tests})."
        return along + (f" {self._about_repeats()}" if "repeats" in self.found else repeats)

    def _along_the_order(self, tests: str) -> str:
        words = {"labels": "the shares of the labels change", "features": "the features change"}
        changes = [words[name] for name in self.found if name in words]
        what = f"; {' and '.join(changes)} along the order" if changes else ""
        return (
            f"The rows do not look exchangeable ({tests}){what}. Trained and calibrated on the earlier rows, sets "
            f"cover {self.coverage_of_last:.4g} of the last. The promise speaks of rows from one source; calibrate on "
            "recent rows, and again when the world changes."
        )

    def _about_repeats(self) -> str:
        return (
            f"{self.repeated:,} rows occur more than once, in numbers that no independent draw makes ("
            f"{in_p(self.p_repeats)}). Copies of one row train and test at once, so new rows may be covered less than "
            "these: keep one of each. (In a table that was designed so, with every combination a fixed number of "
            "times, they need not be copies.)"
        )


def speaks_up(p_value: float | None) -> bool:
    """Tell whether one check alone speaks against the rows."""
    return p_value is not None and p_value <= FALSE_ALARMS / CHECKS


def look_for_drift(
    tested: list[TestedRows],
    last: SplitResult,
    pool: Pool,
    alpha: Fraction,
    generator: np.random.Generator,
    is_by_label: bool = False,
) -> Drift:
    """Return what all checks say; ``last`` is the split whose test rows are the last ones."""
    values, hits, times = _by_content(tested, pool.content)
    order = np.argsort(pool.position)
    met = order[times[order] > 0]
    p_order = path_test(values[met, None], generator)
    p_labels = path_test(columns_of_labels(pool.y)[order], generator)
    columns = columns_of_features(pool.X if pool.features is None else pool.features, generator)
    p_features = None if columns is None else path_test(columns[order], generator)
    p_last = None if last.laws is None else coverage_law(last.covered, last.laws, alpha).too_low
    if p_last is not None and is_by_label:
        p_last = min(1.0, 2 * min(p_last, new_labels_test(pool.y[order], last.rows, generator)))
    p_repeats = repeats_test(pool.content)
    warning = any(map(speaks_up, (p_order, p_labels, p_features, p_last, p_repeats)))
    means = np.array([piece.mean() if len(piece) else np.nan for piece in np.array_split(hits[met], 10)])
    found = (p_order, p_labels, p_features, p_last, p_repeats, repeated_rows(pool.content))
    return Drift(warning, *found, last.covered / last.rows, means, last.monitor)


def _by_content(
    tested: list[TestedRows], content: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return each row's mean p-value and coverage over the splits that tested it or a copy of it, and their number.

    Copies share one value: which of them was tested must not matter, or the order would come back in.
    """
    total, times, hits = (np.zeros(content.max() + 1) for _ in range(3))
    for one in tested:
        which = content[np.asarray(one.rows)]
        # Test rows of one split share its luck: take it out.
        np.add.at(total, which, np.asarray(one.values) - np.mean(one.values))
        np.add.at(hits, which, one.hits)
        np.add.at(times, which, 1)
    with np.errstate(invalid="ignore"):
        return (total / times)[content], (hits / times)[content], times[content]


def new_labels_test(
    labels: NDArray[Any], n_last: int, generator: np.random.Generator, permutations: int = PERMUTATIONS
) -> float:
    """Return the p-value of the number of last rows whose label no earlier row has, under reordering.

    The laws of the labels leave such rows out; without this test a table sorted by its label would look fine.
    """
    codes = columns_of(labels, in_order(labels))
    times = np.bincount(codes)

    def new(last: NDArray[np.intp]) -> int:
        among_last = np.bincount(last, minlength=len(times))
        return int(among_last[among_last == times].sum())

    found = new(codes[-n_last:])
    as_many = sum(new(generator.permutation(codes)[-n_last:]) >= found for _ in range(permutations))
    return (1 + as_many) / (1 + permutations)


def _short(p_value: float) -> str:
    return in_p(p_value).removeprefix("p = ").removeprefix("p ")
