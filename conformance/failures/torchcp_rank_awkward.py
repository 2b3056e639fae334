"""TorchCP: with n = 299 and alpha = 0.19 the threshold is another score than the k-th, k = ceil(0.81 * 300) = 243."""

import conformance.adapters.torchcp  # isort: skip  # noqa: F401  # stands in for packages that it never uses
import torch
from torchcp.classification.predictor import SplitPredictor
from torchcp.classification.score import LAC

p = (torch.arange(299, dtype=torch.float64) + 600) / 1024
P, y = torch.stack([p, 1 - p], dim=1), torch.zeros(299, dtype=torch.int64)
made = SplitPredictor(LAC(score_type="identity"), alpha=0.19)
made.calculate_threshold(P, y, 0.19)
print("scores at most the threshold:", int(made.predict_with_logits(P)[:, 0].sum()), "instead of 243")
