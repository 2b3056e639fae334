"""Columns of data frames: as ``fit`` saw them, and as models take them.

New rows go by the names of their columns, whatever order and container they come in, so that a row of a service is the
row of the notebook: the same u, and the same model input. Transformers of texts, dates and words are safe to be saved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from aptset.core.dates import dates_of
from aptset.core.labels import TRUTH
from aptset.core.row_seeds import is_missing
from aptset.core.store import unstorable
from aptset.core.tables import Backend, is_table, iterate_columns, library_of, names_of_columns

# What the libraries of frames call one and the same type.
_TYPES = {
    "double": "float64",
    "float": "float32",
    "halffloat": "float16",
    "boolean": "bool",
    **dict.fromkeys(("categorical", "enum", "dictionary"), "category"),
    **dict.fromkeys(("str", "string", "large_string", "utf8"), "text"),
}
NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")


def missing_columns(missing: Sequence[Any], names: Sequence[Any], where: str = "") -> ValueError:
    """Return the error about rows without some of the columns of ``fit``."""
    named = ", ".join(repr(name) for name in missing[:5]) + (", ..." if len(missing) > 5 else "")
    got = ", ".join(repr(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")
    return ValueError(
        f"X must have every column that fit saw; {named} is missing{where} (got {got}). Pass a null for a value that "
        "is not known, or an array to go by position."
    )


class ColumnOfFit(NamedTuple):
    """One column: its name, the type of its values, and what else the values themselves do not say.

    ``categories`` are those of a pandas category, in their order; ``has_none`` is True where texts that are missing
    were None, and not NaN.
    """

    name: Any
    kind: str
    categories: list[Any] | None = None
    ordered: bool = False
    has_none: bool = False


class NamedColumns:
    """The columns that models see, in their order; without any, X had no names, and rows go by position."""

    def __init__(self, columns: Sequence[ColumnOfFit] = (), library: Backend | None = None) -> None:
        self.columns, self.library = list(columns), library
        self.names = [column.name for column in self.columns]

    @classmethod
    def of(cls, X: Any, model: Any = None) -> NamedColumns:
        """Return the columns of a frame, or those of them that a fitted model asks for; none of rows without names."""
        names = names_of_columns(X) if is_table(X) else []
        if not _can_be_kept(names):
            return cls()
        model_names = [] if model is None else _names_of_model(model, names)
        missing = [name for name in model_names if name not in names]
        if missing:
            raise missing_columns(missing, names)
        kinds = dict(zip(names, _kinds_of(X), strict=True)) if names else {}
        return cls([_column_of(X, name, kinds[name]) for name in model_names or names], library_of(X))

    @classmethod
    def of_json(cls, stored: dict[str, Any]) -> NamedColumns:
        """Return the columns that were written."""
        return cls([ColumnOfFit(*column) for column in stored["columns"]], stored["library"])

    @property
    def names_as_array(self) -> NDArray[Any] | None:
        """The names as scikit-learn keeps them; None where they are no texts."""
        return np.array(self.names, dtype=object) if self.columns and isinstance(self.names[0], str) else None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"library": self.library, "columns": [list(column) for column in self.columns]}

    def in_front(self, X: Any) -> Any:
        """Return a frame with these columns first, as ``fit`` had them, and others behind; any other rows as they are.

        Records, a list of dictionaries, become a frame, and frames of another library one of the library of ``fit``:
        models tell a null of polars from a NaN of pandas.
        """
        if not self.columns:
            return X
        if isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(row, Mapping) for row in X):
            X = self._of_records(X)
        if not is_table(X):
            return X
        names = names_of_columns(X)
        known = set(names)
        missing = [name for name in self.names if name not in known]
        if missing:
            raise missing_columns(missing, names)
        twice = [name for name in self.names if names.count(name) > 1] if len(known) < len(names) else []
        if twice:
            raise ValueError(f"X must have each column once; {twice[0]!r} comes {names.count(twice[0])} times.")
        if names[: len(self.names)] != self.names:
            known = set(self.names)
            X = _select(X, [*self.names, *(name for name in names if name not in known)])
        if self.library not in (None, library_of(X)):
            X = _frame_of(dict(zip(names_of_columns(X), iterate_columns(X), strict=True)), self.library)
        return self._as_at_fit(X)

    def only(self, X: Any) -> Any:
        """Return what stands in front: the columns of ``fit`` alone."""
        if not self.columns or not is_table(X) or len(names_of_columns(X)) == len(self.names):
            return X
        return _select(X, self.names)

    def _of_records(self, records: Sequence[Mapping[Any, Any]]) -> Any:
        for row, record in enumerate(records):
            missing = [name for name in self.names if name not in record]
            if missing:
                raise missing_columns(missing, list(record), f" in row {row}")
        others = [name for name in records[0] if name not in set(self.names)]
        columns = {name: [record.get(name) for record in records] for name in (*self.names, *others)}
        return _frame_of(columns, self.library)

    def _as_at_fit(self, X: Any) -> Any:
        """Return the frame with the types that the columns had, wherever that changes no value."""
        kinds = _kinds_of(X)
        changed = {
            column.name: values
            for column, kind in zip(self.columns, kinds, strict=False)
            if kind != column.kind or (column.kind in ("text", "category") and hasattr(X, "iloc"))
            if (values := _retyped(X, column, kind)) is not None
        }
        if not changed:
            return X
        if hasattr(X, "iloc"):
            X = X.copy(deep=False)
            for name, values in changed.items():
                X[name] = values
            return X
        import narwhals.stable.v2 as nw

        return nw.from_native(X, eager_only=True).with_columns(*changed.values()).to_native()


def _frame_of(columns: dict[Any, Any], library: Backend | None) -> Any:
    """Return a frame of the library of ``fit``; values that are missing are its own."""
    if library in ("polars", "pyarrow"):
        import narwhals.stable.v2 as nw

        listed = {str(name): [None if is_missing(cell) else cell for cell in cells] for name, cells in columns.items()}
        return nw.from_dict(listed, backend=library).to_native()
    import pandas as pd

    return pd.DataFrame(columns)


def _can_be_kept(names: list[Any]) -> bool:
    """Tell whether columns can go by name: texts, or whole numbers, each once."""
    kinds = {str if isinstance(name, str) else int if type(name) is int else None for name in names}
    return kinds in (set(), {str}, {int}) and len(set(names)) == len(names)


def _names_of_model(model: Any, names: list[Any]) -> list[Any]:
    """Return the names that a fitted model asks for, as the frame spells them; none if it goes by position."""
    model_names = None
    for attribute in ("feature_names_", "feature_names_in_"):
        with suppress(Exception):  # models that are not scikit-learn's refuse in ways of their own
            own = getattr(model, attribute, None)
            model_names = model_names if own is None else own
    if model_names is None:
        return []
    spelled = {_underscored(name): name for name in names}  # as LightGBM keeps names that hold blanks
    wanted = [
        name if name in names else spelled.get(_underscored(name), name) for name in np.asarray(model_names).tolist()
    ]
    return wanted if set(wanted) & set(names) else []


def _underscored(name: Any) -> str:
    return "_".join(str(name).split())


def _select(X: Any, names: list[Any]) -> Any:
    if hasattr(X, "iloc"):
        return X[names]
    import narwhals.stable.v2 as nw

    return nw.from_native(X, eager_only=True).select(names).to_native()


def _kinds_of(X: Any) -> list[str]:
    """Return one word for the type of each column, whatever library it is of."""
    types = X.schema.types if hasattr(X, "column_names") else X.dtypes
    words = (re.split(r"[(\[<]", str(kind).lower(), maxsplit=1)[0] for kind in types)
    return [_TYPES.get(word, word) for word in words]


def _column_of(X: Any, name: Any, kind: str) -> ColumnOfFit:
    """Look at one column of the frame that came to ``fit``."""
    if not hasattr(X, "iloc"):
        return ColumnOfFit(name, kind)
    values = X[name]
    if kind == "category":
        categories = values.cat.categories.tolist()
        return ColumnOfFit(name, kind, None if unstorable(categories) else categories, bool(values.cat.ordered))
    if kind == "object":
        present = values.dropna()
        is_text = len(present) > 0 and all(isinstance(value, str) for value in present)
        has_none = is_text and any(value is None for value in values)
        return ColumnOfFit(name, "text" if is_text else kind, has_none=has_none)
    return ColumnOfFit(name, kind)


def _retyped(X: Any, column: ColumnOfFit, kind: str) -> Any:
    """Return the values of a column in the type that it had at ``fit``; None where they stay as they are."""
    if not hasattr(X, "iloc"):
        return _retyped_elsewhere(X, column, kind)
    values = X[column.name]
    if column.kind in NUMBERS:
        return _as_numbers(values, column.kind, kind)
    if column.kind == "category":
        return _as_category(values, column)
    if column.kind == "text":
        return _as_text(values, column, kind)
    if column.kind.startswith("datetime") and kind in ("text", "object"):
        import pandas as pd

        with suppress(ValueError, TypeError):  # not written as JSON has dates (ISO 8601)
            return pd.to_datetime(values, format="ISO8601")
    return None


def _as_numbers(values: Any, wanted: str, kind: str) -> Any:
    """Return numbers of the wanted type; as float64 where some are missing, None where some are no numbers."""
    if kind in NUMBERS:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    elif kind == "object" and all(is_missing(cell) or isinstance(cell, Real | Decimal | np.bool_) for cell in values):
        numbers = np.array([math.nan if is_missing(cell) else float(cell) for cell in values])
    else:
        return None
    with np.errstate(all="ignore"):
        cast = numbers.astype(wanted)
    same = np.array_equal(cast.astype(np.float64), numbers, equal_nan=True)
    return type(values)(cast if same else numbers, index=values.index)


def _as_category(values: Any, column: ColumnOfFit) -> Any:
    """Return a category with the categories of ``fit`` in their order, then those that it did not see."""
    import pandas as pd

    if column.categories is None:
        return None
    if hasattr(values, "cat") and values.cat.categories.tolist() == column.categories:
        is_same = bool(values.cat.ordered) == column.ordered
        return None if is_same else values.cat.set_categories(column.categories, ordered=column.ordered)
    listed = [None if is_missing(value) else value for value in values.tolist()]
    known = set(column.categories)
    others = [value for value in dict.fromkeys(listed) if value is not None and value not in known]
    categories = [*column.categories, *others]
    return pd.Series(pd.Categorical(listed, categories, ordered=column.ordered), index=values.index)


def _as_text(values: Any, column: ColumnOfFit, kind: str) -> Any:
    """Return texts as ``fit`` had them: missing ones None or NaN, as they were there."""
    if (kind == "text" and not column.has_none) or kind not in ("text", "object", "category"):
        return None
    listed = [None if is_missing(value) else value for value in values.tolist()]
    if not all(value is None or isinstance(value, str) for value in listed):
        return None
    if column.has_none:
        return type(values)(listed, index=values.index, dtype=object)
    blank = [np.nan if value is None else value for value in listed]
    return type(values)(blank, index=values.index, dtype=type(values)(["text"]).dtype)


def _retyped_elsewhere(X: Any, column: ColumnOfFit, kind: str) -> Any:
    """Return a column of polars or pyarrow in the type that it had at ``fit``; None where it stays as it is."""
    import narwhals.stable.v2 as nw

    values = nw.from_native(X, eager_only=True)[column.name]
    if column.kind in NUMBERS and kind in (*NUMBERS, "null"):
        name = {"bool": "Boolean"}.get(column.kind, column.kind.replace("int", "Int").replace("float", "Float"))
        wanted = getattr(nw, name.replace("uI", "UI"))
    elif column.kind in ("text", "category") and kind in ("text", "category", "null"):
        wanted = nw.String if column.kind == "text" else nw.Categorical
    else:
        return None
    try:
        cast = values.cast(wanted)
    except Exception:  # each library has errors of its own for values that do not fit
        return None
    pairs = zip(cast.to_list(), values.to_list(), strict=True)
    is_same = column.kind not in NUMBERS or all(a == b or (is_missing(a) and is_missing(b)) for a, b in pairs)
    return cast if is_same else None


def are_stored_features(stored: Any) -> bool:
    """Tell whether this is what ``as_json`` writes."""
    columns, types = stored.get("columns"), (str | int, str, list | None, bool, bool)
    return (
        stored.keys() == {"library", "columns"}
        and stored["library"] in (None, "pandas", "polars", "pyarrow")
        and isinstance(columns, list)
        and all(isinstance(column, list) and len(column) == 5 for column in columns)
        and all(isinstance(value, kind) for column in columns for value, kind in zip(column, types, strict=True))
        and _can_be_kept([column[0] for column in columns])
    )


class AsText(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn categories, booleans and numbers into plain texts, missing ones into NaN; "true" and True are the same."""

    def fit(self, X: Any, y: Any = None) -> AsText:
        """Learn nothing but the names."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return an array of texts."""
        columns = [[text_of(value) for value in X.iloc[:, j].tolist()] for j in range(X.shape[1])]
        return np.array(columns, dtype=object).T.reshape(X.shape)


