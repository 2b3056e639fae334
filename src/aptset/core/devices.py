"""Where numbers lie: with numpy, in a tensor of torch, or on a device. torch is imported for what is there alone."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aptset.core.validate import install

WORKED_ON = ("cuda",)  # devices whose tensors are worked on where they lie; all others go through the host
_CUDA = (2, 13)  # what DLPack calls memory of CUDA, and memory that CUDA manages


def is_tensor(values: Any) -> bool:
    """Tell whether something is a tensor of torch, which then is loaded."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def is_on_device(values: Any) -> bool:
    """Tell whether numbers lie on a device on which they are worked on."""
    if is_tensor(values):
        return values.device.type in WORKED_ON and values.layout is sys.modules["torch"].strided
    ask = getattr(values, "__dlpack_device__", None)
    return ask is not None and type(values) is not np.ndarray and ask()[0] in _CUDA


def is_sparse(values: Any) -> bool:
    """Tell whether a matrix leaves out its zeros."""
    return hasattr(values, "tocsr") or "sparse" in str(getattr(values, "layout", ""))


def tensor_of(values: Any) -> Any:
    """Return what lies on a device as a tensor without gradients, not copied: from CuPy, JAX, any library by DLPack."""
    if is_tensor(values):
        return values.detach()
    if find_spec("torch") is None:
        kind = type(values).__module__.split(".")[0]
        raise ModuleNotFoundError(f"arrays of {kind} on a device need torch: {install('torch')}")
    import torch

    return torch.from_dlpack(values)


def on_host(values: Any) -> Any:
    """Return a tensor as numpy can take it: from its device, without its gradients, and in a type that numpy has."""
    if type(values) is np.ndarray:
        return values
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return np.asarray(tensor_of(values).cpu()) if is_on_device(values) else values
    values = values.detach().cpu()
    return values.float() if is_bfloat16(values) else values


def is_bfloat16(values: Any) -> bool:
    """Tell whether numbers have the short type that numpy lacks."""
    return str(getattr(values, "dtype", "")).endswith("bfloat16")


def like_input(result: Any, given: Any) -> Any:
    """Return what was found as a tensor if it answers one, on the device where that is worked on."""
    if is_tensor(result):  # a device has answered
        return result
    if is_on_device(given):
        return sys.modules["torch"].from_numpy(result).to(tensor_of(given).device)
    return sys.modules["torch"].from_numpy(result) if is_tensor(given) else result


def meta_array(tensor: Any) -> NDArray[np.generic]:
    """Return an array with the shape and the type of a tensor that takes no memory: what checks look at."""
    return _stand_in(tuple(tensor.shape), tensor.dtype)


@lru_cache(maxsize=64)
def _stand_in(shape: tuple[int, ...], dtype: Any) -> NDArray[np.generic]:
    import torch

    kind = np.asarray(on_host(torch.empty(0, dtype=dtype))).dtype
    return np.broadcast_to(np.zeros((), dtype=kind), shape)
