"""The seed of every row: of X from its content alone (dense, sparse, data frame, texts, anything with a stable repr),
or of an id.

What holds the rows, and what the other rows of a batch look like, must not matter: each cell is hashed by itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.tables import is_table, iterate_columns, matrix_of_table
from aptset.kernels.rowhash import Words, canonical_words, column_keys, hash_words, keys_of_columns, mix, seeds_of
from aptset.kernels.rows import hash_rows


def row_seeds(X: Any, key: int) -> Words:
    """Return one 64-bit seed per row of X.

    Equal content gives equal seeds whatever holds it: an array, a sparse matrix and a data frame of the same numbers
    agree, and so do float32 values and their float64 widening.
    """
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype.kind in "fiub":
        return hash_rows(X, key)
    if hasattr(X, "tocsr"):
        return _sparse_seeds(X.tocsr(), key)
    if is_table(X):
        matrix, _ = matrix_of_table(X)
        return _column_seeds(iterate_columns(X), len(X), key) if matrix is None else hash_rows(matrix, key)
    values = _as_numbers(X)
    if values is not None:
        return hash_rows(values.reshape(len(values), -1), key)
    return _cell_seeds(X.tolist() if isinstance(X, np.ndarray) else list(X), key)


def _as_numbers(X: Any) -> NDArray[Any] | None:
    """Return X as an array if all of it is numbers."""
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], str | bytes | dict):
        return None  # an array of long texts would pad every text to the longest
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths
        return None
    return values if values.dtype.kind in "fiub" and values.ndim > 0 else None


def _column_seeds(columns: Iterable[NDArray[Any] | list[Any]], n_rows: int, key: int) -> Words:
    """Seeds of the rows of a table with columns of several kinds."""
    hashes, texts = np.zeros(n_rows, dtype=np.uint64), dict[str, int]()
    for j, column in enumerate(columns):
        if isinstance(column, np.ndarray):
            words = canonical_words(column.astype(np.float64))
        else:
            words = np.fromiter((_word(value, texts) for value in column), dtype=np.uint64, count=n_rows)
        hashes += hash_words(words, keys_of_columns(key, np.array([j])))
    return seeds_of(hashes, key)


def _cell_seeds(rows: list[Any], key: int) -> Words:
    """Seeds of rows that are Python values: texts, dictionaries, lists of any length of anything."""
    texts = dict[str, int]()
    cells = [[_word(cell, texts) for cell in _flat(row)] for row in rows]
    lengths = np.array([len(row) for row in cells])
    stops = np.cumsum(lengths)
    position = np.arange(stops[-1] if len(stops) else 0) - np.repeat(stops - lengths, lengths)
    words = np.array([word for row in cells for word in row], dtype=np.uint64)
    return seeds_of(_sum_by_row(hash_words(words, keys_of_columns(key, position)), np.append(0, stops)), key)


def _flat(row: Any) -> Iterator[Any]:
    if isinstance(row, list | tuple | np.ndarray):
        for cell in row:
            yield from _flat(cell)
    else:
        yield row


def _word(value: Any, texts: dict[str, int]) -> int:
    """Return the 64 bits that stand for one value; texts are looked up if they were met before."""
    if isinstance(value, str):
        if value not in texts:
            texts[value] = _digest(value.encode("utf-8", "surrogatepass"))
        return texts[value]
    if isinstance(value, Real | Decimal | np.bool_) or is_missing(value):
        number = math.nan if is_missing(value) else value
        return int(canonical_words(np.array([number], dtype=np.float64))[0])
    if isinstance(value, bytes):
        return _digest(value)
    return _digest(_content(value).encode("utf-8", "surrogatepass"))


def is_missing(value: Any) -> bool:
    """Tell whether a value is missing: None, NaN, and what pandas calls NA and NaT."""
    if value is None:
        return True
    if isinstance(value, str | bytes | list | tuple | dict | np.ndarray):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA is neither equal nor different
        return type(value).__name__ == "NAType"


def _content(value: Any) -> str:
    """Return a text of what a value holds: dictionaries in the order of their keys, dates as ISO 8601 writes them."""
    if isinstance(value, np.ndarray):
        value = value.tolist()  # the repr of a long array is abridged
    if isinstance(value, datetime):
        return value.isoformat().removesuffix("T00:00:00")  # one day, whether a date or its midnight
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        parts = sorted(f"{_content(key)}: {_word(part, {})}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    _refuse_unstable(value)
    return repr(value)


def _refuse_unstable(value: Any, name: str = "X") -> None:
    """Refuse a value of X whose content cannot be told: its row would get another u in every process."""
    if getattr(type(value), "__repr__", None) is object.__repr__:
        raise TypeError(
            f"{name} must hold numbers, texts or values with a repr of their content; got a {type(value).__name__}. "
            + ("Pass ids=... that name the rows" if name == "X" else "Pass numbers or texts")
            + ", or give the class a __repr__ that shows its content."
        )


def _digest(content: bytes) -> int:
    from hashlib import blake2b  # slow to import, and few need it

    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _sum_by_row(hashes: Words, indptr: NDArray[Any]) -> Words:
    """Sum consecutive pieces; sums wrap around, so differences of running sums are exact."""
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])
    sums: Words = running[indptr[1:]] - running[indptr[:-1]]
    return sums


def _sparse_seeds(X: Any, key: int) -> Words:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # A cell that is not stored is a zero: start from the hash of an empty row, then swap in what is stored.
    zero = np.zeros(1, dtype=np.uint64)
    empty_row = hash_words(zero, column_keys(key, X.shape[1])).sum(dtype=np.uint64)
    keys = keys_of_columns(key, X.indices)
    words = canonical_words(np.asarray(X.data, dtype=np.float64))
    return seeds_of(empty_row + _sum_by_row(hash_words(words, keys) - hash_words(zero, keys), X.indptr), key)


_OF_IDS = 0x1D5E_ED0F_1D5E_ED0F  # keeps the seed of an id apart from that of a row with the same content
_OF_TEXTS = 0x7E87_7E87_7E87_7E87


_OF_NEGATIVES = 0x5165_5165_5165_5165
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,19}))(?:\.0+)?", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d*?)0*)?)?", re.ASCII)


def id_seeds(ids: NDArray[Any], key: int) -> Words:
    """Return one seed per id. Numbers and the texts that spell them are the same id: 7, 7.0 and "7"; times likewise."""
    if ids.dtype.kind in "iu":
        words = ids.astype(np.uint64)
        words = np.where(ids < 0, words ^ np.uint64(_OF_NEGATIVES), words)
    else:
        values = (np.datetime_as_string(ids) if ids.dtype.kind == "M" else ids).tolist()
        words = _id_words(values)
    return seeds_of(mix(words), key ^ _OF_IDS)


_MAY_BE_NUMBERS = frozenset("-0123456789")  # beginnings of texts that may spell a number or a time


def _id_words(values: list[Any]) -> Words:
    """Return the 64 bits of each id. Most texts spell nothing: they are digested without a look at each."""
    from hashlib import blake2b  # slow to import, and few need it

    plain = np.fromiter((type(v) is str and v[:1] not in _MAY_BE_NUMBERS for v in values), np.bool_, len(values))
    texts = values if plain.all() else [value for value, is_plain in zip(values, plain, strict=True) if is_plain]
    digests = b"".join([blake2b(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts])
    words = np.empty(len(values), dtype=np.uint64)
    words[plain] = np.frombuffer(digests, dtype="<u8") ^ np.uint64(_OF_TEXTS)
    others = np.flatnonzero(~plain)
    words[others] = np.fromiter((_id_word(values[row]) for row in others.tolist()), np.uint64, len(others))
    return words


def _id_word(value: Any) -> int:
    """Return the 64 bits that stand for an id: those of a whole number, else a digest of its text."""
    if type(value) is not str:
        if isinstance(value, Real | np.bool_) and value == value // 1:
            value = int(value)  # type: ignore[arg-type]
        else:
            _refuse_unstable(value, "ids")
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
    whole, time = _WHOLE.fullmatch(text), _TIME.fullmatch(text)
    if whole and -(2**63) <= (number := int(whole[1])) < 2**64:
        return number if number >= 0 else (number & 0xFFFFFFFFFFFFFFFF) ^ _OF_NEGATIVES
    if time:
        day, clock, fraction = time.groups()
        text = day if clock in (None, "00:00:00") and not fraction else f"{day} {clock}.{fraction or 0}"
    return _digest(text.encode("utf-8", "surrogatepass")) ^ _OF_TEXTS
