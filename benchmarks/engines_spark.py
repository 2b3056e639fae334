"""Spark on this machine: ``python -m benchmarks.engines_spark 20_000_000`` prints one line of JSON for each job.

Rows of 10 float32 classes in parquet, an executor for each core. Reading alone is the same columns through an empty
``mapInArrow``, so that what is left is the work of aptset.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aptset.arrow import ThresholdSearch
from benchmarks.timing import cores

_FILE_ROWS = 1_000_000
_CLASSES = 10
_COLUMNS = [f"p_{label}" for label in range(_CLASSES)]


def write_rows(folder: Path, n: int) -> None:
    """Write parquet files of a million rows each."""
    for number in range(-(-n // _FILE_ROWS)):
        generator = np.random.default_rng(number)
        p = generator.dirichlet(np.full(_CLASSES, 0.3), size=min(_FILE_ROWS, n - number * _FILE_ROWS))
        y = (generator.random((len(p), 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        columns = {name: p[:, label].astype(np.float32) for label, name in enumerate(_COLUMNS)}
        pq.write_table(pa.table({**columns, "y": y.astype(np.int32)}), folder / f"part-{number:05}.parquet")


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Look at batches, and say how many rows there were."""
    yield pa.record_batch({"n": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


class Peak:
    """The largest memory of the Python workers of Spark while a job runs, looked at ten times a second."""

    def __enter__(self) -> Peak:
        self.mb, self._is_over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            self.mb = max([self.mb, *(_memory(process) for process in Path("/proc").glob("[0-9]*"))])


def _memory(process: Path) -> float:
    """Return the memory of a Python worker in MB, 0 of anything else."""
    try:
        if b"pyspark.daemon" not in (process / "cmdline").read_bytes():
            return 0.0
        status = (process / "status").read_text()
    except OSError:  # it has ended
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


def measured(name: str, n: int, job: Callable[[], Any]) -> Any:
    """Run a job and print how fast it was, the memory of its largest worker, and the bytes of states that came."""
    came: list[int] = []
    advance = ThresholdSearch.advance

    def noting(search: ThresholdSearch, states: Any) -> ThresholdSearch:
        came.append(states.nbytes)
        return advance(search, states)

    ThresholdSearch.advance = noting  # type: ignore[method-assign, assignment]
    start = time.perf_counter()
    try:
        with Peak() as peak:
            result = job()
    finally:
        ThresholdSearch.advance = advance  # type: ignore[method-assign]
    seconds = time.perf_counter() - start
    line = {"job": name, "seconds": round(seconds, 1), "million rows a second": round(n / seconds / 1e6, 2)}
    print(json.dumps({**line, "MB of a worker": round(peak.mb), "passes": len(came), "bytes to driver": sum(came)}))
    return result


def main(n: int) -> None:
    from pyspark.sql import SparkSession

    import aptset.spark

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master(f"local[{cores()}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), n)
        frame = session.read.parquet(folder)
        wanted = {"prefix": "p_", "random_state": 0}
        frame.limit(10_000).mapInArrow(counted, "n long").collect()  # workers start, and Java learns what it compiles
        measured("reading alone", n, lambda: frame.mapInArrow(counted, "n long").agg({"n": "sum"}).collect())
        made = measured("calibrate", n, lambda: aptset.spark.calibrate(frame, "y", **wanted))
        grid = {**wanted, "resolution": 2**-20}
        measured("calibrate on a grid", n, lambda: aptset.spark.calibrate(frame, "y", **grid))
        sets = aptset.spark.predict_set(frame, made, prefix="p_")
        measured("predict", n, lambda: sets.agg({"size": "sum"}).collect())
    session.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
