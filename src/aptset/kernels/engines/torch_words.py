"""Hashes, uniforms, ties and copies in operations of torch: twin of :mod:`aptset.kernels.rowhash`.

Words of 64 bits are int64 here, with the same bits: products and sums wrap around alike, and a shift to the right fills
with zeros once the upper bits are masked. Nothing depends on values of the data but by ``where``, so all of it can be
traced.
"""

from __future__ import annotations

from typing import Any

import torch

from aptset.kernels.engines.seam import BLOCK_ROWS
from aptset.kernels.rowhash import GOLDEN

Tensor = Any

_LOW = 0xFFFFFFFF
_NAN = 0x7FF8000000000000
_MOST = (
    2**63 - 1
)  # compilers of graphs write numbers out, and -(2**63) would be 2**63, which no word holds, with a minus


def signed(word: int) -> int:
    """Return the int64 with the bits of a 64-bit word."""
    word &= 2**64 - 1
    return word - 2**64 if word >= 2**63 else word


_GOLDEN, _FIRST, _SECOND = signed(GOLDEN), signed(0xBF58476D1CE4E5B9), signed(0x94D049BB133111EB)


def shifted(words: Tensor, bits: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def mix(words: Tensor) -> Tensor:
    """Spread every bit of a word over the whole word."""
    words = (words ^ shifted(words, 30)) * _FIRST
    words = (words ^ shifted(words, 27)) * _SECOND
    return words ^ shifted(words, 31)


def words_of(values: Tensor) -> Tensor:
    """Return the bits of float64 values, with one zero; those of values that are not negative are in their order."""
    words = values.view(torch.int64)
    return torch.where(words < -_MOST, 0, words)  # -0.0 is the least word


def seeds_of_rows(words: Tensor, key: Any) -> Tensor:
    """Return the seed of each row of words; the key is a number, or a tensor with its bits."""
    secret = key if isinstance(key, torch.Tensor) else torch.full((), signed(key), dtype=torch.int64).to(words.device)
    secrets = mix(secret + _numbers(words) * _GOLDEN)
    low = (words + secrets) & _LOW
    high = ((words >> 32) + (secrets >> 32)) & _LOW
    return mix((low * high).sum(dim=1) + mix(secret + _GOLDEN))


def hash_of_rows(values: Tensor, key: int) -> Tensor:
    """Return the seed of each row of numbers, with one NaN."""
    wide = values.to(torch.float64)
    return seeds_of_rows(torch.where(torch.isnan(wide), _NAN, words_of(wide)), key)


def uniforms(seeds: Tensor) -> Tensor:
    """Uniforms on [0, 1), one per seed."""
    return shifted(mix(seeds + _GOLDEN), 11).to(torch.float64) * 2.0**-53


def ties(seeds: Tensor, u: Tensor, words: Tensor) -> Tensor:
    """Tie-breaker of every label of every row, in the order of signed words."""
    of_rows = mix(seeds ^ mix(words_of(u)))
    return mix(of_rows[:, None] + _numbers(words) * _GOLDEN) - _MOST - 1  # unsigned words in the order of signed ones


def own_seeds(seeds: Tensor, side: int, first_row: int) -> tuple[Tensor, Tensor]:
    """Return the seeds with every copy's own in its place, and how many copies there are (:mod:`.copies`)."""
    place = torch.arange(seeds.shape[0], device=seeds.device)
    block = place // BLOCK_ROWS
    by_seed = torch.sort(seeds, stable=True).indices
    order = by_seed[torch.sort(block[by_seed], stable=True).indices]
    ordered, blocks = seeds[order], block[order]
    is_new = (ordered != ordered.roll(1)) | (blocks != blocks.roll(1)) | (place == 0)
    number = place - torch.cummax(torch.where(is_new, place, 0), dim=0).values
    number = torch.zeros_like(place).scatter(0, order, number)
    salt = ((block + first_row // BLOCK_ROWS) * BLOCK_ROWS + number) * 2 + side
    return torch.where(number > 0, mix(seeds + mix(salt + _GOLDEN)), seeds), (number > 0).sum()


def _numbers(words: Tensor) -> Tensor:
    """Return 1, 2, ... for the columns.

    A compiler of graphs takes numbers of places for indices, of 32 bits, and products with them, too; what comes from
    words is none.
    """
    numbers = torch.arange(1, words.shape[1] + 1, device=words.device)
    return numbers + (words & 0) if torch.compiler.is_compiling() else numbers
