"""The masks of a layer in operations that a compiled or exported graph can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from aptset.kernels.copies import PREDICTION
from aptset.kernels.engines.torch_rows import TORCH, filled, open_rows, ordered_scores
from aptset.kernels.engines.torch_words import own_seeds, seeds_of_rows, words_of
from aptset.kernels.formula import normalised, tempered
from aptset.kernels.softmax import softmax

if TYPE_CHECKING:
    from aptset.torch.layer import SetLayer

Tensor = Any


def masks_in_graph(layer: SetLayer, inputs: Tensor, tolerance: float) -> Tensor:
    """Return the masks at every level, (levels, rows, classes); a graph cannot raise, so bad rows hold every label."""
    logits = values = inputs.detach().to(torch.float64)
    values = softmax(values, TORCH) if layer.logits else values
    values = normalised(values, TORCH) if layer.normalize else values
    values = values if layer.power == 1.0 else tempered(values, layer.power, tolerance, TORCH)
    hashed = logits if layer.logits else values  # logits that differ stay different where probabilities are 0 and 1
    seeds, _ = own_seeds(seeds_of_rows(words_of(hashed), layer.key), PREDICTION, 0)
    u = None if layer.randomized else torch.ones_like(values[:, 0])
    rows = open_rows(values, layer.key, tolerance, seeds, u)
    order, scores = ordered_scores(rows, layer.weights)
    masks = []
    for level in layer.thresholds.unbind(0):
        inside = filled(scores <= (level[order] if layer.by_label else level), layer.at_least)
        masks.append(torch.zeros_like(inside).scatter(1, order, inside) | rows.bad[:, None])
    return torch.stack(masks)
