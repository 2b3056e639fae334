"""Rows of two places, and the odds between them: what is refused, and what is warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from aptset.data.tables import is_table, names_of_columns
from aptset.kernels.formula import Floats

_LARGEST_ODDS = 1e6


def check_places(X_source: Any, X_target: Any) -> None:
    """Refuse rows of two kinds, or of other columns."""
    tables = is_table(X_source), is_table(X_target)
    if tables[0] != tables[1] or (tables[0] and type(X_source) is not type(X_target)):
        kinds = f"{type(X_source).__name__} and {type(X_target).__name__}"
        raise TypeError(f"X_source and X_target must be of one kind; got {kinds}. Convert one of them.")
    if tables[0] and names_of_columns(X_source) != names_of_columns(X_target):
        raise ValueError(
            f"X_target must have the columns of X_source, {names_of_columns(X_source)}; got "
            f"{names_of_columns(X_target)}. Pass X_target[X_source.columns]."
        )
    shapes = [getattr(some, "shape", None) or np.shape(some) for some in (X_source, X_target)]
    if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise ValueError(
            f"X_source and X_target must be 2-D with the same columns; got shapes {shapes[0]} and {shapes[1]}."
        )


def check_ratio_folds(n_folds: Any, n_source: int, n_target: int) -> int:
    """Return the number of folds: at least 2, and rows of both kinds for each."""
    if isinstance(n_folds, bool) or not isinstance(n_folds, int | np.integer):
        raise TypeError(f"n_folds must be a whole number; got {n_folds!r}. Pass n_folds=5, for instance.")
    fewest = min(n_source, n_target)
    if not 2 <= n_folds <= fewest:
        raise ValueError(
            f"n_folds must be between 2 and the number of rows of either kind, {fewest}; got {n_folds}. Weights from a "
            "model that saw the rows themselves are worthless, so there is no way without folds."
        )
    return int(n_folds)


def check_odds(chances: Floats) -> Floats:
    """Return the odds of chances, within bounds; say where a bound was needed."""
    if not (np.isfinite(chances).all() and (chances >= 0).all() and (chances <= 1).all()):
        row = int(np.argmin((chances >= 0) & (chances <= 1)))
        raise ValueError(f"estimator must give probabilities; got {chances[row]} for row {row} of both kinds together.")
    with np.errstate(divide="ignore"):
        odds = chances / (1 - chances)
    bounded = np.clip(odds, 1 / _LARGEST_ODDS, _LARGEST_ODDS)
    n_bounded = int((bounded != odds).sum())
    if n_bounded:
        warnings.warn(
            f"{n_bounded} of {len(odds)} rows have odds beyond {_LARGEST_ODDS:g} to 1 between source and target: they "
            "were set to that bound, and the promise knows nothing of it. The two are nearly disjoint, or the "
            "estimator is too sure of itself.",
            stacklevel=3,
        )
    return bounded
