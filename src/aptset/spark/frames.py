"""Calibrate on Spark frames: executors count scores, and one state comes to the driver in each pass."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import IntegerType, StructField, StructType

from aptset import Assurance, Calibration
from aptset.arrow import ThresholdSearch, merge_states
from aptset.arrow.calibrating import Calibrating, Conformity, search_for
from aptset.arrow.layout import ColumnLayout, Columns, check_column, check_distinct_names
from aptset.arrow.predicting import BatchPredictor, Predicting, maker_for
from aptset.arrow.sources import peeked
from aptset.arrow.states import check_rows_found
from aptset.core.labels import as_labels, check_classes
from aptset.core.validate import answers_foreign_keywords


def check_calibration(calibration: Any) -> Any:
    """Return the calibration of a model, which must have one."""
    if calibration is None:
        raise ValueError(
            "calibration must be there before there are sets; got None. Fit ConformalSets, or pass what "
            "aptset.spark.calibrate returned."
        )
    return calibration


Batches = Iterator[pa.RecordBatch]
Work = Callable[[Batches, int | None], Batches]


def run_on_partition(work: Work, names: tuple[str, ...], batches: Batches) -> Batches:
    """Do what is to be done with one partition, whose number is in the last column, on the cores of the task."""
    task = TaskContext.get()
    os.environ.setdefault("APTSET_THREADS", str(1 if task is None else task.cpus()))
    first, rows = peeked(batches)
    number = first.column(len(names))[0].as_py() if first is not None and first.num_rows else None
    columns = list(range(len(names)))
    yield from work((batch.select(columns).rename_columns(list(names)) for batch in rows), number)


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
        if not hasattr(given, "mapInArrow"):
            raise TypeError(
                f"frame must be a DataFrame of Spark; got {type(given).__name__}. Tables and frames on one machine go "
                "to aptset.calibrate_batches and aptset.predict_batches."
            )
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

    def on_partitions(self, names: Sequence[str], work: Work, out_schema: Any) -> DataFrame:
        """Return the frame of what ``work`` makes of the batches of each partition, and its number."""
        number = functions.spark_partition_id()  # not the task's: coalesce() runs several partitions in one task
        plain = [column(name).alias(f"c{place}") for place, name in enumerate(names)]  # mapInArrow fails on dots

        def run(batches: Batches) -> Batches:
            return run_on_partition(work, tuple(names), batches)

        return self.frame.select(*plain, number.alias("partition")).mapInArrow(run, out_schema)

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
            if width is not None and len(names) != width:
                raise ValueError(
                    f"classes must be passed: the indices of column {labels!r} have {len(names)} names, and rows have "
                    f"{width} probabilities. Pass the name of each of them, in order."
                )
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


_KINDS: dict[str, type[Exception]] = {"ValueError": ValueError, "TypeError": TypeError}


# The last line of the worker's traceback. Spark adds its own words behind it, and may repeat the whole.
_SAID = re.compile(rf"^({'|'.join(_KINDS)}): (partition \d+: .*?)(?: SQLSTATE: \w+\)?)?$", re.MULTILINE)
_AWAY = re.compile(r"ModuleNotFoundError: No module named '(aptset|numpy|pyarrow)")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what is wrong with a row as one error that names its partition and row, without the pages of Spark.

    :func:`calibrate` does so by itself. Sets are worked out later, when Spark writes or collects them: do that within
    this context. Errors that are no matter of rows pass as they are.

    Examples
    --------
    >>> import aptset.spark
    >>> with aptset.spark.plain_errors():  # doctest: +SKIP
    ...     sets.write.parquet("sets/")
    Traceback (most recent call last):
    ValueError: partition 3: row 17: probabilities must be at least 0; got -0.5 in column 'cat'.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if said := _SAID.search(text):
            raise _KINDS[said[1]](said[2]) from None
        if away := _AWAY.search(text):
            raise ModuleNotFoundError(
                f"the workers of Spark must have {away[1]}: install aptset there, and let PYSPARK_PYTHON name that "
                "Python."
            ) from None
        raise


_STATE = "state binary"


@answers_foreign_keywords
def calibrate(
    frame: Any,
    labels: str,
    *,
    alpha: float | Sequence[float] = 0.1,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    classes: ArrayLike | None = None,
    groups: str | None = None,
    ids: str | None = None,
    conformity: Conformity = "adaptive",
    resolution: float | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    random_state: Any = None,
    buckets: int = 2**18,
) -> Calibration:
    """Calibrate on a Spark DataFrame, on the executors: no row and no score comes to the driver.

    Executors count the scores of their partitions by their bits, merge the counts, and send one state of a megabyte or
    less to the driver in each pass. There is one pass up to ``buckets`` different scores, two as a rule beyond that,
    and the frame is computed anew in each: ``cache()`` it, or write it down, if that is dear. Thresholds are exact,
    those of :func:`aptset.calibrate` on all rows, however they are partitioned.

    Parameters
    ----------
    frame : DataFrame
        Of Spark, with one column of probabilities for each class, one array column, or the vector column of Spark ML.
    labels : str
        The column of true labels.
    alpha, prefix, ids, conformity, resolution, buckets
        As in :func:`aptset.calibrate_batches`. Without ids, copies of a row get their chance from where they stand in
        their partition: after a shuffle that may be elsewhere in the next pass, which is noticed. Then cache first.
    probabilities : str or sequence of str, optional
        The columns of probabilities, or the one array or vector column. By default the vector column "probability" if
        there is one, else as in :func:`aptset.calibrate_batches`.
    classes : array, optional
        The class of each column, or of each place of an array or a vector. By default the names of the columns; for
        places the names that Spark ML noted beside ``labels`` when it indexed these (sets then hold "cat"), else 0, 1,
        .... Given names beside labels that are numbers, these are their indices; labels that are texts are the names
        themselves (``StringIndexerModel.labels`` says which place is which).
    groups : None, "label" or str, optional
        Calibrate within groups: "label" for every true label, else the column with the group of each row.
    randomized, allow_empty, normalize, logits, random_state
        As in :func:`aptset.calibrate`.

    Returns
    -------
    Calibration
        As of :func:`aptset.calibrate_batches`: it is small, can be saved, and predicts anywhere.

    Examples
    --------
    >>> import aptset.spark
    >>> frame = session.read.parquet("validation/")  # doctest: +SKIP
    >>> aptset.spark.calibrate(frame, "y", prefix="p_", alpha=[0.1, 0.05])  # doctest: +SKIP
    Calibration(n=20000000, 10 classes, Adaptive())
    """
    rows = Frame.of(frame, probabilities, prefix)
    schema = rows.arrow_schema
    check_column(schema.names, labels, "labels")
    columns = Columns(rows.probabilities, prefix, groups, ids, labels)
    names, layout = None, ColumnLayout.of(schema, columns, width=2)
    if layout.holds_lists:
        with plain_errors():
            classes, names = rows.class_names(layout.columns[0], labels, classes)
    settings = Calibrating(
        alpha, conformity, resolution, randomized, allow_empty, normalize, logits, random_state, buckets
    )
    search = search_for(schema, replace(columns, classes=classes), settings)
    while not search.is_done:
        search = search.advance(_merged_state(search, rows))
    return _named(search, names).calibration()


def _merged_state(search: ThresholdSearch, rows: Frame) -> pa.Table:
    """Return the state of all partitions: one row, which executors have merged in two steps."""
    states = rows.on_partitions(search.scoring.layout.read, search, _STATE)
    with plain_errors():
        merged = states.hint("rebalance").mapInArrow(merge_states, _STATE)  # as many tasks as the bytes of states need
        state = merged.repartition(1).mapInArrow(merge_states, _STATE).toArrow()
    check_rows_found(state.num_rows)  # Spark asks no worker where it knows that there is no row
    return state


def _named(search: ThresholdSearch, names: Any) -> ThresholdSearch:
    """Return the search with classes by name, where labels are their indices."""
    if names is None:
        return search
    layout = replace(search.scoring.layout, classes=names)
    return replace(search, scoring=replace(search.scoring, layout=layout))


def predict_set(
    frame: Any,
    calibration: Calibration,
    *,
    alpha: float | Mapping[Any, float] | Sequence[float | Mapping[Any, float]] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
    assurance: float | Assurance | None = None,
) -> Any:
    """Return a Spark DataFrame with the rows of another one and their prediction sets; nothing is computed yet.

    Parameters
    ----------
    frame : DataFrame
        Of Spark, with probabilities as in :func:`calibrate`.
    calibration : Calibration
        Of :func:`calibrate`, :func:`aptset.calibrate` or a file.
    alpha, prefix, groups, ids, normalize, logits, allow_empty, assurance
        As in :func:`aptset.predict_batches`.
    probabilities : str or sequence of str, optional
        The columns of probabilities, or the one array or vector column. By default the vector column "probability" if
        there is one, else as in :func:`aptset.predict_batches`.

    Returns
    -------
    DataFrame
        Every column that holds no probabilities, then ``size`` (int) and ``set`` (an array of labels, most likely
        first), with several levels ``size 0.1`` and ``set 0.1`` and so on. A row that cannot be right stops the job
        that computes it: :func:`plain_errors` says which, in one line.

    Examples
    --------
    >>> import aptset, aptset.spark
    >>> calibration = aptset.load("cal.aptset")  # doctest: +SKIP
    >>> sets = aptset.spark.predict_set(session.read.parquet("new/"), calibration, prefix="p_")  # doctest: +SKIP
    >>> sets.printSchema()  # doctest: +SKIP
    root
     |-- row: long (nullable = true)
     |-- size: integer (nullable = true)
     |-- set: array (nullable = true)
     |    |-- element: string (containsNull = true)
    """
    rows = Frame.of(frame, probabilities, prefix)
    columns = Columns(rows.probabilities, prefix, groups, ids)
    settings = Predicting(alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty, assurance=assurance)
    maker = maker_for(calibration, rows.arrow_schema, columns, settings)
    return rows.on_partitions(rows.frame.columns, partial(make_sets, maker), _made_schema(maker, rows))


def _made_schema(maker: BatchPredictor, rows: Frame) -> StructType:
    """Return the schema of the sets as Spark has it: columns that travel along keep all that Spark knows of them."""
    known, names = {field.name: field for field in rows.frame.schema.fields}, maker.schema.names
    kept, added = names[: -2 * len(maker.levels)], names[-2 * len(maker.levels) :]
    types = IntegerType(), from_arrow_type(maker.schema.field(added[1]).type)
    of_sets = [StructField(name, types[place % 2]) for place, name in enumerate(added)]
    return StructType([*(known[name] for name in kept), *of_sets])
