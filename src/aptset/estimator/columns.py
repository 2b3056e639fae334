"""Columns of a table as models take them: texts, parts of dates, words. Small transformers, safe to be saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

_TRUTH = {"true": "True", "false": "False"}


class AsText(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn categories, booleans and numbers into plain texts, missing ones into NaN; "true" and True are the same."""

    def fit(self, X: Any, y: Any = None) -> AsText:
        """Learn nothing but the names."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Return an array of texts."""
        return np.array(
            [[text_of(value) for value in X.iloc[:, j].tolist()] for j in range(X.shape[1])], dtype=object
        ).T.reshape(X.shape)


class DateParts(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn dates into numbers: the year, the month, and the age in days before the latest date that trained.

    Parameters
    ----------
    formats : list of str
        How each column writes its dates; "ISO8601" for the standard way.
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
        dates = dates_of(X.iloc[:, j], self.formats[j])
        return days_of(dates)


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
    if np.ndim(value) == 0 and pd.isna(value):
        return np.nan
    text = str(value)
    return _TRUTH.get(text.lower(), text)


def dates_of(column: Any, how: str) -> Any:
    """Return a column of dates, written so or in the standard way; those that cannot be read are missing."""
    dates = read_dates(column, "ISO8601")
    return dates if how == "ISO8601" else dates.fillna(read_dates(column, how))


def read_dates(column: Any, how: str) -> Any:
    """Return a column of dates that are written in one way, without time zones; others are missing."""
    return pd.to_datetime(column, format=how, errors="coerce", utc=True).dt.tz_localize(None)


def days_of(dates: Any) -> NDArray[np.float64]:
    """Return days since 1970, missing ones NaN."""
    seconds = (dates - pd.Timestamp("1970-01-01")).dt.total_seconds()
    return np.asarray(seconds, dtype=np.float64) / 86400.0
