"""The paper's claims, one by one, checked with numbers: a quantity over repetitions against bounds that are stated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aptset import Estimate
from aptset.experiments.designs import FigureDesign
from aptset.metrics import OF_SPLITS
from aptset.metrics.estimates import mean

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
        rows = self.frame
        rows = rows[(rows["box"] == box) & (rows["method"] == method) & (rows["condition"] == condition)]
        return rows.set_index("repetition")[metric].dropna().sort_index()

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
    claims = [
        _finding(f"(i) every method covers about {results.target:g} marginally", row) for row in _marginal(results)
    ]
    for claim, data, sizes, check in _SOURCES:
        for n_train in sizes:
            rows = check(results.some(data, n_train))
            claims += [_finding(f"{claim}, n = {n_train}", row) for row in rows]
    return [finding for finding in claims if finding.estimate.n > 1]


def _finding(claim: str, row: tuple[str, NDArray[np.float64], float, float]) -> Finding:
    quantity, values, low, high = row
    return Finding(claim, quantity, mean(values, 0.95), low, high)


def _marginal(results: Results) -> Found:
    for (data, n_train), _ in results.frame.groupby(["data", "n_train"]):
        chosen = results.some(data, n_train)
        for box, method in chosen.pairs():
            name = f"{data}, n={n_train}, {box}: coverage of {method}"
            values = chosen.values(box, method, "coverage").to_numpy()
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


class Rerun(NamedTuple):
    """Mean and standard deviation over repetitions of the four metrics."""

    box: str
    method: str
    repetitions: int
    coverage: tuple[float, float]
    worst_slice: tuple[float, float]
    size: tuple[float, float]
    size_given_coverage: tuple[float, float]


METRICS = Rerun._fields[3:]  # what was published, whatever else is measured today
RERUN = (
    Rerun("Oracle", "SC", 10, (0.898, 0.012), (0.898, 0.025), (1.44, 0.24), (1.51, 0.23)),
    Rerun("Oracle", "CV+", 10, (0.899, 0.009), (0.905, 0.021), (1.44, 0.22), (1.51, 0.21)),
    Rerun("Oracle", "HCC", 10, (0.894, 0.017), (0.639, 0.196), (1.16, 0.27), (1.19, 0.24)),
    Rerun("Oracle", "oracle", 10, (0.898, 0.003), (0.902, 0.019), (1.45, 0.23), (1.51, 0.22)),
    Rerun("Oracle", "CQC", 3, (0.912, 0.015), (0.887, 0.038), (2.08, 0.32), (2.15, 0.33)),
    Rerun("SVC", "SC", 10, (0.901, 0.012), (0.885, 0.040), (2.07, 0.24), (2.18, 0.21)),
    Rerun("SVC", "CV+", 10, (0.906, 0.007), (0.887, 0.015), (1.93, 0.20), (2.05, 0.17)),
    Rerun("SVC", "JK+", 2, (0.902, 0.002), (0.873, 0.010), (1.99, 0.11), (2.08, 0.10)),
    Rerun("SVC", "HCC", 10, (0.903, 0.016), (0.615, 0.155), (1.39, 0.38), (1.39, 0.37)),
    Rerun("RFC", "SC", 10, (0.897, 0.009), (0.837, 0.040), (2.29, 0.49), (2.34, 0.45)),
    Rerun("RFC", "CV+", 10, (0.906, 0.007), (0.841, 0.051), (2.31, 0.50), (2.38, 0.45)),
    Rerun("RFC", "HCC", 10, (0.901, 0.016), (0.631, 0.160), (1.76, 0.73), (1.74, 0.73)),
)
# Differences paired over seeds in the same re-run: box, methods, metric, and the mean that was seen.
PAIRED = (
    ("Oracle", "SC", "CV+", "size", "about 0"),
    ("SVC", "SC", "CV+", "size", "0.14"),
    ("RFC", "SC", "CV+", "size", "about 0"),
    ("Oracle", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
    ("SVC", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
    ("RFC", "SC", "HCC", "worst_slice", "0.21 to 0.27"),
)
# Medians of the authors' notebook: marginal, worst slice, size given coverage.
NOTEBOOK = {
    ("Oracle", "SC"): (0.902, 0.904, 1.882),
    ("Oracle", "CV+"): (0.901, 0.901, 1.880),
    ("Oracle", "HCC"): (0.900, 0.840, 1.558),
    ("SVC", "SC"): (0.906, 0.896, 2.482),
    ("SVC", "CV+"): (0.908, 0.904, 2.339),
    ("SVC", "HCC"): (0.903, 0.741, 1.911),
}


LARGEST_Z = 3.0  # in the 48 comparisons a larger one happens by chance in one run of eight
_NOTEBOOK_METRICS = ("coverage", "worst_slice", "size_given_coverage")
_CLEAR = 0.02  # medians of the notebook that differ by less are not called different


PUBLISHED_ALPHA = 0.1  # the level of all the numbers to compare with


class Beside(NamedTuple):
    """One number of theirs and the same of ours; z is the difference in combined standard errors."""

    box: str
    method: str
    metric: str
    theirs: float
    ours: float
    z: float

    @property
    def agrees(self) -> bool:
        """Tell whether chance explains the difference."""
        return abs(self.z) <= LARGEST_Z


def compare_rerun(frame: pd.DataFrame, alpha: float) -> list[Beside]:
    """Compare means on model 1, n = 1000, with the re-run of the authors' code."""
    results, comparisons = Results(frame, alpha).some("model1", 1000), []
    for row in RERUN:
        for metric in METRICS:
            values = results.values(row.box, row.method, metric).to_numpy()
            if len(values) > 1:
                centre, deviation = getattr(row, metric)
                ours, theirs = len(values), row.repetitions
                pooled = ((ours - 1) * values.var(ddof=1) + (theirs - 1) * deviation**2) / (ours + theirs - 2)
                z = (float(values.mean()) - centre) / (pooled * (1 / ours + 1 / theirs)) ** 0.5
                comparisons.append(Beside(row.box, row.method, metric, centre, float(values.mean()), z))
    return comparisons


