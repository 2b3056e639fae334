"""A block of rows as torch sees it: twin of :mod:`aptset.kernels.engines.numpy_engine` that can be traced.

A compiler of graphs must not change a bit either. Masses are summed as whole numbers of grid steps; the two operations
after a product cannot be fused with it (:func:`_product`); order and ties are those of integers.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

import torch

from aptset.kernels.engines.interface import BLOCK_ROWS
from aptset.kernels.formula import First, LinearScore, Operations, mass_score, zero_score
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


_GRID = 2.0**51
_BARRIER = -1e300


def _product(one: Any, other: Any) -> Any:
    """Multiply; the bound, which nothing reaches, keeps compilers from fusing the product with a sum behind it."""
    product = one * other
    return product.clamp(min=_BARRIER) if torch.compiler.is_compiling() else product


_SPLIT = 2.0**27 + 1.0  # times a number: what remains of it in the upper half of its bits
_TINY, _UP, _DOWN = 2.0**-600, 2.0**500, 2.0**-250


def _root(values: Tensor) -> Tensor:
    """Return the square root as IEEE rounds it: that of some libraries is a last bit off now and then."""
    is_tiny = values < _TINY
    x = torch.where(is_tiny, values * _UP, values)
    y = torch.sqrt(x)
    square, split = _product(y, y), _product(y, _SPLIT)
    high = split - (split - y)
    low = y - high
    rest = ((high * high - square) + 2.0 * (high * low)) + low * low  # with the square exactly y * y
    missing = (x - square) - rest
    above, below = (y.view(torch.int64) + 1).view(torch.float64), (y.view(torch.int64) - 1).view(torch.float64)
    y = torch.where(missing > y * (above - y), above, torch.where(missing <= -(y * (y - below)), below, y))
    return torch.where(is_tiny, y * _DOWN, y)


def _power_of_two(twos: Tensor) -> Tensor:
    return ((twos.to(torch.int64) + 1023) << 52).view(torch.float64)


def _step(value: Tensor, term: float, x: Tensor) -> Tensor:
    return _product(value + term, x) if torch.compiler.is_compiling() else value.add_(term).mul_(x)


TORCH = Operations(torch.where, _root, _product, torch.amax, torch.round, _power_of_two, _step)


class PreparedRows(NamedTuple):
    """Exact masses, totals, seeds, uniforms, and which rows are bad."""

    words: Tensor
    mass: Tensor
    total: Tensor
    seeds: Tensor
    u: Tensor
    bad: Tensor


def prepare_rows(probabilities: Tensor, key: Any, tolerance: float, seeds: Tensor, u: Tensor) -> PreparedRows:
    """Widen, put on the grid, sum and check rows; hash them unless there are seeds."""
    values = probabilities.to(torch.float64)
    words, mass = words_of(values), (values + 2.0) - 2.0
    total = mass.sum(dim=1)
    valid = ((values >= 0.0) & (values <= 2.0)).all(dim=1)
    bad = ~(valid & ((total - 1.0).abs() <= tolerance))
    seeds = seeds_of_rows(words, key) if seeds is None else seeds
    return PreparedRows(words, mass, total, seeds, uniforms(seeds) if u is None else u, bad)


def first_bad(bad: Tensor) -> Tensor:
    """Return the first row that is bad, or -1."""
    n = bad.shape[0]
    row = torch.where(bad, torch.arange(n, device=bad.device), n)
    row = torch.cat([row, row.new_full((1,), n)]).min()
    return torch.where(row == n, -1, row)


def ordered_scores(rows: PreparedRows, linear: LinearScore) -> tuple[Tensor, Tensor]:
    """Order of the labels of each row, and their scores in that order (upward)."""
    by_tie = ties(rows.seeds, rows.u, rows.words).argsort(dim=1)
    by_value = torch.sort(rows.words.gather(1, by_tie), dim=1, descending=True, stable=True).indices
    order = by_tie.gather(1, by_value)
    mass = rows.mass.gather(1, order)
    steps = (mass * _GRID).to(torch.int64)
    above = (steps.cumsum(dim=1) - steps).to(torch.float64) / _GRID
    rank = torch.arange(1, mass.shape[1] + 1, device=mass.device).to(torch.float64)[None, :]
    return order, _scores(rows, linear, above, mass, mass[:, 0:1], mass[:, 1:2], rank)


def label_scores(rows: PreparedRows, linear: LinearScore, labels: Tensor) -> Tensor:
    """Score of one label a row, without an order of the others."""
    labels = labels[:, None]
    words, own = rows.words.gather(1, labels), rows.mass.gather(1, labels)
    breakers = ties(rows.seeds, rows.u, rows.words)
    is_greater = rows.words > words
    is_before = (rows.words == words) & (breakers < breakers.gather(1, labels))
    before = is_before.sum(dim=1, keepdim=True).to(torch.float64)
    above = torch.where(is_greater, rows.mass, 0.0).sum(dim=1, keepdim=True) + before * own
    rank = is_greater.sum(dim=1, keepdim=True).to(torch.float64) + before + 1.0
    two = rows.mass.topk(2, dim=1).values
    return _scores(rows, linear, above, own, two[:, 0:1], two[:, 1:2], rank)[:, 0]


def _scores(
    rows: PreparedRows, linear: LinearScore, above: Tensor, own: Tensor, top: Tensor, second: Tensor, rank: Tensor
) -> Tensor:
    """Score labels from where they stand; those without mass stand behind, where they do."""
    total, u = rows.total[:, None], rows.u[:, None]
    scores = mass_score(linear, above, own, top, second, total, rank, u, TORCH)
    if not linear.behind:
        return scores
    with_mass = (rows.mass > 0.0).sum(dim=1, keepdim=True)
    zeros = (rows.mass.shape[1] - with_mass).clamp(min=1).to(torch.float64)
    behind = zero_score(linear, rank - 1.0 - with_mass.to(torch.float64), zeros, rank, u, TORCH)
    return torch.where(own > 0.0, scores, behind)


def filled(inside: Tensor, min_size: int) -> Tensor:
    """Give empty sets the first label in order, if sets must hold one."""
    if not min_size:
        return inside
    is_first = torch.arange(inside.shape[1], device=inside.device) == 0
    return inside | (is_first & ~inside.any(dim=1, keepdim=True))


def mask_of(rows: PreparedRows, linear: LinearScore, thresholds: Tensor, min_size: int) -> Tensor:
    """Flag the members; thresholds are (1 or rows, 1), or (1, labels) for each column."""
    order, scores = ordered_scores(rows, linear)
    if thresholds.shape[1] > 1:
        thresholds = thresholds[0][order]
    inside = filled(scores <= thresholds, min_size)
    return torch.zeros_like(inside).scatter(1, order, inside)


def in_numbers_of_python(linear: LinearScore) -> LinearScore:
    """Return a linear score that takes a tensor for a tensor: numbers of numpy would make an array of it."""
    first = None if linear.first is None else First(**_floats_of(linear.first))
    return LinearScore(**{**_floats_of(linear), "behind": bool(linear.behind), "first": first})


def _floats_of(numbers: LinearScore | First) -> dict[str, Any]:
    return {
        field.name: float(getattr(numbers, field.name) or 0.0) for field in fields(numbers) if field.name != "first"
    }
