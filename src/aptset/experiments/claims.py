"""The paper's claims, one by one, checked with numbers: a quantity over repetitions against bounds that are stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aptset.judging.estimates import Estimate, mean

if TYPE_CHECKING:
    import pandas as pd

OURS = ("SC", "CV+", "JK+")
ABOUT = 0.02  # "about 0.90" means this far from it at most
INFINITY = float("inf")


@dataclass(frozen=True)
class Finding:
    """One quantity behind a claim.

    The verdict: "holds" if the 95 % interval of its mean lies within the bounds, "fails" if it lies outside them,
    "open" if it straddles one: more repetitions would tell.
    """

    claim: str
    quantity: str
    estimate: Estimate
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Return holds, fails or open."""
        if self.low <= self.estimate.low and self.estimate.high <= self.high:
            return "holds"
        return "fails" if self.estimate.high < self.low or self.estimate.low > self.high else "open"

    @property
    def bounds(self) -> str:
        """Return what was required, in words."""
        if self.high == INFINITY:
            return f"at least {self.low:g}"
        return f"at most {self.high:g}" if self.low == -INFINITY else f"{self.low:g} to {self.high:g}"


class Results:
    """Looks numbers up in the table of results."""

    def __init__(self, frame: pd.DataFrame, alpha: float) -> None:
        self.frame, self.alpha, self.target = frame, alpha, 1 - alpha

    def some(self, data: str, n_train: int) -> Results:
        """Return the results on one data set at one size."""
        chosen = (self.frame["data"] == data) & (self.frame["n_train"] == n_train)
        return Results(self.frame[chosen], self.alpha)

    def values(self, box: str, method: str, metric: str, condition: str = "all") -> pd.Series[float]:
        """Return a metric by repetition."""
        mine = self.frame
        mine = mine[(mine["box"] == box) & (mine["method"] == method) & (mine["condition"] == condition)]
        return mine.set_index("repetition")[metric].dropna().sort_index()

    def difference(self, one: tuple[str, str], other: tuple[str, str], metric: str) -> NDArray[np.float64]:
        """Return one minus the other, paired by repetition."""
        return np.asarray((self.values(*one, metric) - self.values(*other, metric)).dropna())

    def pairs(self) -> list[tuple[str, str]]:
        """Return every (box, method) that was run."""
        return sorted(set(zip(self.frame["box"], self.frame["method"], strict=True)))


Found = Iterator[tuple[str, NDArray[np.float64], float, float]]


def findings(frame: pd.DataFrame, alpha: float) -> list[Finding]:
    """Return all findings that the results allow; what was not run yields none."""
    results = Results(frame, alpha)
    found = [
        _finding(f"(i) every method covers about {results.target:g} marginally", row) for row in _marginal(results)
    ]
    for claim, data, sizes, check in _SOURCES:
        for n_train in sizes:
            rows = check(results.some(data, n_train))
            found += [_finding(f"{claim}, n = {n_train}", row) for row in rows]
    return [finding for finding in found if finding.estimate.n > 1]


def _finding(claim: str, row: tuple[str, NDArray[np.float64], float, float]) -> Finding:
    quantity, values, low, high = row
    return Finding(claim, quantity, mean(values, 0.95), low, high)


def _marginal(results: Results) -> Found:
    for (data, n_train), _ in results.frame.groupby(["data", "n_train"]):
        some = results.some(data, n_train)
        for box, method in some.pairs():
            name = f"{data}, n={n_train}, {box}: coverage of {method}"
            values = some.values(box, method, "coverage").to_numpy()
            yield name, values, results.target - ABOUT, results.target + ABOUT


def _slices_of_model_1(results: Results) -> Found:
    target = results.target
    wanted = {"Oracle": (target - 0.02, target + 0.02), "SVC": (target - 0.04, target + 0.04)}
    wanted["RFC"] = (target - 0.1, target)
    for box, bounds in wanted.items():
        for method in OURS:
            yield f"{box}: worst slice of {method}", results.values(box, method, "worst_slice").to_numpy(), *bounds
    for box in wanted:
        for other in ("HCC", "CQC"):
            gap = results.difference((box, "SC"), (box, other), "worst_slice")
            yield f"{box}: worst slice of SC minus {other}", gap, 0.02, INFINITY


