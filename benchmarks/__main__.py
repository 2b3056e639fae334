"""Run everything: ``make bench`` writes docs/benchmarks, ``make bench QUICK=1`` compares with the quick run kept there.

``python -m benchmarks --quick --keep`` keeps a quick run for later ones to compare with.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from aptset.kernels import engines
from benchmarks import (
    acceptance,
    files,
    folds,
    growth,
    long_work,
    overview,
    peers,
    regression,
    report,
    slices,
    split,
    verbs,
    whole,
)
from benchmarks import cores as cores_of_verbs
from benchmarks.timing import Line, cores
from benchmarks.verb_goals import of_verbs

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    return {
        "cores": cores(),
        "processor": processor,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "level": engines.chosen.loops.use_level("") if engines.chosen.name == "compiled" else engines.chosen.name,
    }


def measure(quick: bool) -> tuple[dict[str, Any], list[Line]]:
    """Run the workloads one after the other, saying what is being measured."""
    found, missing = peers.available()
    wide, narrow = ((10_000, 1000), (200_000, 10)) if quick else ((50_000, 1000), (1_000_000, 10))
    say("W1, W2: split calibration")
    lines, failed = split.run(quick, found)
    say("W3, W4: CV+ and jackknife+")
    more, others = folds.run(quick)
    say("W5: worst slice")
    lines += more + slices.run(quick)
    say("W7: every verb, one row, the classifier")
    more, without = verbs.run(quick, found)
    lines, others = lines + more, others | without
    say("W8: files")
    lines += files.run(quick)
    say("W9: worst slice, report and audit")
    lines += long_work.run(quick)
    say("W6: whole fits, imports, memory")
    results = {"quick": quick, "machine": machine(), "date": datetime.now(UTC).strftime("%Y-%m-%d")}
    results |= {
        "missing": missing | failed | others,
        "whole": whole.run(quick),
        "memory": split.memory_lines(wide, narrow),
    }
    names = [f"{n:,} x {n_classes:,}" for n, n_classes in (wide, narrow)]
    checked = report.goals(lines, results["memory"], results["whole"], *names) + of_verbs(lines, *names)
    results["goals"] = [goal.row() for goal in checked]
    say("growth")
    results["growth"] = growth.measure(quick)
    return results | {"lines": [line.as_dict() for line in lines]}, lines


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


_WHAT = (
    "gpu: the kernels on a device; cores: the verbs on 1, 2, ... of the cores; acceptance: rows decided, and MAPIE's"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("all", "gpu", "cores", "acceptance"), default="all", help=_WHAT)
    parser.add_argument("--quick", action="store_true", help="smaller matrices and fewer rounds")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results go")
    parser.add_argument("--keep", action="store_true", help="keep this quick run for others to compare with")
    some = parser.add_argument_group("cores", "measure some of it, and print the tables instead of writing the page")
    some.add_argument("--lines", default="", help='texts in the names of lines: "worst slice,audit,evaluate"')
    some.add_argument("--shapes", default="", help="narrow (4,000,000 x 10), wide (200,000 x 1,000)")
    some.add_argument("--cores", default="", help="numbers of cores: 1,8,16")
    settings = parser.parse_args()
    settings.folder.mkdir(parents=True, exist_ok=True)
    if settings.what == "gpu":
        from benchmarks import gpu  # needs torch and a device

        gpu.run(settings.folder)
        return
    if settings.what == "cores":
        selection = cores_of_verbs.Selection(settings.lines, settings.shapes, settings.cores)
        cores_of_verbs.run(settings.folder, machine(), settings.quick, selection)
        return
    if settings.what == "acceptance":
        acceptance.write(settings.folder)
        return
    start = time.perf_counter()
    results, lines = measure(settings.quick)
    results["minutes"] = round((time.perf_counter() - start) / 60, 1)
    text = report.markdown(results, lines)
    print(text)
    if settings.quick:
        compare(results, settings.folder / "quick.json", settings.keep)
        return
    (settings.folder / "results.md").write_text(text)
    (settings.folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    growth.plot(results["growth"], settings.folder / "growth.svg")
    overview.write(results, lines, settings.folder)
    say(f"done in {results['minutes']} minutes; written to {settings.folder}")


def compare(results: dict[str, Any], path: Path, keep: bool) -> None:
    """Name what got worse since the quick run that was kept; end with an error if something did."""
    if keep:
        path.write_text(json.dumps(results, indent=1) + "\n")
        say(f"kept in {path}")
        return
    found = regression.worse(results, json.loads(path.read_text())) if path.exists() else []
    say(f"more than {regression.WORSE} times worse than the run that is kept: {len(found)}")
    print(*found, sep="\n")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
