"""TorchCP: randomised APS sets of 300 rows, twice, from one predictor."""

import conformance.adapters.torchcp  # isort: skip  # noqa: F401  # stands in for packages that it never uses
import torch
from torchcp.classification.predictor import SplitPredictor
from torchcp.classification.score import APS

P = torch.distributions.Dirichlet(torch.ones(5)).sample((800,))
made = SplitPredictor(APS(score_type="identity", randomized=True), alpha=0.1)
made.calculate_threshold(P[:500], P[:500].argmax(dim=1), 0.1)
first, second = made.predict_with_logits(P[500:]), made.predict_with_logits(P[500:])
print("rows with another set:", int((first != second).any(dim=1).sum()), "of 300")
