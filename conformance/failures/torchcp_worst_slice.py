"""TorchCP: a slab (x0 > 0.7) is covered 0.3, the rest 0.95; WSC with M=1000 directions on 4000 rows."""

import conformance.adapters.torchcp  # isort: skip  # noqa: F401  # stands in for packages that it never uses
import torch
from torchcp.classification.utils.metrics import WSC

X, labels = torch.rand((4000, 2), generator=torch.Generator().manual_seed(0)), torch.arange(4000) % 2
covered = torch.rand(4000, generator=torch.Generator().manual_seed(1)) < torch.where(X[:, 0] > 0.7, 0.3, 0.95)
found = WSC(X, torch.stack([covered, covered], dim=1), labels, delta=0.1, M=200)
print(f"worst slice: {float(found):.3f}; coverage of the slab: {covered[X[:, 0] > 0.7].float().mean():.3f}")
