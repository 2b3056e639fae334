"""Figures that give back their table. matplotlib is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from aptset.core.tables import Backend, html_table, make_table, need
from aptset.kernels.formula import Floats


@dataclass(frozen=True)
class Display:
    """A small figure and the numbers in it.

    Attributes
    ----------
    columns : dict
        The table: the first column is drawn along x, the second along y; ``low`` and ``high``, if there, are intervals.
    kind : {"line", "bar"}
        How it is drawn.
    marks : sequence of float
        Reference values, drawn as lines: along x for a line, along y for bars.
    diagonal : sequence of float
        Where a line is compared with y = x; empty for no such comparison.
    points : str
        A column that is drawn as points beside bars; empty for none.
    """

    columns: dict[str, Any]
    kind: Literal["line", "bar"]
    title: str
    x_label: str
    y_label: str
    marks: Sequence[float] = field(default_factory=tuple)
    diagonal: Sequence[float] = field(default_factory=tuple)
    points: str = ""

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a data frame."""
        return make_table(dict(self.columns), backend)

    def _repr_png_(self) -> bytes | None:
        """Return the picture for notebooks; nothing without matplotlib."""
        if find_spec("matplotlib") is None:
            return None
        from io import BytesIO

        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure, picture = Figure(figsize=(6, 3.5), layout="constrained"), BytesIO()
        FigureCanvasAgg(figure)  # a figure of its own: nothing is left open, and nothing is shown twice
        self.draw(figure.add_subplot())
        figure.savefig(picture, format="png", dpi=110)
        return picture.getvalue()

    def _repr_html_(self) -> str | None:
        """Return the table, where there is no matplotlib to draw it."""
        if find_spec("matplotlib") is not None:
            return None
        return html_table(self.title, list(self.columns), zip(*self.columns.values(), strict=True))

    def draw(self, ax: Any = None) -> Any:
        """Draw into matplotlib axes (new ones by default) and return them."""
        if ax is None:
            need("matplotlib", "a figure")
            import matplotlib.pyplot as plt

            ax = plt.figure(figsize=(6, 3.5), layout="constrained").add_subplot()
        names = list(self.columns)
        x, y = self.columns[names[0]], np.asarray(self.columns[names[1]], dtype=np.float64)
        (self._draw_line if self.kind == "line" else self._draw_bars)(ax, x, y)
        ax.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
        return ax

    def _draw_line(self, ax: Any, x: Any, y: Floats) -> None:
        if "low" in self.columns:
            ax.fill_between(x, self.columns["low"], self.columns["high"], alpha=0.2, linewidth=0)
        if len(self.diagonal):
            ax.plot(self.diagonal, self.diagonal, color="0.5", linestyle="--", linewidth=1)
        ax.plot(x, y)
        for mark in self.marks:
            ax.axvline(mark, color="0.5", linestyle="--", linewidth=1)

    def _draw_bars(self, ax: Any, x: Any, y: Floats) -> None:
        positions = np.arange(len(y))
        error = None
        if "low" in self.columns:
            ends = [y - np.asarray(self.columns["low"]), np.asarray(self.columns["high"]) - y]
            error = np.clip(np.stack(ends), 0.0, None)
        ax.bar(positions, y, yerr=error, capsize=3, label=self.y_label)
        if self.points:
            ax.plot(positions, self.columns[self.points], "o", color="black", label=self.points)
            ax.legend()
        ax.set_xticks(positions, [str(value) for value in x])
        for mark in self.marks:
            ax.axhline(mark, color="0.5", linestyle="--", linewidth=1)


def bars_of(values: dict[Any, Any], what: str, by: str, marks: Sequence[float] = ()) -> Display:
    """Return a bar with an interval for each of some estimates, by label, group or size."""
    columns: dict[str, Any] = {by: drawable(list(values)), what: [float(value) for value in values.values()]}
    for name in ("low", "high", "n"):
        columns[name] = [getattr(value, name) for value in values.values()]
    return Display(columns, "bar", f"{what.capitalize()} by {by}", by, what, marks)


def drawable(keys: list[Any]) -> list[Any]:
    """Return keys of one kind: as they are, or as texts where kinds are mixed or missing."""
    return keys if len({type(key) for key in keys}) <= 1 and None not in keys else [str(key) for key in keys]
