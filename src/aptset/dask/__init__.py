"""Calibrate on dask collections and predict on them, where the rows are; it needs dask, which is an extra.

>>> import aptset.dask, dask.dataframe, pandas
>>> probabilities = {"p_cat": [0.9, 0.2, 0.6] * 40, "p_dog": [0.1, 0.8, 0.4] * 40}
>>> rows = pandas.DataFrame({**probabilities, "y": ["cat", "dog", "dog"] * 40})
>>> frame = dask.dataframe.from_pandas(rows, npartitions=3)  # or dask.dataframe.read_parquet("s3://bucket/validation/")
>>> calibration = aptset.dask.calibrate(frame, "y", prefix="p_", random_state=0)
>>> sets = aptset.dask.predict_set(frame, calibration, prefix="p_")
>>> sets.dtypes["set"]
list<item: string>[pyarrow]
"""

from __future__ import annotations

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("dask") is None:
    raise ModuleNotFoundError(f"aptset.dask needs dask: {install('dask')}")

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dask
import dask.dataframe
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from aptset import Assurance, Calibration
from aptset.arrow import ThresholdSearch, merge_states
from aptset.arrow.calibrating import Calibrating, Conformity, search_for
from aptset.arrow.layout import Columns
from aptset.arrow.predicting import BatchPredictor, Predicting, maker_for
from aptset.core.validate import answers_foreign_keywords
from aptset.dask.partitions import ArrayReader, FrameReader, partitions_of

__all__ = ["calibrate", "predict_set"]
_MERGED_AT_ONCE = 8


@answers_foreign_keywords
def calibrate(
    rows: Any,
    labels: Any,
    *,
    alpha: float | Sequence[float] = 0.1,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    classes: ArrayLike | None = None,
    groups: Any = None,
    ids: Any = None,
    conformity: Conformity = "adaptive",
    resolution: float | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    normalize: bool = False,
    logits: bool = False,
    random_state: Any = None,
    buckets: int = 2**18,
) -> Calibration:
    """Calibrate on a dask DataFrame or array, on the workers: no row and no score comes to the client.

    Workers count the scores of their partitions by their bits, counts are merged in a tree on the cluster, and one
    state of a megabyte or less comes back in each pass. There is one pass up to ``buckets`` different scores, two as a
    rule beyond that, and the rows are computed anew in each: ``persist()`` them if they fit, or write them down, if
    that is dear. Thresholds are exact, those of :func:`aptset.calibrate` on all rows, however they are partitioned.

    Parameters
    ----------
    rows : dask DataFrame or dask array
        A frame with one column of probabilities for each class, or one column of lists; or an array of shape
        (rows, classes).
    labels : str or array
        The column of true labels; beside an array, an array of them (of dask, or not).
    alpha, probabilities, prefix, classes, conformity, resolution, buckets
        As in :func:`aptset.calibrate_batches`. Arrays have neither ``probabilities`` nor ``prefix``. Where pandas does
        not tell that a column holds lists, or nothing tells how long they are, one partition is looked at first.
    groups : None, "label", str or array, optional
        Calibrate within groups: "label" for every true label, else the column (or the array) with the group of each
        row.
    ids : str or array, optional
        The column (or the array) with an id for each row: u then comes from the id alone. Without it u comes from the
        content of a row, and for copies of a row from where they stand in their partition.
    randomized, allow_empty, normalize, logits, random_state
        As in :func:`aptset.calibrate`.

    Returns
    -------
    Calibration
        As of :func:`aptset.calibrate_batches`: it is small, can be saved, and predicts anywhere.

    Examples
    --------
    >>> import aptset, aptset.dask, dask.array, numpy
    >>> generator = numpy.random.default_rng(0)
    >>> p, y = generator.dirichlet([1, 1, 1], size=1000), generator.integers(0, 3, 1000)
    >>> rows = dask.array.from_array(p, chunks=(300, 3))
    >>> calibration = aptset.dask.calibrate(rows, y, random_state=0)
    >>> calibration.threshold() == aptset.calibrate(p, y, random_state=0).threshold()
    True
    """
    columns = {"labels": labels, "groups": groups, "ids": ids}
    partitions, names = partitions_of(rows, columns, probabilities, prefix, classes)
    settings = Calibrating(
        alpha, conformity, resolution, randomized, allow_empty, normalize, logits, random_state, buckets
    )
    search = search_for(partitions.schema, Columns(**names, classes=classes), settings)
    wanted = search.scoring.layout.read
    blocks, reader = partitions.blocks(wanted), partitions.reader(wanted)
    while not search.is_done:
        search = search.advance(_merged_state(search, reader, blocks), n_partitions=len(blocks))
    return search.calibration()


