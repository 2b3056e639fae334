"""W9: worst slice, report and audit at a million rows, each in a new process: how do time and memory grow?"""

from __future__ import annotations

from benchmarks.timing import Line, in_new_process

WORKS = {
    "worst slice": "10 features, the default directions",
    "report": "no features",
    "report with features": "10 features, the worst slice among them",
    "audit": "GaussianNB on 10 features, split calibration, 3 splits",
}


def run(quick: bool) -> list[Line]:
    """Measure W9 at two numbers of rows, one ten times the other."""
    sizes = (10_000, 100_000) if quick else (100_000, 1_000_000)
    return [line for what, about in WORKS.items() for line in measure(what, about, sizes)]


def measure(what: str, about: str, sizes: tuple[int, int]) -> list[Line]:
    """Return a line for each number of rows; the second says how many times longer it took."""
    lines: list[Line] = []
    for n in sizes:
        found = in_new_process("process", "long", what, str(n))
        if "error" in found:
            lines.append(Line(f"{what}, {n:,} rows", "aptset", note=found["error"]))
            continue
        note = f"{about}; {found['extra_mb']:.0f} MB beyond the data"
        if lines and lines[0].seconds:
            note += f"; {found['seconds'] / lines[0].seconds:.1f} times the time of a tenth of the rows"
        lines.append(Line(f"{what}, {n:,} rows", "aptset", found["seconds"], rounds=1, note=note))
    return lines
