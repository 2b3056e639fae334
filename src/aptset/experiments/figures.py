"""The paper's figures: box plots over repetitions, panels of coverage and size, a line at the nominal level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aptset.core.files import atomic_path
from aptset.experiments.designs import Design
from aptset.metrics import OF_SPLITS

if TYPE_CHECKING:
    import pandas as pd

COLOURS = {
    "SC": "#0072b2",
    "CV+": "#56b4e9",
    "JK+": "#009e73",
    "CQC": "#d55e00",
    "CQC-RF": "#e69f00",
    "HCC": "#cc79a7",
    "oracle": "#999999",
}
_STYLE: Any = {"svg.hashsalt": "aptset", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_HIDDEN_BEYOND = 1.6  # times nearly the largest value of the other methods: the paper leaves such values of CQC out


class Panel(NamedTuple):
    """One pair of axes: a metric, for rows of one condition, over boxes or labels."""

    title: str
    metric: str
    frame: pd.DataFrame
    by: str  # the column along x


def draw_figure(design: Design, frame: pd.DataFrame, alpha: float, paths: list[Path]) -> None:
    """Draw a design into files; their endings decide the format, and the same data give the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = panels(design, frame)
    methods = [name for name in design.methods if name in set(frame["method"])]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 2.5 * len(rows) + 0.7), layout="constrained")
        grid = figure.subplots(len(rows), 2, squeeze=False)
        for axes, panel in zip(grid.ravel(), (panel for row in rows for panel in row), strict=True):
            _draw_panel(axes, panel, design, methods, alpha)
        handles = [mpl.patches.Patch(color=COLOURS[name], label=name) for name in methods]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(methods), frameon=False)
        figure.suptitle(_title(design, frame), fontsize=11)
        for path in paths:
            with atomic_path(path) as temporary:
                kind = path.suffix[1:]
                figure.savefig(temporary, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)


def panels(design: Design, frame: pd.DataFrame) -> list[tuple[Panel, Panel]]:
    """Return the panels, row by row: coverage left, size right."""
    overall = frame[frame["condition"] == "all"]
    rows = [
        (Panel("Marginal coverage", "coverage", overall, "box"), Panel("Size", "size", overall, "box")),
        (
            Panel("Worst-slice coverage", "worst_slice", overall, "box"),
            Panel("Size given coverage", "size_given_coverage", overall, "box"),
        ),
    ]
    for name in design.conditions:
        chosen = frame[frame["condition"] == name]
        given = name.replace("=", " = ")
        left = Panel(f"Coverage given {given}", "coverage", chosen, "box")
        rows.append((left, Panel(f"Size given {given} and coverage", "size_given_coverage", chosen, "box")))
    if design.by_label_of is not None:
        chosen = frame[(frame["box"] == design.by_label_of) & frame["condition"].str.startswith("label=")]
        chosen = chosen.assign(label=chosen["condition"].str.removeprefix("label="))
        left = Panel(f"Coverage by true label, {design.by_label_of}", "coverage", chosen, "label")
        rows.append((left, Panel("Size given coverage, by true label", "size_given_coverage", chosen, "label")))
    return rows


def _draw_panel(axes: Any, panel: Panel, design: Design, methods: list[str], alpha: float) -> None:
    present = set(panel.frame[panel.by])
    names = [box for box in design.boxes if box in present] if panel.by == "box" else sorted(present, key=float)
    width = 0.8 / max(len(methods), 1)
    for number, method in enumerate(methods):
        rows = panel.frame[panel.frame["method"] == method]
        values = [rows.loc[rows[panel.by] == name, panel.metric].dropna().to_numpy() for name in names]
        filled = [(k, v) for k, v in enumerate(values) if len(v)]
        if filled:
            at = [k - 0.4 + width * (number + 0.5) for k, _ in filled]
            _draw_boxes(axes, [v for _, v in filled], at, width, COLOURS[method])
    axes.set_xticks(range(len(names)), names)
    axes.set_title(panel.title, fontsize=10)
    if OF_SPLITS[panel.metric].aims_at_level:
        axes.axhline(1 - alpha, color="black", linestyle="--", linewidth=0.8, zorder=0)
    else:
        _leave_out_extremes(axes, panel)


def _draw_boxes(axes: Any, values: list[Any], at: list[float], width: float, colour: str) -> None:
    if max(map(len, values)) == 1:  # a box of one value has no colour
        axes.plot(at, [value[0] for value in values], "o", color=colour)
        return
    shape: dict[str, Any] = {"linewidth": 0.7, "color": "black"}
    axes.boxplot(
        values,
        positions=at,
        widths=0.85 * width,
        patch_artist=True,
        manage_ticks=False,
        boxprops={**shape, "facecolor": colour},
        medianprops=shape,
        whiskerprops=shape,
        capprops=shape,
        flierprops={"marker": ".", "markersize": 3, "markerfacecolor": colour, "markeredgecolor": "none"},
    )


def _leave_out_extremes(axes: Any, panel: Panel) -> None:
    """Cut the axis where only the extreme values of CQC lie, and say how many are not shown."""
    others = panel.frame.loc[panel.frame["method"] != "CQC", panel.metric].dropna()
    if others.empty:
        return
    limit = _HIDDEN_BEYOND * float(np.quantile(others, 0.99))
    hidden = int((panel.frame[panel.metric] > limit).sum())
    if hidden:
        axes.set_ylim(top=limit)
        note = f"{hidden} values above {limit:.2g} not shown"
        axes.annotate(note, (0.01, 0.97), xycoords="axes fraction", ha="left", fontsize=7)


def _title(design: Design, frame: pd.DataFrame) -> str:
    """Return the title, with the number of repetitions and what the design leaves out."""
    counts = frame.groupby(["box", "method"])["repetition"].nunique()
    low, high = int(counts.min()), int(counts.max())
    repetitions = f"{low} repetition{'s' * (low != 1)}" if low == high else f"{low} to {high} repetitions"
    without = "".join(f"; {method} not run with {box}" for box, method in design.without)
    return f"{design.title} ({repetitions}{without})"
