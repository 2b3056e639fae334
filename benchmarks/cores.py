"""The verbs on 1, 2, 4, 8, ... cores, each number in a new process that may run on no others.

``python -m benchmarks cores`` writes docs/benchmarks/cores.md; ``python -m benchmarks.cores narrow FOLDER`` is one of
those processes, and prints JSON. With ``--shapes``, ``--lines`` or ``--cores`` some of it is measured and printed, and
nothing written: a few lines take a minute or two. It needs numpy and scipy, pyarrow for ``from_frame`` and scikit-learn
for the audit; lines that cannot run are left out. Where nothing can be installed, ``benchmarks/build_loops.sh`` builds
the loops beside their Python with gcc, and ``PYTHONPATH=src`` does the rest.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aptset
from benchmarks.data import of_kind
from benchmarks.timing import Work, cores, stream
from benchmarks.yardsticks import ALPHA

COUNTS = (1, 2, 4, 8, 16, 32, 64)
SHAPES = {"wide": (200_000, 1000), "narrow": (4_000_000, 10)}
QUICK = {"wide": (10_000, 1000), "narrow": (400_000, 10)}
FASTER, STREAMS, NOISE = 8.0, 2.0, 1.05
_ENOUGH, _MOST_ROUNDS = 0.3, 7  # seconds and rounds after which a verb is measured
_LONG = 3.0  # seconds of one run that are enough
_SPLITS = 31  # and one on the last rows


Chooses = Callable[[str], bool]


def chooser(lines: str) -> Chooses:
    """Return what tells whether a name is wanted: one of some texts, between commas, is in it; "" is in all."""
    wanted = [text.strip() for text in lines.split(",")]
    return lambda name: any(text in name for text in wanted)


def verbs(p: np.ndarray, labels: np.ndarray) -> dict[str, Work]:
    """Return what runs on every shape."""
    plain = aptset.calibrate(p, labels, random_state=0)
    by_label = aptset.calibrate(p, labels, groups="label", random_state=0)
    sets = plain.predict_set(p, ALPHA)
    one = p[:1].copy()

    def first_threshold() -> Any:
        return aptset.calibrate(p, labels, random_state=0).predict_mask(one, ALPHA)

    def first_p_value() -> Any:
        return aptset.calibrate(p, labels, random_state=0).p_values(one)

    return {
        "calibrate": lambda: aptset.calibrate(p, labels, random_state=0),
        "calibrate by label": lambda: aptset.calibrate(p, labels, groups="label", random_state=0),
        "calibrate and first threshold": first_threshold,
        "calibrate and first p-value": first_p_value,
        "predict_mask": lambda: plain.predict_mask(p, ALPHA),
        "predict_set": lambda: plain.predict_set(p, ALPHA),
        "predict_set by label": lambda: by_label.predict_set(p, ALPHA),
        "p_values": lambda: plain.p_values(p),
        "evaluate": lambda: aptset.evaluate(sets, labels),
        "covers": lambda: sets.covers(labels),
    }


def of_narrow_rows(p: np.ndarray, labels: np.ndarray, is_wanted: Chooses) -> dict[str, Work]:
    """Return what judges sets of a quarter of the rows, and what reads all sets from a frame; as far as it can run."""
    n = len(p) // 4
    X, truth = np.random.default_rng(0).normal(size=(n, 10)), labels[:n]
    sets = aptset.calibrate(p, labels, random_state=0).predict_set(p, ALPHA)
    some = sets[:n]
    found: dict[str, Work] = {
        f"worst slice, {n:,} rows": lambda: aptset.worst_slice_coverage(some, labels=truth, X=X, random_state=0)
    }
    if find_spec("pyarrow") is not None:
        frame, classes = sets.to_frame("pyarrow"), np.arange(p.shape[1])
        found["from_frame"] = lambda: aptset.PredictionSets.from_frame(frame, classes)
    if find_spec("sklearn") is not None and is_wanted("audit"):
        m = len(p) // 40
        found[f"audit, {m:,} rows, {_SPLITS} splits"] = lambda: audit(X[:m], truth[:m])
        audit(X[:2000], truth[:2000])  # starts the processes
    return found


def audit(X: np.ndarray, labels: np.ndarray) -> Any:
    """Audit a quick model, one process for each core."""
    from sklearn.naive_bayes import GaussianNB

    settings: dict[str, Any] = {"calibrations": ("split",), "repetitions": _SPLITS, "n_jobs": cores()}
    return aptset.audit(GaussianNB(), X, labels, alpha=ALPHA, **settings)


def least_seconds(work: Work) -> float:
    """Return the least seconds of a few runs right after one another; the first counts only if it is long."""
    taken: list[float] = []
    while len(taken) < 2 or (sum(taken[1:]) < _ENOUGH and len(taken) < _MOST_ROUNDS):
        gc.collect()
        start = time.perf_counter()
        result = work()
        taken.append(time.perf_counter() - start)
        del result
        if taken[0] > _LONG:
            return taken[0]
    return min(taken[1:])


def measure(shape: str, folder: Path, lines: str) -> dict[str, float]:
    """Measure every verb whose line is wanted, on the cores that this process has."""
    is_wanted = chooser(lines)
    p, labels = np.load(folder / f"{shape}.npy"), np.load(folder / f"{shape} labels.npy")
    works = verbs(p, labels) | (of_narrow_rows(p, labels, is_wanted) if shape == "narrow" else {})
    works = {"stream": stream(p)} | {verb: work for verb, work in works.items() if is_wanted(verb)}
    return {verb: least_seconds(work) for verb, work in works.items()}


def on_cores(shape: str, folder: Path, count: int, lines: str) -> dict[str, float]:
    """Measure in a new process on the first cores that this one has."""
    some = set(sorted(os.sched_getaffinity(0))[:count])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cores", shape, str(folder), lines]
    limited = os.environ | {"OPENBLAS_NUM_THREADS": str(count), "OMP_NUM_THREADS": str(count)}
    done = subprocess.run(
        command, capture_output=True, text=True, env=limited, preexec_fn=lambda: os.sched_setaffinity(0, some)
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


class Selection(NamedTuple):
    """What is measured: texts between commas, each in the names of lines; shapes, and numbers of cores. "" for all."""

    lines: str = ""
    shapes: str = ""
    cores: str = ""

    def counts(self) -> list[int]:
        """Return the numbers of cores, as far as this machine has them."""
        wanted = [int(text) for text in self.cores.split(",")] if self.cores else COUNTS
        return [count for count in wanted if count <= cores()]


EVERYTHING = Selection()


def run(folder: Path, machine: dict[str, Any], quick: bool = False, selection: Selection = EVERYTHING) -> None:
    """Measure, and write a page with a table for each shape; of a selection, print the tables."""
    counts, is_shape = selection.counts(), chooser(selection.shapes)
    facts: dict[str, Any] = {"machine": machine, "date": datetime.now(UTC).strftime("%Y-%m-%d"), "cores": counts}
    with tempfile.TemporaryDirectory() as name:
        for shape, size in (QUICK if quick else SHAPES).items():
            if not is_shape(shape):
                continue
            matrix, labels = of_kind("peaked", *size)
            np.save(Path(name) / f"{shape}.npy", matrix)
            np.save(Path(name) / f"{shape} labels.npy", labels)
            del matrix
            found = []
            for count in counts:
                found.append(on_cores(shape, Path(name), count, selection.lines))
                print(shape, count, json.dumps({verb: round(1e3 * s, 1) for verb, s in found[-1].items()}), flush=True)
            facts[f"{size[0]:,} x {size[1]:,}"] = found
    if selection != EVERYTHING:
        print(page(facts))
        return
    (folder / "cores.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "cores.md").write_text(page(facts))


def page(facts: dict[str, Any]) -> str:
    """Return the tables as a page."""
    machine, counts = facts["machine"], facts["cores"]
    where = f"{machine['cores']} cores, {machine['processor']}, Python {machine['python']}, numpy {machine['numpy']}"
    said = (
        f"Measured by `python -m benchmarks cores` on {facts['date']}: {where}, loops for {machine['level']}. "
        "Milliseconds, the least of a few runs, each number of cores in a process that may run on no others. A "
        "*stream* reads the matrix of probabilities once with as many cores. The goal on all cores: "
        f"{FASTER:g} times as fast as on one or within {STREAMS:g} streams, and no slower than on half as many "
        f"({NOISE - 1:.0%} is noise)."
    )
    tables = [table(name, counts, found) for name, found in facts.items() if name not in ("machine", "date", "cores")]
    return "\n\n".join(["# Benchmarks on one core and on many", said, *tables]) + "\n"


def table(name: str, counts: list[int], found: list[dict[str, float]]) -> str:
    """Return the table of one matrix."""
    head = ["", *(f"{count} core{'s' * (count > 1)}" for count in counts), "times faster", "streams", "goal"]
    rows = [f"| {' | '.join(head)} |", "|---" + "|--:" * (len(head) - 2) + "|---|"]
    one = found[-1]["stream"]
    for verb in found[0]:
        seconds = [of_count[verb] for of_count in found]
        faster, streams = seconds[0] / seconds[-1], seconds[-1] / one
        cells = [f"{1e3 * s:,.3g}" if s < 1 else f"{1e3 * s:,.0f}" for s in seconds]
        goal = "" if verb == "stream" else verdict(seconds, faster, streams)
        rows.append(f"| {verb} | {' | '.join(cells)} | {faster:.1f} | {streams:.1f} | {goal} |")
    return f"## {name}\n\n" + "\n".join(rows)


def verdict(seconds: list[float], faster: float, streams: float) -> str:
    """Say whether a verb reaches the goals."""
    wanted = [] if faster >= FASTER or streams <= STREAMS else [f"{FASTER:g} times"]
    if len(seconds) > 1 and seconds[-1] > NOISE * seconds[-2]:
        wanted.append("slower than on half the cores")
    return "reached" if not wanted else "missed: " + ", ".join(wanted)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]), *(sys.argv[3:] or [""]))))
