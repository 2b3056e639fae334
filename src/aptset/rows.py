"""The seed of every row of X, from its content alone: dense, sparse, data frame, texts, anything with a stable repr."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.kernels.rowhash import Words, canonical_words, column_keys, hash_rows, hash_words, keys_of_columns, seeds_of
from aptset.tables import columns_of_table, is_table, iterate_columns
from aptset.validation.labels import refuse_unstable_value


def row_seeds(X: Any, key: int) -> Words:
    """Return one 64-bit seed per row of X.

    Equal content gives equal seeds whatever holds it: an array, a sparse matrix and a data frame of the same numbers
    agree, and so do float32 values and their float64 widening.
    """
    if hasattr(X, "tocsr"):
        return _sparse_seeds(X.tocsr(), key)
    if is_table(X):
        return _table_seeds(X, key)
    values = _as_array(X)
    if values.dtype.kind in "fiub":
        return hash_rows(values.reshape(len(values), -1), key)
    cells = values.reshape(len(values), -1)
    return _seeds_from_columns((cells[:, j].tolist() for j in range(cells.shape[1])), len(cells), key)


def _as_array(X: Any) -> NDArray[Any]:
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], str | bytes | dict):
        return _as_objects(X)  # an array of long texts would pad every text to the longest
    try:
        return np.asarray(X)
    except ValueError:  # rows of different lengths: each row is one value
        return _as_objects(X)


def _as_objects(X: Any) -> NDArray[Any]:
    values = np.empty(len(X), dtype=object)
    values[:] = list(X)
    return values


def _table_seeds(frame: Any, key: int) -> Words:
    values, _ = columns_of_table(frame)
    if values.dtype.kind in "fiub":
        return hash_rows(values, key)
    return _seeds_from_columns(iterate_columns(frame), len(values), key)


def _seeds_from_columns(columns: Iterable[NDArray[Any] | list[Any]], n_rows: int, key: int) -> Words:
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for j, column in enumerate(columns):
        is_numeric = isinstance(column, np.ndarray) and column.dtype.kind in "fiub"
        words = canonical_words(np.asarray(column, dtype=np.float64)) if is_numeric else _words_of_values(column)
        hashes += hash_words(words, keys_of_columns(key, np.array([j])))
    return seeds_of(hashes, key)


def _words_of_values(values: Iterable[Any]) -> Words:
    known: dict[Any, int] = {}

    def word(value: Any) -> int:
        try:
            if value not in known:
                known[value] = _word(value)
            return known[value]
        except TypeError:  # not hashable
            return _word(value)

    return np.fromiter((word(value) for value in values), dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, Real | np.bool_):
        return int(canonical_words(np.array([value], dtype=np.float64))[0])
    if not isinstance(value, str | bytes):
        refuse_unstable_value(value)
        value = repr(value).encode()
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _sparse_seeds(X: Any, key: int) -> Words:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # A cell that is not stored is a zero: start from the hash of an empty row, then swap in what is stored.
    zero = np.zeros(1, dtype=np.uint64)
    empty_row = hash_words(zero, column_keys(key, X.shape[1])).sum(dtype=np.uint64)
    keys = keys_of_columns(key, X.indices)
    words = canonical_words(np.asarray(X.data, dtype=np.float64))
    changes = np.concatenate([zero, np.cumsum(hash_words(words, keys) - hash_words(zero, keys), dtype=np.uint64)])
    return seeds_of(empty_row + changes[X.indptr[1:]] - changes[X.indptr[:-1]], key)
