"""The paper's tables: coverage, worst-slice coverage and size for each n_train, box and method."""

from __future__ import annotations

import pandas as pd

from aptset.estimates import mean
from aptset.experiments.designs import Design
from aptset.experiments.measures import METRICS

RULE = (
    "Conditional coverage is *reached* if the 95 % interval (Student's t, over repetitions) of the mean worst-slice "
    "coverage reaches {level:g}, else *missed*. Numbers are means over repetitions, standard errors in brackets."
)


def listing(design: Design, frame: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Return one line for each n_train, box and method: mean, standard error and interval of every metric."""
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
    for metric in METRICS:
        values = frame[metric].dropna().to_numpy()
        found = mean(values, 0.95)
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        line |= {metric: float(found), f"{metric}_se": error, f"{metric}_low": found.low, f"{metric}_high": found.high}
    reached = float(str(line["worst_slice_high"])) >= 1 - alpha
    return {**line, "conditional_coverage": "reached" if reached else "missed"}


def as_markdown(title: str, lines: pd.DataFrame, alpha: float) -> str:
    """Return a listing as a Markdown table."""
    head = ["n_train", "box", "method", "coverage", "worst slice", "", "size", "size given coverage", "repetitions"]
    rows = [head, ["---"] * len(head)]
    for line in lines.to_dict("records"):
        mark = "✓ reached" if line["conditional_coverage"] == "reached" else "✗ missed"
        cells = [str(line["n_train"]), line["box"], line["method"]]
        cells += [_number(line, "coverage", 3), _number(line, "worst_slice", 3), mark]
        cells += [_number(line, "size", 2), _number(line, "size_given_coverage", 2), str(line["repetitions"])]
        rows.append(cells)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# {title}\n\n{RULE.format(level=1 - alpha)}\n\n{table}\n"


def _number(line: dict[str, float], metric: str, digits: int) -> str:
    return f"{line[metric]:.{digits}f} ({line[f'{metric}_se']:.{digits}f})"
