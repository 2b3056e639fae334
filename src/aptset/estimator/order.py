"""The order in which rows train: one that their content decides, so that fitting is symmetric."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _is_arraylike, _num_samples

from aptset.kernels.rowhash import Words, hash_words, keys_of_columns, mix, seeds_of
from aptset.probabilities.chance.seeds import row_seeds


def canonical_places(X: Any, y: NDArray[Any], fit_params: dict[str, Any], key: int) -> NDArray[np.intp]:
    """Return the place of each row in an order that its content alone decides: X, y, and what else it is fitted with.

    Rows put in this order make any way of fitting a symmetric one. Equal rows may come in either order.
    """
    hashes = np.zeros(len(y), dtype=np.uint64)
    for j, part in enumerate((X, y, *_of_rows(fit_params, len(y)))):
        hashes += hash_words(row_seeds(part, key), keys_of_columns(key, np.array([j])))
    places = np.empty(len(y), dtype=np.intp)
    places[np.argsort(seeds_of(hashes, key), kind="stable")] = np.arange(len(y))
    return places


def pair_seeds(X: Any, y: Any, key: int) -> Words:
    """Return the seed of each row of X together with its entry of y."""
    return mix(row_seeds(X, key) + mix(row_seeds(y, key)))


def _of_rows(fit_params: dict[str, Any], n_rows: int) -> Iterator[Any]:
    """Yield what fitting cuts to its rows: everything with one entry for each."""
    for _, value in sorted(fit_params.items()):
        if (_is_arraylike(value) or issparse(value)) and _num_samples(value) == n_rows:
            yield value
