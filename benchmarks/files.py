"""W8: the commands on a Parquet file, each in a new process, beside reading the file alone."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.data import of_kind
from benchmarks.timing import Line

READ = """
import pyarrow.parquet as pq
for batch in pq.ParquetFile({path!r}).iter_batches(): pass
"""
MEASURED = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
seconds = time.perf_counter() - start
megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps([seconds, megabytes, done.returncode, done.stderr[-300:]]))
"""


def _write(folder: Path, n: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    p, labels = of_kind("peaked", n, 10)
    columns = {f"c{j}": p[:, j] for j in range(10)}
    path = folder / "rows.parquet"
    pq.write_table(pa.table({**columns, "y": [f"c{j}" for j in labels.tolist()]}), path)
    return path


def _measure(command: list[str], rounds: int) -> tuple[float, float]:
    """Return the least seconds and the peak memory of a command."""
    found = []
    for _ in range(rounds):
        done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, check=True)
        seconds, megabytes, code, error = json.loads(done.stdout)
        if code:
            raise RuntimeError(f"{' '.join(command)}: {error}")
        found.append((seconds, megabytes))
    return min(found)


def run(quick: bool) -> list[Line]:
    """Measure W8."""
    n, rounds = (300_000, 2) if quick else (3_000_000, 3)
    lines, read = [], 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, aptset = str(_write(folder, n)), [sys.executable, "-m", "aptset"]
        calibration, sets = str(folder / "c.aptset"), str(folder / "sets.parquet")
        commands = {
            "reading alone": [sys.executable, "-c", READ.format(path=path)],
            "aptset calibrate": [*aptset, "calibrate", path, "--label", "y", "-o", calibration, "--quiet"],
            "aptset predict": [*aptset, "predict", path, "-c", calibration, "-o", sets, "--quiet"],
            "aptset evaluate": [*aptset, "evaluate", sets, "--label", "y"],
        }
        for what, command in commands.items():
            seconds, megabytes = _measure(command, rounds)
            read = read or seconds
            note = f"{seconds / read:.1f} times reading alone, peak {megabytes:.0f} MB in all"
            lines.append(Line(f"{what}, {n:,} x 10 Parquet", "aptset", seconds, rounds=rounds, note=note))
    return lines