def _sizes_of_model_1(results: Results) -> Found:
    for box in ("Oracle", "SVC", "RFC"):
        for method in OURS:
            for other, low, high in (("HCC", 0.0, 1.0), ("CQC", -INFINITY, 0.0)):
                gap = results.difference((box, method), (box, other), "size")
                yield f"{box}: size of {method} minus {other}", gap, low, high
    for box in ("SVC", "RFC"):  # with the oracle nothing is learned from more rows
        yield f"{box}: size of CV+ minus SC", results.difference((box, "CV+"), (box, "SC"), "size"), -INFINITY, 0.0
        yield f"{box}: size of JK+ minus CV+", results.difference((box, "JK+"), (box, "CV+"), "size"), -INFINITY, 0.0


def _model_2(results: Results) -> Found:
    for method in ("SC", "CV+"):
        for metric in ("size", "worst_slice"):
            words = f"{metric.replace('_', ' ')} of {method}"
            learned = results.difference(("RFC", method), ("Oracle", method), metric)
            yield f"RFC minus Oracle: {words}", learned, -0.15 if metric == "size" else -0.05, 0.15
        too_large = results.difference(("SVC", method), ("Oracle", method), "size")
        yield f"SVC minus Oracle: size of {method}", too_large, 0.3, INFINITY


def _mice(results: Results) -> Found:
    for box in ("NNet", "SVC", "RFC"):
        for method in OURS:
            values = results.values(box, method, "worst_slice").to_numpy()
            yield f"{box}: worst slice of {method}", values, results.target - ABOUT, INFINITY
        for method in ("CV+", "JK+"):
            yield (
                f"{box}: size of {method} minus SC",
                results.difference((box, method), (box, "SC"), "size"),
                -INFINITY,
                0.0,
            )
        for method in ("HCC", "CQC", "CQC-RF"):
            values = results.values(box, method, "worst_slice").to_numpy()
            yield f"{box}: worst slice of {method}", values, -INFINITY, results.target
        wobble = [_spread(results.values(box, method, "size").to_numpy()) for method in ("CQC", "SC")]
        n = min(map(len, wobble))
        gap = wobble[0][:n] - wobble[1][:n]
        yield f"{box}: distance of size from its median, CQC minus SC", gap, 0.0, INFINITY


def _mnist(results: Results) -> Found:
    target = results.target
    for box in ("NNet", "SVC"):
        for method in ("SC", "CV+"):
            values = results.values(box, method, "worst_slice").to_numpy()
            yield f"{box}: worst slice of {method}", values, target - ABOUT, INFINITY
    for method in ("SC", "CV+", "HCC", "CQC", "CQC-RF"):
        yield (
            f"RFC: worst slice of {method}",
            results.values("RFC", method, "worst_slice").to_numpy(),
            -INFINITY,
            target,
        )
    for method, low, high in (
        ("CV+", target - ABOUT, INFINITY),
        ("HCC", -INFINITY, target),
        ("CQC", -INFINITY, target),
    ):
        yield f"NNet: coverage of {method} at its worst digit", _worst_digit(results, method), low, high


def _worst_digit(results: Results, method: str) -> NDArray[np.float64]:
    """Return the coverage at the worst digit, which for each repetition is chosen by the others: no bias downwards."""
    digits = [results.values("NNet", method, "coverage", f"label={digit}").to_numpy() for digit in range(10)]
    n = min(len(values) for values in digits)
    table = np.array([values[:n] for values in digits]).reshape(10, n)
    worst = np.argmin(table.sum(axis=1, keepdims=True) - table, axis=0) if n > 1 else np.zeros(n, dtype=int)
    return np.asarray(table[worst, np.arange(n)])


def _spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.abs(values - np.median(values)) if len(values) else values)


_SOURCES: tuple[tuple[str, str, tuple[int, ...], Callable[[Results], Found]], ...] = (
    ("(ii) model 1: conditional coverage", "model1", (1000, 10_000), _slices_of_model_1),
    ("(iii) model 1: sizes", "model1", (1000, 10_000), _sizes_of_model_1),
    ("(iv) model 2: SVC cannot learn it, RFC is on par with the oracle", "model2", (1000, 10_000), _model_2),
    ("(v) mice: conditional coverage, sizes, CQC unstable", "mice", (500,), _mice),
    ("(vi) MNIST: conditional coverage", "mnist", (10_000,), _mnist),
)
