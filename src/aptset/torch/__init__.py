"""A layer of torch that turns what a classifier says into prediction sets; it needs torch, which is an extra."""

from importlib.util import find_spec

from aptset.core.validate import install

if find_spec("torch") is None:
    raise ModuleNotFoundError(f"aptset.torch needs torch: {install('torch')}")

from aptset.calibration.tensors import TensorSets
from aptset.torch.layer import SetLayer

__all__ = ["SetLayer", "TensorSets"]
