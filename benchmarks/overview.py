"""The page that is read in a minute: how much faster than the best peer, how far from the limit, verb by verb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.timing import Line

Bars = list[tuple[str, float, str]]  # name, number, what is written beside it

_LIMITED = ("calibrate", "predict_mask", "predict_set", "p_values", "evaluate", "covers")
_OURS = ("aptset", "aptset without its compiled loops", "stream")


def against_peers(lines: list[Line]) -> Bars:
    """Return for each verb that a peer has: how many times faster we are than the fastest of them, in the same run."""
    best: dict[str, tuple[float, str]] = {}
    for line in lines:
        if line.who in _OURS or line.who.startswith(("numpy", "the paper")) or not line.times_aptset:
            continue
        verb = _plain(line.workload)
        if verb not in best or line.times_aptset < best[verb][0]:
            best[verb] = (line.times_aptset, line.who)
    return [(verb, times, who) for verb, (times, who) in best.items()]


def against_the_limit(lines: list[Line]) -> Bars:
    """Return for each verb how many times it takes to read the matrix once with all cores."""
    found: dict[str, float] = {}
    for line in lines:
        verb = line.workload.split(",")[0]
        if line.who == "aptset" and line.streams and "x" in line.workload and verb in _LIMITED:
            found[_plain(line.workload)] = line.streams
    return [(verb, streams, f"{streams:.1f}") for verb, streams in found.items()]


def _plain(workload: str) -> str:
    return workload.replace("W1 ", "calibrate, ").replace("W2 mask ", "predict_mask, ").replace(" peaked", "")


def draw(bars: Bars, title: str, path: Path) -> None:
    """Draw bars on a log axis; the file is the same for the same numbers."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "aptset"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 0.6 + 0.28 * max(1, len(bars))))
    names, numbers = [bar[0] for bar in bars], [bar[1] for bar in bars]
    axis.barh(names, numbers, color="#4477aa")
    for place, (_, number, beside) in enumerate(bars):
        axis.text(number, place, f" {number:,.3g} ({beside})" if not beside[0].isdigit() else f" {beside}", va="center")
    axis.set_xscale("log")
    axis.set_xlim(right=max(numbers, default=1.0) * 8)
    axis.axvline(1.0, color="0.6", linewidth=1)
    axis.invert_yaxis()
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def write(results: dict[str, Any], lines: list[Line], folder: Path) -> None:
    """Write README.md and its two figures."""
    faster, limit = against_peers(lines), against_the_limit(lines)
    draw(faster, "times faster than the fastest peer with this verb (its name)", folder / "peers.svg")
    draw(limit, "times reading the matrix once with all cores", folder / "limit.svg")
    machine = results["machine"]
    reached = sum("| reached |" in row for row in results["goals"])
    rows = [line for line in lines if "one row" in line.workload and line.who == "aptset"]
    single = "\n".join(f"| {line.workload} | {(line.seconds or 0) * 1e6:.0f} us |" for line in rows)
    text = f"""# Benchmark summary

One run of `make bench` on {results["date"]}: {machine["cores"]} cores, {machine["processor"]}.

![Times faster than the fastest peer, by verb](peers.svg)

Other libraries run through their public interfaces, on fewer rows if they take long (times are scaled up, and the
table says so). Another library may do less under the same name: see the notes there.

![Times reading the matrix once, by verb](limit.svg)

The lower limit is the time to read the probabilities once. Writing p-values takes two (float32) to three such passes.

| one row at a time | |
|---|--:|
{single}

{reached} of {len(results["goals"])} goals are reached. [Every line, the goals that were missed, memory and
growth](results.md); [on one core and on many](cores.md); [on a GPU](gpu.md); [why it is fast](../design/0009-speed.md).
"""
    (folder / "README.md").write_text(text)
