"""The only room that clones, fits, calls predict_proba and aligns columns by label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from aptset.validation.estimators import check_model_probabilities
from aptset.validation.labels import columns_of

_CHUNK_CELLS = 2**24  # predict_proba is asked for at most this many probabilities at a time
_DROPPED_BITS = 12  # of the 52 of a float64 probability: see `_steady`


def is_frozen(estimator: Any) -> bool:
    """Tell whether the model is fitted already and must stay as it is."""
    return isinstance(estimator, FrozenEstimator)


def fit_model(
    estimator: Any, X: Any, y: NDArray[Any], rows: NDArray[np.intp], fit_params: dict[str, Any], seed: int | None
) -> Any:
    """Fit a clone on some rows; parameters with one value per sample are cut to the same rows."""
    if len(np.unique(y[rows])) == 1:  # nothing to learn, and many classifiers refuse to
        return DummyClassifier(strategy="most_frequent").fit(np.zeros((len(rows), 1)), y[rows])
    model = clone(estimator)
    if seed is not None:
        _seed_unseeded(model, seed)
    return model.fit(_safe_indexing(X, rows), y[rows], **_check_method_params(X, fit_params, indices=rows))


def _seed_unseeded(model: Any, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for name, value in sorted(model.get_params(deep=True).items(), key=lambda item: item[0]):
        if value is None and (name == "random_state" or name.endswith("__random_state")):
            model.set_params(**{name: int(generator.integers(2**31))})


def probabilities_of(model: Any, X: Any, classes: NDArray[Any]) -> NDArray[np.generic]:
    """Return the model's probabilities with one column per class; a class the model never saw gets zeros."""
    given = check_model_probabilities(model, model.predict_proba(X))
    columns = columns_of(np.asarray(model.classes_), classes)
    aligned = given
    if not np.array_equal(columns, np.arange(len(classes))):
        aligned = np.zeros((len(given), len(classes)), dtype=given.dtype)
        aligned[:, columns] = given
    return _steady(aligned)


def _steady(probabilities: NDArray[np.generic]) -> NDArray[np.generic]:
    """Round float64 probabilities to 40 significant bits.

    A matrix product gives a row slightly different last bits in batches of different sizes. Without this, a label that
    stands exactly at the threshold could be in the set of a row in one batch and not in another (docs/design/0004).
    """
    if probabilities.dtype != np.float64:
        return probabilities
    bits = np.ascontiguousarray(probabilities).view(np.int64)
    return (((bits + (1 << (_DROPPED_BITS - 1))) >> _DROPPED_BITS) << _DROPPED_BITS).view(np.float64)


def chunks(n_rows: int, n_classes: int) -> list[NDArray[np.intp]]:
    """Return the row numbers of each piece of X that is predicted at once."""
    step = max(1, _CHUNK_CELLS // n_classes)
    return [np.arange(start, min(start + step, n_rows)) for start in range(0, max(n_rows, 1), step)]


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of X, of whatever kind it is."""
    return _safe_indexing(X, rows)
