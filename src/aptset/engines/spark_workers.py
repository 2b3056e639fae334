"""What runs on the workers of Spark: it loads no more of pyspark than a worker has anyhow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

from aptset.batches.sets import SetMaker
from aptset.batches.sources import peeked

Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches, int | None], Batches]


def run_on_partition(work: Work, names: tuple[str, ...], batches: Batches) -> Batches:
    """Do what is to be done with one partition, whose number is in the last column, on the cores of the task."""
    task = TaskContext.get()
    os.environ.setdefault("APTSET_THREADS", str(1 if task is None else task.cpus()))
    number, waiting = None, []
    for batch in batches:
        waiting.append(batch)
        if batch.num_rows:
            number = batch.column(len(names))[0].as_py()
            break
    columns = list(range(len(names)))
    plain = (batch.select(columns).rename_columns(list(names)) for batch in chain(waiting, batches))
    yield from work(plain, number)


def make_sets(maker: SetMaker, batches: Batches, number: int | None) -> Batches:
    """Make the sets of a partition; columns that travel along keep the types that they come with."""
    first, rows = peeked(batches)
    if first is None:
        return
    found = {field.name: field for field in first.schema}
    schema = pa.schema([found.get(field.name, field) for field in maker.schema])
    yield from replace(maker, schema=schema)(rows, number)
