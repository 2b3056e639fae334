"""A layer of torch that turns what a classifier says into prediction sets; it needs torch, which is an extra."""

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError("aptset.torch needs torch: pip install 'aptset[gpu]'")

from aptset.calibration.tensor_sets import TensorSets
from aptset.torch.layer import SetLayer

__all__ = ["SetLayer", "TensorSets"]
