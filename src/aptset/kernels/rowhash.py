"""Keyed uniforms from the content of a row: the same row gets the same u wherever and whenever it comes.

The hash of a row is the sum over its columns of a 32 x 32 -> 64 bit product of the two halves of the value, each
shifted by a secret of the column (the NH family). A sum does not care about the order in which threads, blocks or
sparse formats visit the columns, and equal values of different dtypes are widened to the same float64 bits first.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
_ALL = 0xFFFFFFFFFFFFFFFF
_NAN = np.uint64(0x7FF8000000000000)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def mix(z: Words) -> Words:
    """Spread every bit of a word over the whole word (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _one(value: int) -> Words:
    return np.array([value & _ALL], dtype=np.uint64)  # arrays wrap around in silence, scalars warn


def keys_of_columns(key: int, columns: NDArray[np.int64]) -> Words:
    """Return the secret of each of the given columns."""
    return mix(_one(key) + (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN))


@lru_cache(maxsize=16)
def column_keys(key: int, n_columns: int) -> Words:
    """Return the secrets of columns 0 .. n_columns - 1."""
    keys = keys_of_columns(key, np.arange(n_columns))
    keys.flags.writeable = False
    return keys


def canonical_words(values: NDArray[np.float64]) -> Words:
    """Return the bits of each value, with one zero and one NaN."""
    words = (values + 0.0).view(np.uint64)
    return np.where(np.isnan(values), _NAN, words)


def hash_words(words: Words, keys: Words) -> Words:
    """Hash each word with the secret beside it (not summed yet)."""
    low, high = words + keys, (words >> _HALF) + (keys >> _HALF)
    low &= _LOW
    high &= _LOW
    high *= low
    return high


def seeds_of(hashes: Words, key: int) -> Words:
    """Turn summed hashes into seeds."""
    return mix(hashes + mix(_one(key + GOLDEN)))


def uniforms(seeds: Words) -> NDArray[np.float64]:
    """Uniforms on [0, 1), one per seed."""
    return (mix(seeds + np.uint64(GOLDEN)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def ties(seeds: Words, u: NDArray[np.float64], n_columns: int) -> Words:
    """Tie-breaker of every label of every row: the smaller one comes first among equal probabilities."""
    tie_seeds = mix(seeds ^ mix((u + 0.0).view(np.uint64)))
    return mix(tie_seeds[:, None] + np.arange(1, n_columns + 1, dtype=np.uint64) * np.uint64(GOLDEN))
