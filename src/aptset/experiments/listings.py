"""The paper's tables: coverage, worst-slice coverage and size for each n_train, box and method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aptset.experiments.claims import ABOUT
from aptset.experiments.designs import Design
from aptset.metrics import OF_SPLITS
from aptset.metrics.estimates import Estimate, mean

if TYPE_CHECKING:
    import pandas as pd

RULE = (
    "Conditional coverage is *reached* if the whole 95 % interval (Student's t, over repetitions) of the mean "
    "worst-slice coverage lies above {least:g}, *missed* if all of it lies below, else *open*. Numbers are means over "
    "repetitions, standard errors in brackets."
)
_MARKS = {"reached": "✓ reached", "missed": "✗ missed", "open": "? open"}


def listing(design: Design, frame: pd.DataFrame, alpha: float) -> pd.DataFrame:
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
