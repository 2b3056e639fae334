"""From a network to prediction sets that a server can use: train, calibrate, export, load, serve.

Run it: python docs/examples/torch_network.py (seconds on one core; it needs torch and scikit-learn).
"""

import tempfile
import warnings
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from aptset.torch import SetLayer

ALPHA = 0.1


def data():
    """Split the digits at random: rows that train, rows that calibrate, rows that play tomorrow's."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images, dtype=torch.float32)[order] / 16
    labels = torch.tensor(labels)[order]
    return [TensorDataset(images[part], labels[part]) for part in (slice(800), slice(800, 1300), slice(1300, None))]


def train(rows):
    """Fit a small network; it need not be good, and nothing is assumed of it."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(8):
        for images, labels in DataLoader(rows, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
    return network.eval()


def main():
    """Return the share of tomorrow's rows whose set holds the true label, and the mean size of the sets."""
    training, calibration, tomorrow = data()
    network = train(training)

    # Rows that the network was not trained on; the layer then stands behind it like any other.
    layer = SetLayer.calibrate(network, DataLoader(calibration, batch_size=128), alpha=ALPHA, random_state=0)
    model = nn.Sequential(network, layer)
    print(layer)

    # One file with network, thresholds and key: whoever loads it needs torch, and nothing else.
    images, labels = tomorrow.tensors
    batch = torch.export.Dim("batch", min=1)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch speaks of its own future here
        path = Path(folder) / "model.pt2"
        torch.export.save(torch.export.export(model, (images[:32],), dynamic_shapes=({0: batch},)), path)
        served = torch.export.load(path).module()

    mask = served(images)
    assert torch.equal(mask, model(images)), "the exported model gives the same sets"
    covered = mask[torch.arange(len(labels)), labels].float().mean().item()
    size = mask.sum(dim=1).float().mean().item()
    print(
        f"promised {1 - ALPHA:.0%}, covered {covered:.1%} of {len(labels)} new rows with {size:.2f} labels on average"
    )

    # For people: the labels of each set, most likely first.
    print(layer.sets(network(images[:3])))
    return covered, size, len(labels)


if __name__ == "__main__":
    main()
