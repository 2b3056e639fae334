"""How the figures of the pages look, and how they are written: the same bytes from the same numbers."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

BLUE, PALE, RED, GREY, INK = "#1f6fb2", "#8fb8da", "#d1495b", "#9aa5ae", "#222222"
SETTINGS = {
    "svg.hashsalt": "aptset",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "savefig.bbox": "tight",
}


def new_figure(width: float = 5.6, height: float = 3.0, **settings: Any) -> Any:
    """Return a figure and its axes."""
    plt.rcParams.update(SETTINGS)
    return plt.subplots(figsize=(width, height), **settings)


def write(figure: Any, path: Path) -> None:
    """Write a figure as SVG without a date."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
