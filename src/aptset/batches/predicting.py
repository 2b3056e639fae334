"""Predict on batches: sets beside the columns that travel along, one piece at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from aptset.batches.checks import check_first_batch
from aptset.batches.sets import maker_for
from aptset.batches.settings import Columns, Predicting
from aptset.batches.sources import Source, peeked
from aptset.probabilities.calibration import Calibration


def predict_batches(
    batches: Any,
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
    u: Literal["fresh"] | np.random.Generator | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of record batches with their prediction sets, worked out as they are read.

    Parameters
    ----------
    batches : table, stream, iterable of batches, or function
        As in :func:`calibrate_batches`; one look is enough.
    calibration : Calibration
        Of :func:`calibrate_batches`, :func:`calibrate` or a file.
    alpha : float or sequence of float, optional
        The levels; by default those that the calibration has, or 0.1.
    probabilities, prefix, groups, ids
        The columns, as in :func:`calibrate_batches`. Columns of probabilities go by name, lists by the order of the
        classes.
    normalize, logits, allow_empty
        As in :meth:`Calibration.predict_set`.
    u : "fresh" or numpy Generator, optional
        New randomness in every call, as in :meth:`Calibration.predict_set`; by default a keyed hash of each row, and of
        which copy it is among all rows.

    Returns
    -------
    pyarrow.RecordBatchReader
        Every column that holds no probabilities, then ``size`` and ``set`` (a list of labels, most likely first), with
        several levels ``size 0.1`` and ``set 0.1`` and so on. polars, duckdb and others take it as it is;
        ``read_all()`` makes a table of it.

    Examples
    --------
    >>> import aptset, pyarrow
    >>> table = pyarrow.table({"p": [[0.9, 0.1], [0.2, 0.8]] * 30, "truth": [0, 1] * 30})
    >>> calibration = aptset.calibrate_batches(table, labels="truth", resolution=2**-20, random_state=0)
    >>> aptset.predict_batches(table, calibration).read_all().column_names
    ['truth', 'size', 'set']
    """
    first, all_batches = peeked(Source.of(batches).batches())
    columns = Columns(probabilities, prefix, groups, ids)
    settings = Predicting(alpha=alpha, normalize=normalize, logits=logits, allow_empty=allow_empty, u=u)
    make = maker_for(calibration, check_first_batch(first), columns, settings)
    return pa.RecordBatchReader.from_batches(make.schema, make(all_batches))
