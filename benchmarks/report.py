"""From measured lines to Markdown: the goals first, then every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.timing import Line


@dataclass(frozen=True)
class Goal:
    """A number that was set before it was measured."""

    text: str
    value: float | None
    limit: float
    at_most: bool
    unit: str

    def row(self) -> str:
        if self.value is None:
            return f"| {self.text} | {self._limit()} | not measured | - |"
        is_met = self.value <= self.limit if self.at_most else self.value >= self.limit
        return f"| {self.text} | {self._limit()} | {self.value:.3g}{self.unit} | {'reached' if is_met else 'missed'} |"

    def _limit(self) -> str:
        return f"{'at most' if self.at_most else 'at least'} {self.limit:g}{self.unit}"


def _streams(lines: list[Line], start: str) -> float | None:
    """Return the multiple of the stream of a workload of ours, from the race with the most rounds."""
    found = [line for line in lines if line.who == "aptset" and line.workload.startswith(start) and line.streams]
    return max(found, key=lambda line: line.rounds).streams if found else None


def _ratio(lines: list[Line], start: str, who: set[str] | None = None, least_share: float = 99.9) -> float | None:
    """Return how many times slower the fastest of some peers is: by name, or of those whose results agree."""
    agreeing = {
        line.who for line in lines if line.agrees.endswith("%") and float(line.agrees.rstrip("%")) >= least_share
    }
    names = agreeing if who is None else who
    ratios = [x.times_aptset for x in lines if x.workload.startswith(start) and x.who in names and x.times_aptset]
    return min(ratios, default=None)


def goals(lines: list[Line], memory: list[dict[str, Any]], whole: dict[str, Any], wide: str, narrow: str) -> list[Goal]:
    """Return the goals of the project with what was measured."""
    found = []
    limits = {
        "W1 " + wide: (2.5, 25),
        "W2 mask " + wide: (4, 10),
        "W1 " + narrow: (8, 8),
        "W2 mask " + narrow: (15, 10),
    }
    for work, (streams, times) in limits.items():
        found.append(Goal(f"{work} peaked", _streams(lines, f"{work} peaked"), streams, True, " streams"))
        found.append(Goal(f"{work} flat", _streams(lines, f"{work} flat"), streams, True, " streams"))
        ratio = _ratio(lines, f"{work} peaked")
        found.append(Goal(f"{work}, against the fastest peer that agrees", ratio, times, False, " times"))
    loop = {"the paper's loop"}
    found += [
        Goal(
            "W3 CV+ C=10, against the paper's loop",
            _ratio(lines, "W3 CV+ K=10, n=5,000, m=5,000, C=10", loop),
            20,
            False,
            " times",
        ),
        Goal("W3 CV+, against MAPIE", _ratio(lines, "W3", {"MAPIE"}), 100, False, " times"),
        Goal("W4 jackknife+, against the paper's loop", _ratio(lines, "W4", loop), 100, False, " times"),
        Goal(
            "W5 worst slice n=1,250, against the paper's loop",
            _ratio(lines, "W5 worst slice n=1,250", loop),
            500,
            False,
            " times",
        ),
    ]
    for name, numbers in whole["models"].items():
        found.append(Goal(f"W6 outside the model, {name}", 100 * numbers["share"], 2, True, " %"))
    extra = [entry["extra_mb"] for entry in memory if "extra_mb" in entry]
    found.append(Goal("peak extra memory in W1 and W2, worst case", max(extra, default=None), 64, True, " MB"))
    imports = whole["imports"]
    found.append(
        Goal(
            "import aptset with aptset.calibrate, times import numpy",
            imports["aptset"] / imports["numpy"],
            1.5,
            True,
            " times",
        )
    )
    for work in ("W1 " + wide, "W2 mask " + wide, "W1 " + narrow, "W2 mask " + narrow):
        found.append(
            Goal(
                f"{work}, numpy path: fastest peer that agrees, over it",
                _numpy_path(lines, f"{work} peaked"),
                1,
                False,
                " times",
            )
        )
    return found


def _numpy_path(lines: list[Line], start: str) -> float | None:
    fastest, slow = _ratio(lines, start), _ratio(lines, start, {"aptset without its compiled loops"})
    return fastest / slow if fastest and slow else None


def table(lines: list[Line]) -> str:
    """Every measured line."""
    head = (
        "| workload | who | ms | streams | times aptset | agrees | rounds | note |\n|---|---|--:|--:|--:|--:|--:|---|"
    )
    return "\n".join([head, *(_row(line) for line in lines)])


def _row(line: Line) -> str:
    numbers = [None if line.seconds is None else line.seconds * 1e3, line.streams, line.times_aptset]
    shown = [_number(number) for number in numbers]
    return f"| {line.workload} | {line.who} | {' | '.join(shown)} | {line.agrees} | {line.rounds} | {line.note} |"


def _number(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def markdown(results: dict[str, Any], lines: list[Line]) -> str:
    """The whole page."""
    memory = [
        f"| {m['workload']} | {_number(m.get('extra_mb'))} | {_number(m.get('result_mb'))} |" for m in results["memory"]
    ]
    missing = [f"- {who}: {why}" for who, why in results["missing"].items()]
    parts = [
        "# Benchmarks",
        _how(results),
        "## Goals\n\n| goal | wanted | measured | |\n|---|---|---|---|\n" + "\n".join(results["goals"]),
        "## Growth\n\n![Time against rows and against classes on log axes](growth.svg)",
        "## Every line\n\n" + table(lines),
        "## W6, imports, first call\n\n| what | |\n|---|---|\n" + "\n".join(_facts(results["whole"])),
        "## Peak memory beyond the result\n\n| workload | extra MB | result MB |\n|---|--:|--:|\n" + "\n".join(memory),
        "## Peers that did not run\n\n" + ("\n".join(missing) or "None."),
    ]
    return "\n\n".join(parts) + "\n"


def _how(results: dict[str, Any]) -> str:
    machine, how = results["machine"], "make bench QUICK=1" if results["quick"] else "make bench"
    return (
        f"Measured by `{how}` on {results['date']}: {machine['cores']} cores, {machine['processor']}, Python "
        f"{machine['python']}, numpy {machine['numpy']}, loops for {machine['level']}. Times are the least over "
        "interleaved rounds in one run. A *stream* is the time to read the matrix of probabilities once with all "
        "cores, in the same run. *Agrees* is the share of memberships equal to those of aptset at u = 0 (numpy: at "
        "the same u). "
        "What was missed and why: [the design record](../design/0009-speed.md)."
    )


def _facts(whole: dict[str, Any]) -> list[str]:
    rows = [
        f"| {name}, fit and predict 100,000 x 20 | {found['seconds']:.2f} s, {found['share']:.1%} outside the model |"
        for name, found in whole["models"].items()
    ]
    said = {"aptset": "aptset with aptset.calibrate"}  # by itself the package loads nothing
    rows += [
        f"| import {said.get(name, name)} | {seconds * 1e3:.0f} ms |" for name, seconds in whole["imports"].items()
    ]
    first, later = whole["first_call"]["first"] * 1e3, whole["first_call"]["later"] * 1e3
    return [*rows, f"| first `calibrate` of a process, 10,000 x 10 | {first:.1f} ms, later ones {later:.1f} ms |"]
