"""Sets for the rows of a dask collection, worked out by the workers when somebody asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dask
import dask.dataframe
import pandas as pd
import pyarrow as pa

from aptset.arrow.predicting import SetMaker, maker_for
from aptset.arrow.settings import Columns, Predicting
from aptset.calibration.calibration import Calibration
from aptset.dask.partitions import ArrayReader, FrameReader, partitions_of


def predict_set(
    rows: Any,
    calibration: Calibration,
    *,
    alpha: float | Sequence[float] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: Any = None,
    ids: Any = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
) -> Any:
    """Return the rows of a dask DataFrame or array with their prediction sets; nothing is computed yet.

    Parameters
    ----------
    rows : dask DataFrame or dask array
        As in :func:`calibrate`.
    calibration : Calibration
        Of :func:`calibrate`, of :func:`aptset.calibrate_batches` or from a file. One of :func:`aptset.calibrate` does
        as well, and goes to the workers with all its scores.
    alpha : float or sequence of float, optional
        The levels; by default those that the calibration has, or 0.1.
    probabilities, prefix, groups, ids
        The columns, as in :func:`calibrate`; beside an array, groups and ids are arrays. Columns of probabilities go by
        name, lists and arrays by the order of the classes.
    normalize, logits, allow_empty
        As in :meth:`Calibration.predict_set`.

    Returns
    -------
    dask DataFrame
        With the partitions and the index of ``rows``, every column that holds no probabilities as it is, then ``size``
        (int32) and ``set``: a list of labels, most likely first, of pandas' type for lists of Arrow,
        ``pandas.ArrowDtype(pyarrow.list_(...))``. With several levels the columns are ``size 0.1``, ``set 0.1`` and so
        on. Of an array the index numbers the rows, if the lengths of its blocks are known.

    Notes
    -----
    ``to_parquet`` writes the lists as they are, for pyarrow, polars, duckdb and Spark. pandas reads such a file with
    ``dtype_backend="pyarrow"`` only; for readers without it write
    ``sets.astype({"set": object}).to_parquet(path, schema=None)``.

    Examples
    --------
    >>> import aptset, aptset.dask, dask.array, numpy
    >>> p = numpy.random.default_rng(0).dirichlet([1, 1, 1], size=1000)
    >>> calibration = aptset.calibrate(p, p.argmax(axis=1), random_state=0)
    >>> sets = aptset.dask.predict_set(dask.array.from_array(p, chunks=(300, 3)), calibration, alpha=0.2)
    >>> sets.columns.tolist(), sets.npartitions
    (['size', 'set'], 4)
    >>> sets["size"].compute().tolist() == calibration.predict_set(p, 0.2).sizes.tolist()
    True
    """
    columns = {"groups": groups, "ids": ids}
    partitions, names = partitions_of(rows, columns, probabilities, prefix, calibration.classes)
    settings = Predicting(alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty)
    make = maker_for(calibration, partitions.schema, Columns(**names), settings)
    sets_alone = replace(make, schema=pa.schema(list(make.schema)[-2 * len(make.levels) :]))
    work = _MakingSets(sets_alone, partitions.reader(make.layout.read))
    shared = dask.delayed(work, traverse=False)
    cut = zip(partitions.first_rows, partitions.blocks(), strict=True)
    parts = [dask.delayed(_make_sets)(shared, number, first, *some) for number, (first, some) in enumerate(cut)]
    meta = work(0, 0, *partitions.empty())
    return dask.dataframe.from_delayed(parts, meta, partitions.divisions, "sets", verify_meta=False)


class _MakingSets:
    """What every worker needs; dask looks into tuples and dataclasses, and not into this."""

    def __init__(self, make: SetMaker, reader: FrameReader | ArrayReader) -> None:
        self.make, self.reader = make, reader

    def __call__(self, number: int, first_row: int, *blocks: Any) -> pd.DataFrame:
        """Return what travels along of a partition, with its sets."""
        made = pa.Table.from_batches(self.make(self.reader(*blocks), number), self.make.schema)
        rest = self.reader.rest(self.make.layout.columns, first_row, *blocks)
        return rest.assign(**{name: _as_values(made[name]) for name in made.column_names})


def _make_sets(work: _MakingSets, number: int, first_row: int, *blocks: Any) -> pd.DataFrame:
    """Return a partition with its sets; tasks are called by this name."""
    return work(number, first_row, *blocks)


def _as_values(column: pa.ChunkedArray) -> Any:
    """Return a column as pandas holds it: whole numbers as numpy's, lists as Arrow's."""
    return pd.arrays.ArrowExtensionArray(column) if pa.types.is_list(column.type) else column.to_numpy()
