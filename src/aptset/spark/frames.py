"""Spark frames as batches of Arrow: which columns go to the workers, as what, and how classes are called."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, functions

from aptset.arrow.checks import check_distinct_names
from aptset.arrow.predicting import BatchPredictor
from aptset.arrow.sources import peeked
from aptset.core.labels import as_labels, check_classes


def check_frame(frame: Any) -> None:
    """Refuse what is no frame of Spark."""
    if not hasattr(frame, "mapInArrow"):
        raise TypeError(
            f"frame must be a DataFrame of Spark; got {type(frame).__name__}. Tables and frames on one machine go to "
            "aptset.calibrate_batches and aptset.predict_batches."
        )


def check_class_names(names: Sequence[str], width: int | None, labels: str) -> None:
    """Refuse names of indices that are not those of the probabilities."""
    if width is not None and len(names) != width:
        raise ValueError(
            f"classes must be passed: the indices of column {labels!r} have {len(names)} names, and rows have {width} "
            "probabilities. Pass the name of each of them, in order."
        )


def check_calibration(calibration: Any) -> Any:
    """Return the calibration of a model, which must have one."""
    if calibration is None:
        raise ValueError(
            "calibration must be there before there are sets; got None. Fit ConformalSets, or pass what "
            "aptset.spark.calibrate returned."
        )
    return calibration


def check_saved_class(saved: str, wanted: str) -> None:
    """Refuse a folder that holds something else."""
    if saved != wanted:
        raise ValueError(f"path must hold a {wanted}; it holds a {saved}. Load it with that.")


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


def make_sets(maker: BatchPredictor, batches: Batches, number: int | None) -> Batches:
    """Make the sets of a partition; columns that travel along keep the types that they come with."""
    first, rows = peeked(batches)
    if first is None:
        return
    fields = {field.name: field for field in first.schema}
    schema = pa.schema([fields.get(field.name, field) for field in maker.schema])
    yield from replace(maker, schema=schema)(rows, number)


PROBABILITY = "probability"  # what Spark ML calls it
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")


@dataclass(frozen=True)
class Frame:
    """A Spark frame whose probabilities are numbers or arrays; ``given`` is what it was made of."""

    frame: DataFrame
    given: DataFrame
    probabilities: str | Sequence[str] | None

    @classmethod
    def of(cls, given: Any, probabilities: str | Sequence[str] | None, prefix: str | None) -> Frame:
        """Turn a vector of probabilities into an array: the column that is named, or else Spark ML's."""
        check_frame(given)
        check_distinct_names(given.columns)
        if probabilities is None and prefix is None and _is_vector(given, PROBABILITY):
            probabilities = PROBABILITY
        if not isinstance(probabilities, str) or not _is_vector(given, probabilities):
            return cls(given, given, probabilities)
        array = vector_to_array(column(probabilities)).alias(probabilities)
        columns = [array if name == probabilities else column(name) for name in given.columns]
        return cls(given.select(columns), given, probabilities)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as Arrow has them; neither is a row looked at nor a plan made."""
        return self.frame.sparkSession.createDataFrame([], self.frame.schema).toArrow().schema

    def on_partitions(self, names: Sequence[str], work: Work, made: Any) -> DataFrame:
        """Return the frame of what ``work`` makes of the batches of each partition, and its number."""
        number = functions.spark_partition_id()  # not the task's: coalesce() runs several partitions in one task
        plain = [column(name).alias(f"c{place}") for place, name in enumerate(names)]  # mapInArrow fails on dots

        def run(batches: Batches) -> Batches:
            return run_on_partition(work, tuple(names), batches)

        return self.frame.select(*plain, number.alias("partition")).mapInArrow(run, made)

    def class_names(self, array: str, labels: str, classes: Any) -> tuple[Any, Any]:
        """Return the classes of an array column, and where labels are indices what these are called.

        Spark ML notes beside its columns how many classes there are, and beside labels that it indexed their names.
        """
        field = self.given.schema[labels]
        is_number = field.dataType.typeName() != "string"
        if classes is not None:
            known = as_labels(classes, "classes")
            are_indices = is_number and all(map(_is_name, known.tolist()))
            return (range(len(known)), check_classes(known, len(known), None, [])) if are_indices else (known, None)
        width = self._width(array)
        names = field.metadata.get("ml_attr", {}).get("vals") if is_number else None
        if names is not None:
            check_class_names(names, width, labels)
            names = check_classes(names, len(names), None, [])
        return (None if width is None else range(width)), names

    def _width(self, array: str) -> int | None:
        """Return how many probabilities a row has; None if there is no row."""
        known = self.given.schema[array].metadata.get("ml_attr", {}).get("num_attrs")
        if known is not None:
            return int(known)
        row = self.frame.where(column(array).isNotNull()).select(functions.size(column(array))).first()
        return None if row is None else int(row[0])


def _is_vector(frame: DataFrame, name: str) -> bool:
    return name in frame.columns and isinstance(frame.schema[name].dataType, VectorUDT)


def _is_name(label: Any) -> bool:
    """Return whether a class is a text that no number can stand for, so that numbers must be indices."""
    return isinstance(label, str) and _NUMBER.fullmatch(label.strip()) is None


def column(name: str) -> Any:
    """Return a column by its name, whatever signs are in it."""
    return functions.col("`" + name.replace("`", "``") + "`")
