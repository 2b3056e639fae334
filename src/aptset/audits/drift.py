"""Do the rows look exchangeable along their order, or along a column of times? Two honest tests."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.judging.estimates import beta_binomial
from aptset.kernels.counts import rank_at
from aptset.kernels.formula import Floats

# Nominal for both tests together, each at half of it; simulated audits of few rows warned a little more often (0013).
LEVEL = 0.01
PERMUTATIONS = 1999
_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class Drift:
    """Whether rows look alike from first to last.

    Attributes
    ----------
    warning : bool
        Whether one of the tests speaks against exchangeability; for exchangeable rows in one or two of 100 data sets.
    p_order : float
        Permutation test: do the p-values of the true labels, from random splits, wander along the order? If rows are
        exchangeable so are these, so every reordering is as likely, and the share of reorderings that wander as far is
        a valid p-value.
    p_last : float or None
        Exact test: trained and calibrated on the earlier rows, do the sets cover fewer of the last rows than the
        Beta-binomial law allows (or, with a promise for every label, do more of them have new labels than reorderings
        show)? None without such a law.
    coverage_of_last : float
        Coverage of the last rows when the earlier rows train and calibrate.
    coverage : array
        Mean coverage in ten pieces of the order, from random splits.
    """

    warning: bool
    p_order: float
    p_last: float | None
    coverage_of_last: float
    coverage: Floats

    def sentence(self) -> str:
        """Return the finding in words."""
        tests = f"p = {self.p_order:.3g} along the order"
        if self.p_last is not None:
            tests += f", p = {self.p_last:.3g} for the last rows"
        if not self.warning:
            return f"No sign of drift ({tests})."
        return (
            f"The rows do not look exchangeable ({tests}): trained and calibrated on the earlier rows, sets cover "
            f"{self.coverage_of_last:.4g} of the last. The promise speaks of rows from one source; calibrate on recent "
            "rows, and again when the world changes."
        )


def look_for_drift(
    p_values: list[dict[str, Any]],
    last: dict[str, Any],
    place: NDArray[np.intp] | None,
    n_rows: int,
    alpha: Fraction,
    generator: np.random.Generator,
    labels: NDArray[Any] | None = None,
) -> Drift:
    """Return what both tests say; ``last`` is the split whose test rows are the last ones.

    ``labels`` are those of all rows, where each label has a promise of its own.
    """
    total, times, hits = np.zeros(n_rows), np.zeros(n_rows), np.zeros(n_rows)
    for row in p_values:
        tested = np.asarray(row["rows"])
        total[tested] += row["values"] - np.mean(row["values"])  # test rows of one split share its luck: take it out
        hits[tested] += row["hits"]
        times[tested] += 1
    order = np.arange(n_rows) if place is None else np.argsort(place)
    order = order[times[order] > 0]
    p_order = wander_test(total[order] / times[order], generator)
    pieces = np.array_split(hits[order] / times[order], 10)
    p_last = None if last["laws"] is None else _last_rows_test(last, alpha)
    if p_last is not None and labels is not None:
        along = labels if place is None else labels[np.argsort(place)]
        p_last = min(1.0, 2 * min(p_last, new_labels_test(along, last["rows"], generator)))
    warning = min(p_order, 1.0 if p_last is None else p_last) <= LEVEL / 2
    means = np.array([piece.mean() if len(piece) else np.nan for piece in pieces])
    return Drift(bool(warning), p_order, p_last, last["covered"] / last["rows"], means)


def wander_test(values: Floats, generator: np.random.Generator, permutations: int = PERMUTATIONS) -> float:
    """Return the p-value of the furthest that partial sums of centred values get from zero, under reordering."""
    centred = values - values.mean()
    found = _wandering(centred[None, :])[0] * (1 - 1e-9)  # sums in another order may differ in their last bits
    step = max(1, _CELLS_AT_ONCE // max(1, len(values)))
    as_far = 0
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        as_far += int((_wandering(generator.permuted(np.tile(centred, (count, 1)), axis=1)) >= found).sum())
    return (1 + as_far) / (1 + permutations)


def _wandering(values: Floats) -> Floats:
    return np.asarray(np.abs(np.cumsum(values, axis=1)).max(axis=1, initial=0.0))


def new_labels_test(
    labels: NDArray[Any], n_last: int, generator: np.random.Generator, permutations: int = PERMUTATIONS
) -> float:
    """Return the p-value of the number of last rows whose label no earlier row has, under reordering.

    The laws of the labels leave such rows out; without this test a table sorted by its label would look fine.
    """
    _, codes = np.unique(labels, return_inverse=True)
    times = np.bincount(codes)

    def new(last: NDArray[np.intp]) -> int:
        among_last = np.bincount(last, minlength=len(times))
        return int(among_last[among_last == times].sum())

    found = new(codes[-n_last:])
    as_many = sum(new(generator.permutation(codes)[-n_last:]) >= found for _ in range(permutations))
    return (1 + as_many) / (1 + permutations)


def _last_rows_test(last: dict[str, Any], alpha: Fraction) -> float:
    """Return the chance that a valid calibration covers as few of the last rows (ties can only make it more)."""
    chances = np.ones(1)
    for rows, n in last["laws"]:
        chances = np.convolve(chances, beta_binomial(rows, n, rank_at(n, alpha)))
    return float(min(1.0, chances[: last["covered"] + 1].sum()))
