"""Rows of 10 float32 classes in parquet, and one process that works through them, for comparison with clusters.

``python -m benchmarks.engines 20_000_000`` prints one line of JSON for each job.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import aptset

_FILE_ROWS = 1_000_000
_CLASSES = 10
COLUMNS = [f"p_{label}" for label in range(_CLASSES)]


def write_rows(folder: Path, n: int) -> None:
    """Write parquet files of a million rows each."""
    for number in range(-(-n // _FILE_ROWS)):
        generator = np.random.default_rng(number)
        p = generator.dirichlet(np.full(_CLASSES, 0.3), size=min(_FILE_ROWS, n - number * _FILE_ROWS))
        y = (generator.random((len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        columns = {name: p[:, label].astype(np.float32) for label, name in enumerate(COLUMNS)}
        pq.write_table(pa.table({**columns, "y": y.astype(np.int32)}), folder / f"part-{number:05}.parquet")


def peak_mb() -> float:
    """Return the largest memory that this process had since :func:`forget_peak` (Linux only)."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Let the peak be what is there now."""
    Path("/proc/self/clear_refs").write_text("5")


def line_of(where: str, job: str, n: int, seconds: float, core_seconds: float, mb: float, **more: Any) -> str:
    """Return a line of JSON; the clock of the processor tells more than that of the wall where others work too."""
    rates = {"million rows a second": round(n / seconds / 1e6, 2), "core-seconds": round(core_seconds, 1)}
    return json.dumps({"where": where, "job": job, "seconds": round(seconds, 1), **rates, "peak MB": round(mb), **more})


def measured(job: str, n: int, work: Callable[[], Any]) -> Any:
    """Run a job in this process and print how it went."""
    forget_peak()
    start, cores = time.perf_counter(), time.process_time()
    result = work()
    seconds, core_seconds = time.perf_counter() - start, time.process_time() - cores
    print(line_of("one process", job, n, seconds, core_seconds, peak_mb()), flush=True)
    return result


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), n)
        files = sorted(Path(folder).iterdir())

        def batches() -> Any:
            return (batch for file in files for batch in pq.ParquetFile(file).iter_batches(2**16, use_threads=False))

        measured("reading alone", n, lambda: sum(batch.num_rows for batch in batches()))
        common = {"labels": "y", "prefix": "p_", "random_state": 0}
        made = measured("calibrate", n, lambda: aptset.calibrate_batches(batches, **common))
        measured("calibrate on a grid", n, lambda: aptset.calibrate_batches(batches, resolution=2**-20, **common))
        sets = aptset.predict_batches(batches, made, prefix="p_")
        measured("predict", n, lambda: sum(batch.num_rows for batch in sets))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
