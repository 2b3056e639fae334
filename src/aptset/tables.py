"""Data frames of any library, in and out, through narwhals (imported only when a frame comes by)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Backend = Literal["pandas", "polars", "pyarrow"]


def is_table(values: Any) -> bool:
    """Tell whether something is a data frame rather than an array or a nested list."""
    return hasattr(values, "columns") and hasattr(values, "shape")


def columns_of_table(frame: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the values of a data frame as a matrix, and the names of its columns."""
    import narwhals.stable.v2 as nw

    # pandas allows names that are not strings: keep them, they may be the user's labels
    names = np.asarray(frame.columns) if hasattr(frame, "iloc") else None
    table = nw.from_native(frame, eager_only=True)
    values = table.to_numpy()
    if values.dtype == object and all(kind.is_numeric() for kind in table.schema.values()):
        values = values.astype(np.float64)  # pandas' nullable numbers arrive as objects
    return values, np.asarray(table.columns) if names is None else names


def iterate_columns(frame: Any) -> Iterator[NDArray[Any] | list[Any]]:
    """Yield each column: numbers as an array (missing ones NaN), anything else as a list of Python values."""
    import narwhals.stable.v2 as nw

    for column in nw.from_native(frame, eager_only=True).iter_columns():
        is_number = column.dtype.is_numeric() or column.dtype == nw.Boolean
        values = column.to_numpy() if is_number else None
        yield values if values is not None and values.dtype.kind in "fiub" else column.to_list()


def make_table(columns: dict[str, Any], backend: Backend) -> Any:
    """Return a data frame of the named library (pandas, polars, pyarrow) from columns."""
    if backend == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    import narwhals.stable.v2 as nw

    return nw.from_dict(columns, backend=backend).to_native()


def column_values(frame: Any, name: Any) -> list[Any] | None:
    """Return one column of a data frame, or None if there is none of that name."""
    import narwhals.stable.v2 as nw

    if hasattr(frame, "iloc"):
        return plain_list(frame[name]) if name in frame.columns else None
    table = nw.from_native(frame, eager_only=True)
    return table[name].to_list() if name in table.columns else None


def plain_list(values: Any) -> list[Any]:
    """Return the values of an array or a column of any library as a list of Python values."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)
