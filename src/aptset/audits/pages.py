"""The page about an audit or a comparison: numbers and words as plain values, drawn by the report's own room."""

from __future__ import annotations

import math
from typing import Any

from aptset.audits.drift import Drift
from aptset.audits.results import Splits
from aptset.audits.verdicts import Verdict
from aptset.reports.render import SPLITS, render_page

METRICS = {
    "coverage": "Coverage",
    "worst_slice": "Coverage in the worst slice",
    "size": "Labels in a set",
    "size_given_coverage": "Labels in a set that covers",
}


def splits_page(
    title: str,
    splits: Splits,
    verdicts: dict[str, Verdict],
    alpha: float,
    how: str,
    drift: Drift | None = None,
    headline: str | None = None,
    sentences: list[str] | None = None,
    differences: list[dict[str, Any]] | None = None,
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


def _data(
    splits: Splits, alpha: float, drift: Drift | None, differences: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """Return what the script draws."""
    summary = [{name: _plain(value) for name, value in row.items()} for row in splits.summary()]
    metrics = {name: words for name, words in METRICS.items() if _is_known(splits, name)}
    names = splits.candidates
    return {
        "alpha": alpha,
        "candidates": names,
        "metrics": metrics,
        "parts": [part for part in ("label", "group") if any(row["part"] == part for row in summary)],
        "summary": summary,
        "values": {m: {name: [_plain(v) for v in splits.values(name, m).tolist()] for name in names} for m in metrics},
        "drift": None if drift is None else [_plain(value) for value in drift.coverage.tolist()],
        "differences": None if differences is None else [{k: _plain(v) for k, v in r.items()} for r in differences],
    }


def _alarm(drift: Drift) -> str:
    return "rows repeat" if drift.found == ["repeats"] else "the rows drift"


def _drift_headline(drift: Drift) -> str:
    if drift.found == ["repeats"]:
        return "Warning: rows repeat"
    return "Warning: the rows do not look exchangeable" if drift.warning else "No sign of drift along the rows"


def _is_known(splits: Splits, metric: str) -> bool:
    return any(not math.isnan(value) for name in splits.candidates for value in splits.values(name, metric).tolist())


def _plain(value: Any) -> Any:
    """Return a value that JSON knows; what is not finite becomes None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