def compare_paired(frame: pd.DataFrame, alpha: float) -> list[tuple[str, str, Estimate, int]]:
    """Return paired differences of the re-run in words, beside ours, and how many of ours are positive."""
    results, comparisons = Results(frame, alpha).some("model1", 1000), []
    for box, one, other, metric, theirs in PAIRED:
        values = results.difference((box, one), (box, other), metric)
        if len(values) > 1:
            what = f"{box}: {metric.replace('_', ' ')} of {one} minus {other}"
            comparisons.append((what, theirs, mean(values, 0.95), int((values > 0).sum())))
    return comparisons


def compare_notebook(frame: pd.DataFrame, alpha: float) -> list[tuple[str, str, str, bool]]:
    """Return, for pairs of one box whose medians clearly differ in the authors' notebook, whether ours do likewise."""
    results, comparisons = Results(frame, alpha).some("model1", 1000), []
    for (number, metric), (one, other) in product(enumerate(_NOTEBOOK_METRICS), combinations(NOTEBOOK, 2)):
        theirs = NOTEBOOK[one][number] - NOTEBOOK[other][number]
        ours = [results.values(*pair, metric).median() for pair in (one, other)]
        if one[0] == other[0] and abs(theirs) > _CLEAR and not np.isnan(ours).any():
            larger, smaller = (one, other) if theirs > 0 else (other, one)
            same = (ours[0] - ours[1]) * theirs > 0
            comparisons.append((metric, " ".join(larger), " ".join(smaller), bool(same)))
    return comparisons


RULE = (
    "Conditional coverage is *reached* if the whole 95 % interval (Student's t, over repetitions) of the mean "
    "worst-slice coverage lies above {least:g}, *missed* if all of it lies below, else *open*. Numbers are means over "
    "repetitions, standard errors in brackets."
)
_MARKS = {"reached": "✓ reached", "missed": "✗ missed", "open": "? open"}


def listing(design: FigureDesign, frame: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Return one line for each n_train, box and method: mean, standard error and interval of every metric."""
    import pandas as pd

    overall = frame[frame["condition"] == "all"]
    lines = []
    for n_train in design.n_train:
        for box in design.boxes:
            for method in design.methods:
                chosen = (overall["n_train"] == n_train) & (overall["box"] == box) & (overall["method"] == method)
                if chosen.any():
                    lines.append(_line(n_train, box, method, overall[chosen], alpha))
    return pd.DataFrame(lines)


def _line(n_train: int, box: str, method: str, frame: pd.DataFrame, alpha: float) -> dict[str, object]:
    line: dict[str, object] = {"n_train": n_train, "box": box, "method": method, "repetitions": len(frame)}
    for metric in OF_SPLITS:
        known = frame[metric] if metric in frame else frame.iloc[:0, 0].astype("float64")  # cells of an earlier table
        values = known.dropna().to_numpy()
        estimate = mean(values, 0.95)
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        line |= {metric: float(estimate), f"{metric}_se": error}
        line |= {f"{metric}_low": estimate.low, f"{metric}_high": estimate.high}
    return {**line, "conditional_coverage": _reached(mean(frame["worst_slice"].dropna().to_numpy(), 0.95), alpha)}


def _reached(worst: Estimate, alpha: float) -> str:
    least = 1 - alpha - ABOUT
    if worst.n < 2 or worst.low < least <= worst.high:
        return "open"
    return "reached" if worst.low >= least else "missed"


def as_markdown(title: str, lines: pd.DataFrame, alpha: float) -> str:
    """Return a listing as a Markdown table."""
    known = {name: metric for name, metric in OF_SPLITS.items() if lines[name].notna().any()}  # of older cells fewer
    shown = [(name, metric.digits, name == "worst_slice") for name, metric in known.items()]
    titles = [title for name, _, is_slice in shown for title in (name.replace("_", " "), *([""] if is_slice else []))]
    head = ["n_train", "box", "method", *titles, "repetitions"]
    rows = [head, ["---"] * len(head)]
    for line in lines.to_dict("records"):
        cells = [str(line["n_train"]), line["box"], line["method"]]
        for name, digits, is_slice in shown:
            mark = [_MARKS[line["conditional_coverage"]]] if is_slice else []
            cells += [_number(line, name, digits), *mark]
        rows.append([*cells, str(line["repetitions"])])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# {title}\n\n{RULE.format(least=1 - alpha - ABOUT)}\n\n{table}\n"


def _number(line: dict[str, float], metric: str, digits: int) -> str:
    error = line[f"{metric}_se"]
    return f"{line[metric]:.{digits}f} ({'-' if error != error else f'{error:.{digits}f}'})"
