"""The page about an audit or a comparison: numbers and words as plain values, drawn by the report's own room."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.audits.drift import Drift
from aptset.audits.results import Difference, Records, Splits
from aptset.audits.verdicts import Verdict
from aptset.metrics import OF_SPLITS
from aptset.reports.render import SPLITS, render_page


def splits_page(
    title: str,
    splits: Splits,
    verdicts: dict[str, Verdict],
    alpha: float,
    how: str,
    drift: Drift | None = None,
    headline: str | None = None,
    sentences: list[str] | None = None,
    differences: Records[Difference] | None = None,
) -> str:
    """Return the page."""
    kept = all(verdict.kept for verdict in verdicts.values())
    alarm = drift is not None and drift.warning
    agrees = (
        f"Agrees with the promise, but {_alarm(drift)}" if drift is not None and alarm else "Agrees with the promise"
    )
    promise = agrees if kept else "Promise not kept"
    data = _data(splits, alpha, drift, differences)
    page = {
        "title": title,
        "kind": "low" if not kept else "high" if alarm else "kept",
        "headline": headline or promise,
        "sentences": sentences or [],
        "verdicts": {name: verdict.sentence() for name, verdict in verdicts.items()},
        "how": how,
        "drift": None if drift is None else {"headline": _drift_headline(drift), "sentence": drift.sentence()},
        "has_differences": differences is not None,
        "metrics": data["metrics"],
        "parts": data["parts"],
    }
    return render_page("splits.html.jinja", SPLITS, page, data)


def _data(splits: Splits, alpha: float, drift: Drift | None, differences: Records[Difference] | None) -> dict[str, Any]:
    """Return what the script draws."""
    summary = splits.summary().as_json()
    metrics = {name: metric.heading for name, metric in OF_SPLITS.items() if _is_known(splits, name)}
    names = splits.candidates
    return {
        "alpha": alpha,
        "candidates": names,
        "metrics": metrics,
        "shares": [name for name in metrics if OF_SPLITS[name].unit == "share"],
        "marked": [name for name in metrics if OF_SPLITS[name].aims_at_level],
        "parts": [part for part in ("label", "group") if any(row["part"] == part for row in summary)],
        "summary": summary,
        "values": {m: {name: _finite(splits.values(name, m)) for name in names} for m in metrics},
        "drift": None if drift is None else _finite(drift.coverage),
        "differences": None if differences is None else differences.as_json(),
    }


def _alarm(drift: Drift) -> str:
    return "rows repeat" if drift.found == ["repeats"] else "the rows drift"


def _drift_headline(drift: Drift) -> str:
    if drift.found == ["repeats"]:
        return "Warning: rows repeat"
    return "Warning: the rows do not look exchangeable" if drift.warning else "No sign of drift along the rows"


def _is_known(splits: Splits, metric: str) -> bool:
    return any(not math.isnan(value) for name in splits.candidates for value in splits.values(name, metric).tolist())


def _finite(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers that JSON knows; what is not finite becomes None."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
