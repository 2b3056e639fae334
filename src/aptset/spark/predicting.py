"""Predict on a Spark frame: the same rows with their sets, worked out where they are, when Spark asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import IntegerType, StructField, StructType

from aptset.arrow.predicting import SetMaker, maker_for
from aptset.arrow.settings import Columns, Predicting
from aptset.calibration.calibration import Calibration
from aptset.spark.frames import Frame, make_sets


def predict_set(
    frame: Any,
    calibration: Calibration,
    *,
    alpha: float | Sequence[float] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
) -> Any:
    """Return a Spark DataFrame with the rows of another one and their prediction sets; nothing is computed yet.

    Parameters
    ----------
    frame : DataFrame
        Of Spark, with probabilities as in :func:`calibrate`.
    calibration : Calibration
        Of :func:`calibrate`, :func:`aptset.calibrate` or a file.
    alpha, prefix, groups, ids, normalize, logits, allow_empty
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
    settings = Predicting(alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty)
    maker = maker_for(calibration, rows.arrow_schema, columns, settings)
    return rows.on_partitions(rows.frame.columns, partial(make_sets, maker), _made_schema(maker, rows))


def _made_schema(maker: SetMaker, rows: Frame) -> StructType:
    """Return the schema of the sets as Spark has it: columns that travel along keep all that Spark knows of them."""
    known, names = {field.name: field for field in rows.frame.schema.fields}, maker.schema.names
    kept, added = names[: -2 * len(maker.levels)], names[-2 * len(maker.levels) :]
    types = IntegerType(), from_arrow_type(maker.schema.field(added[1]).type)
    of_sets = [StructField(name, types[place % 2]) for place, name in enumerate(added)]
    return StructType([*(known[name] for name in kept), *of_sets])
