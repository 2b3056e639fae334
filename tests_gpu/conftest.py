"""Tests run on the host by operations of torch, and where there is a GPU also there, by them and by the kernels."""

import pytest

from aptset.core import devices


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
    return kind