def _merged_state(
    search: ThresholdSearch, reader: FrameReader | ArrayReader, blocks: list[tuple[Any, ...]]
) -> pa.RecordBatch:
    """Return the state of all partitions: one small record batch, the root of a tree of merges."""
    shared = dask.delayed(_Counting(search, reader), traverse=False)
    states = [dask.delayed(_count)(shared, number, *block) for number, block in enumerate(blocks)]
    while len(states) > 1:
        starts = range(0, len(states), _MERGED_AT_ONCE)
        states = [dask.delayed(_merge)(states[start : start + _MERGED_AT_ONCE]) for start in starts]
    return states[0].compute()


class _Counting:
    """What every worker needs in a pass; dask looks into tuples and dataclasses, and not into this."""

    def __init__(self, search: ThresholdSearch, reader: FrameReader | ArrayReader) -> None:
        self.search, self.reader = search, reader


def _count(shared: _Counting, number: int, *blocks: Any) -> pa.RecordBatch:
    """Return the state of one partition."""
    return next(shared.search(shared.reader(*blocks), number))


def _merge(states: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the state of several partitions."""
    return next(merge_states(states))


def predict_set(
    rows: Any,
    calibration: Calibration,
    *,
    alpha: float | Mapping[Any, float] | Sequence[float | Mapping[Any, float]] | None = None,
    probabilities: str | Sequence[str] | None = None,
    prefix: str | None = None,
    groups: Any = None,
    ids: Any = None,
    normalize: bool | None = None,
    logits: bool = False,
    allow_empty: bool | None = None,
    assurance: float | Assurance | None = None,
) -> Any:
    """Return the rows of a dask DataFrame or array with their prediction sets; nothing is computed yet.

    Parameters
    ----------
    rows : dask DataFrame or dask array
        As in :func:`calibrate`.
    calibration : Calibration
        Of :func:`calibrate`, of :func:`aptset.calibrate_batches` or from a file. One of :func:`aptset.calibrate` does
        as well, and goes to the workers with all its scores.
    alpha : float, mapping, or sequence of them, optional
        The levels, as in :meth:`Calibration.predict_set`; by default those that the calibration has, or 0.1.
    probabilities, prefix, groups, ids
        The columns, as in :func:`calibrate`; beside an array, groups and ids are arrays. Columns of probabilities go by
        name, lists and arrays by the order of the classes.
    normalize, logits, allow_empty, assurance
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
    settings = Predicting(alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty, assurance=assurance)
    make = maker_for(calibration, partitions.schema, Columns(**names), settings)
    sets_alone = replace(make, schema=pa.schema(list(make.schema)[-2 * len(make.levels) :]))
    work = _MakingSets(sets_alone, partitions.reader(make.layout.read))
    shared = dask.delayed(work, traverse=False)
    cut = zip(partitions.first_rows, partitions.blocks(), strict=True)
    parts = [dask.delayed(_make_sets)(shared, number, first, *block) for number, (first, block) in enumerate(cut)]
    meta = work(0, 0, *partitions.empty())
    return dask.dataframe.from_delayed(parts, meta, partitions.divisions, "sets", verify_meta=False)


class _MakingSets:
    """What every worker needs; dask looks into tuples and dataclasses, and not into this."""

    def __init__(self, make: BatchPredictor, reader: FrameReader | ArrayReader) -> None:
        self.make, self.reader = make, reader

    def __call__(self, number: int, first_row: int, *blocks: Any) -> pd.DataFrame:
        """Return what travels along of a partition, with its sets."""
        table = pa.Table.from_batches(self.make(self.reader(*blocks), number), self.make.schema)
        rest = self.reader.rest(self.make.layout.columns, first_row, *blocks)
        return rest.assign(**{name: _as_values(table[name]) for name in table.column_names})


def _make_sets(work: _MakingSets, number: int, first_row: int, *blocks: Any) -> pd.DataFrame:
    """Return a partition with its sets; tasks are called by this name."""
    return work(number, first_row, *blocks)


def _as_values(column: pa.ChunkedArray) -> Any:
    """Return a column as pandas holds it: whole numbers as numpy's, lists as Arrow's."""
    return pd.arrays.ArrowExtensionArray(column) if pa.types.is_list(column.type) else column.to_numpy()
