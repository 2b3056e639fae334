"""The masks of a layer: one operator of torch with kernels on CUDA and compiled loops on processors, or a plain graph.

Nobody waits for the device inside: key and thresholds stay there, and numbers that lie there, too, tell of bad rows.
So graphs of CUDA can hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from aptset.calibration.device_rows import UNKNOWN, DeviceRows
from aptset.calibration.tensors import mask_and_report
from aptset.core.devices import on_host
from aptset.kernels.engines.torch_rows import (
    TORCH,
    filled,
    ordered_scores,
    prepare_rows,
    seeds_of_rows,
    words_of,
)
from aptset.kernels.engines.torch_rows import own_seeds as own_seeds_of_tensor
from aptset.kernels.formula import Floats, Formula, LinearScore, normalised, tempered
from aptset.kernels.membership import masks
from aptset.kernels.rowhash import Words
from aptset.kernels.rows import PREDICTION, Rows, hash_rows, own_seeds, softmax_by_blocks
from aptset.kernels.softmax import softmax

if TYPE_CHECKING:
    from aptset.torch.layer import SetLayer

Tensor = Any

_ALL_BITS = 2**64 - 1
_SCHEMA = (
    "(Tensor inputs, Tensor threshold_bits, Tensor key, float[] weights, float power, float tolerance, bool logits, "
    "bool normalize, bool randomized, int min_size) -> (Tensor, Tensor)"
)


def _empty(inputs: Tensor, threshold_bits: Tensor) -> tuple[Tensor, Tensor]:
    masks = inputs.new_empty((threshold_bits.shape[0], *inputs.shape), dtype=torch.bool)
    return masks, inputs.new_empty(2, dtype=torch.int64)


def _by_level(
    inputs: Tensor,
    threshold_bits: Tensor,
    key: Tensor,
    weights: Sequence[float],
    power: float,
    tolerance: float,
    logits: bool,
    normalize: bool,
    randomized: bool,
    min_size: int,
) -> tuple[list[Tensor], Tensor]:
    """Return the mask at each level, and what :func:`mask_and_report` says of the rows, of which there must be some."""
    u = None if randomized else torch.ones(inputs.shape[0], dtype=torch.float64, device=inputs.device)
    formula, levels = _formula(tuple(weights), power), threshold_bits.view(torch.float64).unbind(0)
    rows = DeviceRows(inputs, formula, key, tolerance, None, u, normalize, PREDICTION, 0, logits)
    pairs = [mask_and_report(rows, level, min_size) for level in levels]
    return [mask for mask, _ in pairs], pairs[0][1]


def _on_device(inputs: Tensor, threshold_bits: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Return the masks at every level, and the first bad row and whether a row is none of probabilities."""
    if inputs.shape[0] == 0:
        return _empty(inputs, threshold_bits)[0], torch.full((2,), UNKNOWN, device=inputs.device)
    masks, bad = _by_level(inputs, threshold_bits, *rest)
    report = bad.reshape(-1)
    report = report if report.shape[0] == 2 else torch.cat([report, torch.full_like(report, UNKNOWN)])
    return _together(masks), report


def _together(masks: list[Tensor]) -> Tensor:
    return masks[0][None] if len(masks) == 1 else torch.stack(masks)


def _on_host(
    inputs: Tensor,
    threshold_bits: Tensor,
    key: Tensor,
    weights: list[float],
    power: float,
    tolerance: float,
    logits: bool,
    normalize: bool,
    randomized: bool,
    min_size: int,
) -> tuple[Tensor, Tensor]:
    """Return the same by the loops of processors."""
    result, report = _empty(inputs, threshold_bits)
    report.fill_(UNKNOWN)
    if len(inputs) == 0:
        return result, report
    matrix, number = np.asarray(on_host(inputs)), int(key) & _ALL_BITS
    values = softmax_by_blocks(matrix) if logits else matrix
    u = None if randomized else np.ones(len(matrix))
    rows = Rows(values, _formula(tuple(weights), power), number, tolerance, None, u, normalize)
    seeds = own_seeds(hash_rows(matrix, number) if logits else rows.content_seeds(), PREDICTION)
    report[0] = _fill(result, rows, seeds, threshold_bits.view(torch.float64).numpy(), min_size)
    return result, report


