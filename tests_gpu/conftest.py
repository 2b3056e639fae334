"""Tests run on the host by operations of torch, and where there is a GPU also there, by them and by the kernels."""

import os

import pytest

from aptset.core import devices


def pytest_collection_modifyitems(config, items):
    """Keep one part of several, "2/8": processes that run beside each other share what they compiled."""
    part, n_parts = map(int, os.environ.get("APTSET_PART", "0/1").split("/"))
    config.hook.pytest_deselected(items=[item for number, item in enumerate(items) if number % n_parts != part])
    items[:] = items[part::n_parts]


@pytest.fixture(params=["cpu", "cuda by operations of torch", "cuda"])
def device(request, monkeypatch):
    """Name a device; tensors of the host count as on one here, so that all that is done for a device runs in CI too."""
    import torch  # pytest reads this file for the doctests too, where there may be none

    kind = request.param.split()[0]
    if kind == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here")
    if request.param != "cuda":
        monkeypatch.setenv("APTSET_KERNELS", "torch")
    monkeypatch.setattr(devices, "WORKED_ON", ("cuda", kind))
    if request.param == "cuda":
        from aptset.kernels.cuda import Launcher

        monkeypatch.setattr(Launcher, "in_haste", False)  # kernels are those that most calls take
    return kind
