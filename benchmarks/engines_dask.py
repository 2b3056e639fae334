"""dask on this machine: ``python -m benchmarks.engines_dask 20_000_000`` prints one line of JSON for each job.

A worker is a process with one thread. Reading alone is the same columns, of which every partition tells its length.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import distributed
import pandas as pd

import aptset.dask
from benchmarks.engines import COLUMNS, forget_peak, line_of, peak_mb, write_rows


class RowWeights(distributed.Client):
    """A client that weighs what computations bring to it."""

    came = 0

    def get(self, *arguments: Any, **options: Any) -> Any:
        found = super().get(*arguments, **options)
        self.came += len(pickle.dumps(found))
        return found


def length(part: pd.DataFrame) -> pd.Series:
    return pd.Series([len(part)])


def measured(client: RowWeights, job: str, n: int, work: Callable[[], Any]) -> Any:
    """Run a job on the cluster and print how it went; the peak is that of the largest worker."""
    client.run(forget_peak)
    client.came, start, cores = 0, time.perf_counter(), sum(client.run(time.process_time).values())
    result = work()
    seconds, core_seconds = time.perf_counter() - start, sum(client.run(time.process_time).values()) - cores
    workers = client.run(peak_mb)
    where = f"dask, {len(workers)} workers"
    line = line_of(where, job, n, seconds, core_seconds, max(workers.values()), **{"bytes to client": client.came})
    print(line, flush=True)
    return result


def run(folder: str, n: int, n_workers: int) -> None:
    """Measure all jobs on so many workers."""
    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0}
    with distributed.LocalCluster(**options) as cluster, RowWeights(cluster) as client:
        rows = dd.read_parquet(folder, split_row_groups=False)
        wanted = rows[[*COLUMNS, "y"]]
        lengths = wanted.map_partitions(length, meta=pd.Series([], dtype=int))
        warm = aptset.dask.calibrate(rows.partitions[:1], "y", prefix="p_", random_state=0)  # workers import first
        aptset.dask.predict_set(rows.partitions[:1], warm, prefix="p_")["size"].sum().compute()
        measured(client, "reading alone", n, lambda: int(lengths.sum().compute()))
        common = {"prefix": "p_", "random_state": 0}
        made = measured(client, "calibrate", n, lambda: aptset.dask.calibrate(rows, "y", **common))
        grid = {**common, "resolution": 2**-20}
        measured(client, "calibrate on a grid", n, lambda: aptset.dask.calibrate(rows, "y", **grid))
        sets = aptset.dask.predict_set(rows, made, prefix="p_")
        measured(client, "predict", n, lambda: int(sets["size"].sum().compute()))


def main(n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), n)
        for n_workers in (1, 2):
            run(folder, n, n_workers)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
