"""Time against the number of rows and the number of classes, on log axes: straight lines of slope 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import aptset
from benchmarks.data import rows
from benchmarks.timing import race
from benchmarks.yardsticks import ALPHA


def measure(quick: bool) -> dict[str, Any]:
    """Return seconds of calibration and prediction over n (C = 100) and over C (n = 20,000)."""
    last = 5 if quick else 6
    sizes = [int(n) for n in np.logspace(3, last, 2 * (last - 3) + 1)]
    classes = [3, 10, 30, 100, 300, 1000] + ([] if quick else [3000])
    n = 5000 if quick else 20_000
    return {
        "rows": {"x": sizes, **_curves([(size, 100) for size in sizes])},
        "classes": {"x": classes, **_curves([(n, count) for count in classes])},
        "n": n,
    }


def _curves(shapes: list[tuple[int, int]]) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {"calibrate": [], "predict_mask": [], "predict_set": []}
    for n, n_classes in shapes:
        p, labels = rows(n, n_classes, 3.0)
        calibration = aptset.calibrate(p, labels, random_state=0)
        best = race(
            {
                "calibrate": lambda p=p, labels=labels: aptset.calibrate(p, labels, random_state=0),
                "predict_mask": lambda p=p, c=calibration: c.predict_mask(p, ALPHA),
                "predict_set": lambda p=p, c=calibration: c.predict_set(p, ALPHA),
            },
            5,
        )
        for name, seconds in best.items():
            curves[name].append(seconds)
    return curves


def plot(found: dict[str, Any], path: Path) -> None:
    """Draw both curves next to each other; the file is the same for the same numbers."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "aptset"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    titles = {"rows": "rows (100 classes)", "classes": f"classes ({found['n']:,} rows)"}
    for axis, (over, title) in zip(axes, titles.items(), strict=True):
        x = np.array(found[over]["x"], dtype=float)
        for name in ("calibrate", "predict_mask", "predict_set"):
            axis.loglog(x, np.array(found[over][name]) * 1e3, marker="o", markersize=3, label=name)
        last = max(found[over]["predict_set"]) * 1e3
        axis.loglog(x, last * x / x[-1], color="0.7", linestyle=":", label="linear")
        axis.set_xlabel(title)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("milliseconds")
    axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