class DateParts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn dates into numbers: the year, the month, and the age in days before the latest date that trained.

    Parameters
    ----------
    formats : list of str
        How each column writes its dates: year first, day first or month first.
    """

    def __init__(self, formats: Sequence[str] = ()) -> None:
        self.formats = formats

    def fit(self, X: Any, y: Any = None) -> DateParts:
        """Note the latest date of each column."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        days = [self._days(X, j) for j in range(X.shape[1])]
        self.latest_ = np.array([np.nanmax(day) if np.isfinite(day).any() else 0.0 for day in days])
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return three numbers for each column."""
        parts = []
        for j in range(X.shape[1]):
            dates = dates_of(X.iloc[:, j], self.formats[j])
            parts += [dates.dt.year, dates.dt.month, self.latest_[j] - self._days(X, j)]
        return np.column_stack([np.asarray(part, dtype=np.float64) for part in parts])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return what each number is."""
        parts = ("year", "month", "age in days")
        return np.array([f"{name} ({part})" for name in self.feature_names_in_ for part in parts], dtype=object)

    def _days(self, X: Any, j: int) -> NDArray[np.float64]:
        """Return days since 1970, missing ones NaN."""
        since = dates_of(X.iloc[:, j], self.formats[j]) - np.datetime64("1970-01-01")
        return np.asarray(since.dt.total_seconds(), dtype=np.float64) / 86400.0


class OneText(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the one column of a table into a list of texts, missing ones empty, as counters of words take them."""

    def fit(self, X: Any, y: Any = None) -> OneText:
        """Learn nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> list[str]:
        """Return the texts."""
        texts = (text_of(value) for value in X.iloc[:, 0].tolist())
        return [text if isinstance(text, str) else "" for text in texts]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names that came in."""
        return input_features


def text_of(value: Any) -> Any:
    """Return a value as text, NaN for a missing one."""
    return np.nan if is_missing(value) else str(TRUTH.get(str(value).lower(), value))
