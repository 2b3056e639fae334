"""What a comparison says in words: who is best, how the others differ, and which one to take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from aptset.audits.comparison import Comparison


def headline(found: Comparison) -> str:
    """Return who is best in a few words."""
    best, *others = found.ranking
    if not found.verdicts[best].kept:
        return "No candidate keeps the promise"
    agree = " of those that agree with the promise" if not all(v.kept for v in found.verdicts.values()) else ""
    rivals = [other for other in others if found.verdicts[other].kept]
    if not _leads(found, best, rivals, "models"):
        return f"{best} comes first{agree}, without a clear lead"
    doubt = "" if _leads(found, best, rivals, "data") else "; other data might say otherwise"
    return f"{best} has the smallest sets{agree}{doubt}"


def _leads(found: Comparison, best: str, rivals: list[str], about: Literal["models", "data"]) -> bool:
    return all(found.difference(rival, best, "size", found.each, about).low > 0 for rival in rivals)


def sentence(found: Comparison, best: str, other: str) -> str:
    """Say how the best differs from another."""
    size, slices, gap = (
        found.difference(other, best, metric, found.each) for metric in ("size", "worst_slice", "coverage")
    )
    covers = [f"{float(found.verdicts[name].coverage):.3f}" for name in (best, other)]
    if not found.verdicts[other].kept and found.verdicts[best].kept:
        return f"{other} does not keep the promise (coverage {covers[1]}); {best} agrees with it ({covers[0]})."
    elsewhere = found.difference(other, best, "size", found.each, "data")
    interval = f"interval {size.low:.2g} to {size.high:.2g}; on other data {elsewhere.low:.2g} to {elsewhere.high:.2g}"
    if size.low > 0:
        text = f"{best}'s sets are {float(size):.2f} labels smaller on average than {other}'s ({interval})"
    else:
        text = f"No clear difference in size between {best} and {other} ({float(size):.2g} labels, {interval})"
    clear = (
        "with a difference in coverage" if not gap.low <= 0 <= gap.high else "without a clear difference in coverage"
    )
    text += f", {clear} ({covers[0]} and {covers[1]})"
    if np.isnan(slices):
        return text + "."
    way = "lower" if slices.high < 0 else "higher" if slices.low > 0 else "about the same"
    ends = f"difference {float(slices):.2g}, {slices.low:.2g} to {slices.high:.2g}"
    return f"{text}; worst-slice coverage of {other} is {way} ({ends})."


def recommended(found: Comparison) -> tuple[str, str]:
    """Return the candidate to take, and the reason."""
    best, *others = found.ranking
    if not found.verdicts[best].kept:
        return best, "none of them keeps the promise; look at the rows first (aptset audit)"
    near = [name for name in others if found.verdicts[name].kept and _is_near(found, name, best)]
    sizes = {name: float(found.splits.values(name, "size").mean()) for name in found.ranking}
    if not near:
        rival = next((name for name in others if found.verdicts[name].kept), None)
        beside = f"; {rival} has {sizes[rival]:.2f}" if rival else ""
        return best, f"it agrees with the promise and has the smallest sets, {sizes[best]:.2f} labels{beside}"
    slices = {name: _mean_slice(found, name) for name in (best, *near)}
    chosen = best if np.isnan(slices[best]) else max((best, *near), key=lambda name: slices[name])
    same = ", ".join(name for name in (best, *near) if name != chosen)
    worst = f", and its worst slice is covered best, {slices[chosen]:.3f}" if not np.isnan(slices[chosen]) else ""
    small = f"its sets, {sizes[chosen]:.2f} labels, are as small as those of {same}"
    return chosen, f"it agrees with the promise, {small}{worst}"


def _mean_slice(found: Comparison, name: str) -> float:
    """Return the coverage of the worst slice over splits that had rows enough to look for one; NaN if none had."""
    values = found.splits.values(name, "worst_slice")
    return float(values[~np.isnan(values)].mean()) if not np.isnan(values).all() else float("nan")


def _is_near(found: Comparison, name: str, best: str) -> bool:
    return not found.difference(name, best, "size", found.each).low > 0
