"""A softmax with the same bits on every device, compiled or not: products and sums alone, each rounded once.

Libraries round the exponential differently, and a row that differs in its last bit has another hash, so another u.
"""

from __future__ import annotations

from math import factorial

import torch

from aptset.kernels.engines.torch_rows import TORCH
from aptset.kernels.engines.torch_words import Tensor
from aptset.kernels.formula import sum_of_row

_BLOCK_CELLS = 2**17
_LOWEST = -708.0  # below this the exponential is no normal number any more: no mass at all
_PER_LOG = 1.4426950408889634  # 1 / ln 2
_LOG, _LOG_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2; the first times 2^20 is exact
_SERIES = tuple(1.0 / factorial(n) for n in range(14))  # up to ln 2 / 2 what is left out is below half a unit


def softmax(logits: Tensor) -> Tensor:
    """Return the probabilities of logits in float64; rows that have none come out as NaN."""
    wide = logits.to(torch.float64)
    weights = exponential(wide - wide.amax(dim=1, keepdim=True))
    return weights / sum_of_row(weights)


def exponential(values: Tensor) -> Tensor:
    """Return e to the power of values that are at most 0."""
    kept = values.clamp(min=_LOWEST)
    twos = torch.round(kept * _PER_LOG)
    rest = (kept - TORCH.product(twos, _LOG)) - TORCH.product(twos, _LOG_REST)
    power = torch.full_like(rest, _SERIES[-1])
    for term in reversed(_SERIES[:-1]):
        power = TORCH.product(power, rest) + term
    scale = ((twos.to(torch.int64) + 1023) << 52).view(torch.float64)
    return torch.where(values < _LOWEST, 0.0, power * scale)


def softmax_by_blocks(logits: Tensor) -> Tensor:
    """Return the same of many rows, with little memory beside the result."""
    found = torch.empty(logits.shape, dtype=torch.float64, device=logits.device)
    step = max(1, _BLOCK_CELLS // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        found[start : start + step] = softmax(logits[start : start + step])
    return found