def _fill(result: Tensor, rows: Rows, seeds: Words, thresholds: Floats, min_size: int) -> int:
    """Write the masks and return the first bad row; bad ones hold every label, and do not change the sets of others."""
    rows, first_bad = replace(rows, seeds=seeds), -1
    kept: Any = slice(None)
    for flags, level in zip(result.numpy(), thresholds, strict=True):
        members, bad = masks(rows, level[None], min_size)
        if bad >= 0:  # which is the same at every level
            first_bad, kept = bad, np.flatnonzero(~_bad_rows(rows))
            u = None if rows.u is None else rows.u[kept]
            rows = replace(rows, probabilities=rows.probabilities[kept], seeds=seeds[kept], u=u)
            members = (
                masks(rows, level[None], min_size)[0] if len(rows) else np.empty(rows.probabilities.shape, np.bool_)
            )
        flags[:] = True
        flags[kept] = members
    return first_bad


def _bad_rows(rows: Rows) -> NDArray[np.bool_]:
    """Tell which rows are bad, as :class:`Rows` says."""

    def work(block: Rows, start: int, stop: int) -> NDArray[np.bool_]:
        wide = block.probabilities.astype(np.float64)
        with np.errstate(invalid="ignore"):
            off = np.abs(((wide + 2.0) - 2.0).sum(axis=1) - 1.0)
            is_bad: NDArray[np.bool_] = ~(((wide >= 0.0) & (wide <= 2.0)).all(axis=1) & (off <= rows.tolerance))
        return is_bad

    return np.concatenate(rows.over_blocks(work))


@lru_cache(maxsize=64)
def _formula(flat: tuple[float, ...], power: float) -> Formula:
    return Formula(LinearScore.of_flat(flat), power=power)


OPERATOR = torch.library.custom_op("aptset::set_masks", _on_device, mutates_args=(), schema=_SCHEMA)
OPERATOR.register_kernel("cpu")(_on_host)
OPERATOR.register_fake(lambda inputs, threshold_bits, *_: _empty(inputs, threshold_bits))


def set_masks(is_sequence: bool, inputs: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Call the operator, of inputs without gradients; nobody goes the long way through torch where nobody looks.

    Without a sequence of levels the mask of the only one comes alone. The report may be of the first bad row alone.
    """
    is_watched = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
    if is_watched or type(inputs) is not torch.Tensor:
        masks, report = OPERATOR(inputs, *rest)
    elif inputs.device.type == "cpu":
        masks, report = _on_host(inputs, *rest)
    elif inputs.shape[0] == 0:
        masks, report = _on_device(inputs, *rest)
    else:
        by_level, report = _by_level(inputs, *rest)
        masks = _together(by_level) if is_sequence else by_level
    return masks if is_sequence else masks[0], report


def masks_in_graph(layer: SetLayer, inputs: Tensor, tolerance: float) -> Tensor:
    """Return the masks at every level, (levels, rows, classes), by operations that an exported graph can hold.

    A graph cannot raise an error, so bad rows hold every label.
    """
    logits = values = inputs.detach().to(torch.float64)
    values = softmax(values, TORCH) if layer.logits else values
    values = normalised(values, TORCH) if layer.normalize else values
    values = values if layer.power == 1.0 else tempered(values, layer.power, tolerance, TORCH)
    hashed = logits if layer.logits else values  # logits that differ stay different where probabilities are 0 and 1
    seeds, _ = own_seeds_of_tensor(seeds_of_rows(words_of(hashed), layer.key), PREDICTION, 0)
    u = None if layer.randomized else torch.ones_like(values[:, 0])
    rows = prepare_rows(values, layer.key, tolerance, seeds, u)
    order, scores = ordered_scores(rows, layer.weights)
    masks = []
    for level in layer.thresholds.unbind(0):
        inside = filled(scores <= (level[order] if layer.by_label else level), layer.at_least)
        masks.append(torch.zeros_like(inside).scatter(1, order, inside) | rows.bad[:, None])
    return torch.stack(masks)
